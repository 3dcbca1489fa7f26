// The phases of authorities: a pure state machine over the set of authorities of one kind. X.509 and
// JWT authorities follow the same rules.
//
//   prepare → prepared → activate → active → (the next is activated) → old → taint → tainted
//   revoke removes an authority from the set, and so from the bundle, for good.
//
// An old authority is never activated again: the site deletes its private key when it stops signing.

import { HansaError } from '../../errors/error.ts';

export type AuthorityKind = 'x509' | 'jwt';

/**
 * prepared: published, so that peers trust it before it signs. active: signs; there is one.
 * old: no longer signs, and stays published until everything that it signed has expired.
 * tainted: an old one that may be compromised; the site replaces everything that it signed at once.
 */
export type AuthorityState = 'prepared' | 'active' | 'old' | 'tainted';

export type AuthorityVerb = 'prepare' | 'activate' | 'taint' | 'revoke';

/** The phase of one authority, and since when. */
export interface AuthorityPhase {
  /** SHA-256 of the certificate in hex; the key id of a JWT key. */
  readonly id: string;
  readonly state: AuthorityState;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly preparedAtMs: number;
  readonly activatedAtMs: number | undefined;
  /** When it stopped signing. */
  readonly retiredAtMs: number | undefined;
  readonly taintedAtMs: number | undefined;
}

export interface PhaseStep {
  readonly verb: AuthorityVerb;
  readonly id: string;
  readonly notAfterMs: number;
}

export interface Phased<P extends AuthorityPhase> {
  readonly set: readonly P[];
  readonly steps: readonly PhaseStep[];
}

/** Most authorities of a kind: one active, one prepared, and old ones that expire within an hour. */
export const maxAuthoritiesOfAKind = 8;

/** Longest lifetime of an SVID. It is short, so that stolen SVIDs expire without revocation lists. */
export const maxTtlSeconds = 3600;
/** Clock skew that the site allows for. */
export const clockSkewMs = 60_000;

/** When the authority entered its phase. */
export function sinceMsOf(phase: AuthorityPhase): number {
  const { taintedAtMs, retiredAtMs, activatedAtMs, preparedAtMs } = phase;
  return taintedAtMs ?? retiredAtMs ?? activatedAtMs ?? preparedAtMs;
}

/** When everything that it signed has expired; undefined while it may still sign. */
export function signedUntilMs(phase: AuthorityPhase): number | undefined {
  const { retiredAtMs } = phase;
  if (retiredAtMs === undefined) return undefined;
  return Math.min(retiredAtMs + maxTtlSeconds * 1000 + clockSkewMs, phase.notAfterMs);
}

/** Whether everything that an old one signed has expired, or a prepared one has itself expired. */
export function hasLapsed(phase: AuthorityPhase, nowMs: number): boolean {
  if (phase.state === 'prepared') return nowMs >= phase.notAfterMs;
  const untilMs = signedUntilMs(phase);
  return untilMs !== undefined && nowMs >= untilMs;
}

/** False before `notBeforeMs` too: after a clock was set back, no peer would trust what it signs. */
export function isValidAt(
  { notBeforeMs, notAfterMs }: Pick<AuthorityPhase, 'notBeforeMs' | 'notAfterMs'>,
  nowMs: number,
): boolean {
  return nowMs >= notBeforeMs && nowMs < notAfterMs;
}

/**
 * Why the site does not trust its clock enough to replace an expired X.509 authority; undefined where
 * it does. A running site activates the next authority at half of the lifetime and prepares another.
 * If all have expired, the site was down for weeks or the clock is wrong. No peer would know a new
 * authority, and the old keys would be lost, so an operator has to decide.
 */
export function clockDoubt(
  set: readonly AuthorityPhase[],
  nowMs: number,
  trustedUntilMs: number | undefined,
): string | undefined {
  const active = set.find(({ state }) => state === 'active');
  if (active === undefined || nowMs < active.notAfterMs) return undefined;
  if (trustedUntilMs !== undefined && nowMs <= trustedUntilMs) return undefined;
  // Peers already hold it, so they keep trusting the site.
  if (set.some((one) => one.state === 'prepared' && isValidAt(one, nowMs))) return undefined;
  const { activatedAtMs, preparedAtMs, notAfterMs } = active;
  if ((notAfterMs - (activatedAtMs ?? preparedAtMs)) / 2 < doubtfulMs) return undefined;
  const day = new Date(nowMs + 86_400_000).toISOString().slice(0, 10);
  return `the clock says ${timeText(nowMs)}, but the authority of this site was valid until ${timeText(notAfterMs)}. A running site replaces it long before that, so the clock is wrong, or the site was down for a long time. Correct the clock. If it is right, start once with --ca-clock-trusted-until ${day}T00:00:00Z: the site then creates a new authority, and peers need a new invitation`;
}

/** Authorities with a shorter lifetime may expire over a holiday; the site replaces them without an operator. */
const doubtfulMs = 7 * 86_400_000;

/** Removes authorities that are no longer needed. Always keeps the active one. */
export function prune<P extends AuthorityPhase>(set: readonly P[], nowMs: number): Phased<P> {
  const gone = set.filter((phase) => hasLapsed(phase, nowMs));
  return {
    set: gone.length === 0 ? set : set.filter((phase) => !gone.includes(phase)),
    steps: gone.map((phase) => stepOf('revoke', phase)),
  };
}

/** Throws where none can be prepared now: one at a time, and the set is bounded. */
export function assertRoom(set: readonly AuthorityPhase[], nowMs: number): void {
  const kept = prune(set, nowMs).set;
  const known = kept.find(({ state }) => state === 'prepared');
  if (known !== undefined) {
    throw new HansaError(
      'HANSA_ALREADY_EXISTS',
      `Cannot prepare an authority: ${short(known.id)} is prepared already. Activate it, or revoke it.`,
    );
  }
  if (kept.length >= maxAuthoritiesOfAKind) {
    const oldest = kept.find(({ state }) => state === 'old' || state === 'tainted');
    throw refuse(
      `Cannot prepare an authority: there are ${kept.length}, and the limit is ${maxAuthoritiesOfAKind}. Wait until ${timeText(oldest === undefined ? undefined : signedUntilMs(oldest))}, when the site removes the oldest, or taint and revoke it.`,
    );
  }
}

/** Adds `made` as prepared: published, but not signing. */
export function prepare<P extends AuthorityPhase>(
  set: readonly P[],
  made: P,
  nowMs: number,
): Phased<P> {
  assertRoom(set, nowMs);
  const kept = prune(set, nowMs);
  const phase: P = {
    ...made,
    state: 'prepared',
    preparedAtMs: nowMs,
    activatedAtMs: undefined,
    retiredAtMs: undefined,
    taintedAtMs: undefined,
  };
  return { set: [...kept.set, phase], steps: [...kept.steps, stepOf('prepare', phase)] };
}

/** Activates the prepared one; the previously active one becomes old. */
export function activate<P extends AuthorityPhase>(
  set: readonly P[],
  named: string | undefined,
  nowMs: number,
): Phased<P> {
  const next =
    named === undefined ? set.find(({ state }) => state === 'prepared') : find(set, named);
  if (next === undefined) {
    throw refuse('Cannot activate an authority: none is prepared. Prepare one first.');
  }
  if (next.state !== 'prepared') {
    throw refuse(
      `Cannot activate ${short(next.id)}: it is ${next.state}, and only a prepared authority can be activated. Prepare a new one.`,
    );
  }
  if (!isValidAt(next, nowMs)) {
    throw refuse(
      `Cannot activate ${short(next.id)}: it is valid from ${timeText(next.notBeforeMs)} to ${timeText(next.notAfterMs)}, but the clock says ${timeText(nowMs)}. Check the clock, or revoke it and prepare a new one.`,
    );
  }
  return {
    set: set.map((phase) => {
      if (phase === next) return { ...phase, state: 'active', activatedAtMs: nowMs };
      return phase.state === 'active' ? { ...phase, state: 'old', retiredAtMs: nowMs } : phase;
    }),
    steps: [stepOf('activate', next)],
  };
}

/** Taints an old one. Without a name, the one that signed last. */
export function taint<P extends AuthorityPhase>(
  set: readonly P[],
  named: string | undefined,
  nowMs: number,
): Phased<P> {
  const old = named === undefined ? lastRetired(set, ['old']) : find(set, named);
  if (old === undefined) {
    throw refuse(
      'Cannot taint an authority: none is old. The active authority becomes old when you activate the next one.',
    );
  }
  if (old.state !== 'old') {
    throw refuse(
      `Cannot taint ${short(old.id)}: it is ${old.state}, and only an old authority can be tainted.${old.state === 'active' ? ' Activate another first, or rotate with --emergency.' : ''}`,
    );
  }
  return {
    set: set.map((phase) =>
      phase === old ? { ...phase, state: 'tainted', taintedAtMs: nowMs } : phase,
    ),
    steps: [stepOf('taint', old)],
  };
}

/**
 * Removes one from the bundle: a prepared or tainted one at any time, an old one when everything that
 * it signed has expired, the active one never. Without a name, the tainted one that signed last.
 */
export function revoke<P extends AuthorityPhase>(
  set: readonly P[],
  named: string | undefined,
  nowMs: number,
): Phased<P> {
  const gone = named === undefined ? lastRetired(set, ['tainted', 'old']) : find(set, named);
  if (gone === undefined) {
    throw refuse('Cannot revoke an authority: none is old or tainted.');
  }
  if (gone.state === 'active') {
    throw refuse(
      `Cannot revoke ${short(gone.id)}: it is the active one. Prepare and activate another first, or rotate with --emergency.`,
    );
  }
  const untilMs = signedUntilMs(gone) ?? 0;
  if (gone.state === 'old' && nowMs < untilMs) {
    throw refuse(
      `Cannot revoke ${short(gone.id)}: SVIDs that it signed are valid until ${timeText(untilMs)}. Wait, or taint it first, so that the site replaces them.`,
    );
  }
  return { set: set.filter((phase) => phase !== gone), steps: [stepOf('revoke', gone)] };
}

/**
 * Emergency rotation, for a compromised key: activates the next authority, and taints and revokes the
 * active one. Uses `made` where none is prepared, or where the prepared one may be compromised too.
 */
export function replaceAtOnce<P extends AuthorityPhase>(
  set: readonly P[],
  made: P | undefined,
  nowMs: number,
): Phased<P> {
  const steps: PhaseStep[] = [];
  let current = set;
  const take = (phased: Phased<P>): void => {
    current = phased.set;
    steps.push(...phased.steps);
  };
  const prepared = current.find(({ state }) => state === 'prepared');
  if (made !== undefined) {
    if (prepared !== undefined) take(revoke(current, prepared.id, nowMs));
    take(withRoom(current, nowMs));
    take(prepare(current, made, nowMs));
  }
  const compromised = current.find(({ state }) => state === 'active');
  take(activate(current, undefined, nowMs));
  if (compromised !== undefined) {
    take(taint(current, compromised.id, nowMs));
    take(revoke(current, compromised.id, nowMs));
  }
  return { set: current, steps };
}

/** An emergency rotation removes the oldest ones to stay within the limit. */
function withRoom<P extends AuthorityPhase>(set: readonly P[], nowMs: number): Phased<P> {
  const kept = prune(set, nowMs);
  const out = kept.set
    .filter(({ state }) => state === 'old' || state === 'tainted')
    .slice(0, Math.max(kept.set.length + 1 - maxAuthoritiesOfAKind, 0));
  return {
    set: kept.set.filter((phase) => !out.includes(phase)),
    steps: [...kept.steps, ...out.map((phase) => stepOf('revoke', phase))],
  };
}

/** Finds an authority by its id or a unique prefix of it. */
function find<P extends AuthorityPhase>(set: readonly P[], named: string): P {
  const exact = set.find(({ id }) => id === named);
  if (exact !== undefined) return exact;
  const found = set.filter(({ id }) => id.startsWith(named));
  const [one] = found;
  if (one === undefined || named.length < minNameLength) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `There is no authority ${JSON.stringify(named.slice(0, 80))}. Give an id, or at least its first ${minNameLength} characters.`,
    );
  }
  if (found.length > 1) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Several authorities begin with ${JSON.stringify(named)}. Give more characters of the id.`,
    );
  }
  return one;
}

const minNameLength = 8;

function lastRetired<P extends AuthorityPhase>(
  set: readonly P[],
  states: readonly AuthorityState[],
): P | undefined {
  for (const wanted of states) {
    const [last] = set
      .filter(({ state }) => state === wanted)
      .toSorted((a, b) => (b.retiredAtMs ?? 0) - (a.retiredAtMs ?? 0));
    if (last !== undefined) return last;
  }
  return undefined;
}

function stepOf(verb: AuthorityVerb, { id, notAfterMs }: AuthorityPhase): PhaseStep {
  return { verb, id, notAfterMs };
}

function short(id: string): string {
  return id.slice(0, 16);
}

function timeText(ms: number | undefined): string {
  return ms === undefined ? 'later' : new Date(ms).toISOString();
}

function refuse(message: string): HansaError {
  return new HansaError('HANSA_AUTHORITY_STATE', message);
}
