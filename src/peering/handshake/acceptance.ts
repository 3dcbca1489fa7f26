// The steps of an acceptance, in their order, and their outcomes in the status of the peer. Hard steps
// end the acceptance where they fail. Soft steps leave a warning, and an operator can repeat them.
//
// Handshake and command line share the same orchestration: `handshake.ts` takes the hard
// steps along the table of peer states, then runs the soft steps of this file. Every step is idempotent,
// and the status tells which steps are left, so a crash between any two of them loses nothing.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import { toHansaError } from '../../core/errors/error.ts';

type PeerStatus = NonNullable<FederationPeer['status']>;
export type Acceptance = NonNullable<PeerStatus['acceptance']>;
export type StepRecord = Acceptance['steps'][number];
export type AcceptanceStep = StepRecord['step'];

export const acceptanceSteps: readonly Pick<StepRecord, 'step' | 'need'>[] = [
  { step: 'contract', need: 'hard' },
  { step: 'invitation', need: 'hard' },
  { step: 'accept', need: 'hard' },
  { step: 'enrol', need: 'hard' },
  { step: 'grants', need: 'hard' },
  { step: 'attach', need: 'soft' },
  { step: 'governance', need: 'soft' },
];

export interface StepOutcome {
  readonly outcome: StepRecord['outcome'];
  readonly message?: string;
  /** Findings that an operator should know although the step succeeded. */
  readonly warnings?: readonly string[];
}

export type SoftStep = 'attach' | 'governance';

/** Each must be idempotent: it runs again after a crash, and for `hansa peer retry`. */
export type SoftSteps = Readonly<Record<SoftStep, (peer: FederationPeer) => Promise<StepOutcome>>>;

/** The soft steps of this version. */
export const softSteps: SoftSteps = {
  attach: () => Promise.resolve({ outcome: 'skipped', message: 'this site has no overlay' }),
  governance: () =>
    Promise.resolve({ outcome: 'skipped', message: 'this site has no governance scan' }),
};

/** As many as the schema allows. */
const maxWarnings = 32;
const maxMessage = 512;

/** Sets outcomes in the status. The time of a step stays where its outcome and message stay. */
export function withSteps(
  status: PeerStatus,
  outcomes: { readonly [step in AcceptanceStep]?: StepOutcome },
  nowMs: number,
): PeerStatus {
  const before = new Map((status.acceptance?.steps ?? []).map((each) => [each.step, each]));
  const steps = acceptanceSteps.flatMap(({ step, need }): readonly StepRecord[] => {
    const known = before.get(step);
    const outcome = outcomes[step];
    if (outcome === undefined) return known === undefined ? [] : [known];
    const message = outcome.message?.slice(0, maxMessage);
    if (known?.outcome === outcome.outcome && known.message === message) return [known];
    const text = message === undefined ? {} : { message };
    return [{ step, need, outcome: outcome.outcome, ...text, at: timestamp(nowMs) }];
  });
  return { ...status, acceptance: { ...status.acceptance, steps } };
}

/** Adds warnings that are not there yet. */
export function withWarnings(status: PeerStatus, told: readonly string[]): PeerStatus {
  const { acceptance } = status;
  if (acceptance === undefined || told.length === 0) return status;
  const all = [...(acceptance.warnings ?? []), ...told.map((text) => text.slice(0, maxMessage))];
  const warnings = [...new Set(all)].slice(0, maxWarnings);
  return { ...status, acceptance: { ...acceptance, warnings } };
}

export type SoftOutcomes = Readonly<Record<SoftStep, StepOutcome>>;

/** Runs the soft steps that are not done. A failure is an outcome, never an error. */
export async function runSoftSteps(steps: SoftSteps, peer: FederationPeer): Promise<SoftOutcomes> {
  const run = async (step: SoftStep): Promise<StepOutcome> => {
    const known = peer.status?.acceptance?.steps.find((each) => each.step === step);
    if (known?.outcome === 'done') {
      const { outcome, message } = known;
      return message === undefined ? { outcome } : { outcome, message };
    }
    try {
      return await steps[step](peer);
    } catch (error) {
      return { outcome: 'failed', message: toHansaError(error).message };
    }
  };
  // In this order: a scan looks at what was attached.
  const attach = await run('attach');
  return { attach, governance: await run('governance') };
}

/** The acceptance is complete. Warnings of soft steps replace those of an earlier run. */
export function completed(
  status: PeerStatus,
  outcomes: SoftOutcomes,
  fromPeer: readonly string[],
  nowMs: number,
): PeerStatus {
  const next = withSteps(status, outcomes, nowMs);
  const acceptance: Acceptance = {
    steps: next.acceptance?.steps ?? [],
    completedAt: status.acceptance?.completedAt ?? timestamp(nowMs),
  };
  return withWarnings({ ...next, acceptance }, [...warningsOf(outcomes), ...fromPeer]);
}

export function warningsOf(outcomes: SoftOutcomes): readonly string[] {
  return (['attach', 'governance'] as const).flatMap((step) => {
    const { outcome, message = 'no reason', warnings = [] } = outcomes[step];
    return outcome === 'failed' ? [`${step} failed: ${message}`, ...warnings] : warnings;
  });
}

/** What the answer to a redemption tells the acceptor about the steps of this site. */
export interface AcceptanceAnswer {
  /** How a node of the acceptor enrols. Only a managed child gets one, so it is null. */
  readonly node_enrollment: null;
  readonly attach?: Omit<StepOutcome, 'warnings'>;
  readonly governance?: Omit<StepOutcome, 'warnings'>;
  readonly warnings: readonly string[];
}

export function acceptanceAnswer(acceptance: Acceptance | undefined): AcceptanceAnswer {
  const outcomeOf = (step: SoftStep) => {
    const found = acceptance?.steps.find((each) => each.step === step);
    if (found === undefined) return {};
    const { outcome, message } = found;
    return { [step]: message === undefined ? { outcome } : { outcome, message } };
  };
  return {
    node_enrollment: null,
    ...outcomeOf('attach'),
    ...outcomeOf('governance'),
    warnings: acceptance?.warnings ?? [],
  };
}
