// The phases of an authority, as one pure value: what may happen to a set of authorities of one kind,
// and what it becomes. X.509 and JWT authorities live by the same rules.
//
//   prepare → prepared → activate → active → (the next is activated) → old → taint → tainted
//   revoke takes one out of the set, and so out of the bundle, for good.
//
// An old authority is never activated again: its private key is thrown away when it stops signing.

import { HansaError } from '../../errors/error.ts';

export type AuthorityKind = 'x509' | 'jwt';

/**
 * prepared: published, so that everyone trusts it before it signs. active: signs; there is one.
 * old: signs no more, and stays published until the last thing that it signed has expired.
 * tainted: an old one that must not be relied upon; whatever it signed is replaced at once.
 */
export type AuthorityState = 'prepared' | 'active' | 'old' | 'tainted';

export type AuthorityVerb = 'prepare' | 'activate' | 'taint' | 'revoke';

/** Where one authority stands, and since when. */
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

/** Of each kind. One signs, one is prepared; the rest are old ones within an hour of their end. */
export const maxAuthoritiesOfAKind = 8;

/** What an authority signed lives an hour at most: what is stolen is soon worthless, without lists of revoked ones. */
export const maxTtlSeconds = 3600;
/** Others' clocks may be behind by this much. */
export const clockSkewMs = 60_000;

/** Since when it is in its state. */
export function sinceMsOf(phase: AuthorityPhase): number {
  const { taintedAtMs, retiredAtMs, activatedAtMs, preparedAtMs } = phase;
  return taintedAtMs ?? retiredAtMs ?? activatedAtMs ?? preparedAtMs;
}

/** The moment from which nothing that it signed is valid any more; undefined while it may still sign. */
export function signedUntilMs(phase: AuthorityPhase): number | undefined {
  const { retiredAtMs } = phase;
  if (retiredAtMs === undefined) return undefined;
  return Math.min(retiredAtMs + maxTtlSeconds * 1000 + clockSkewMs, phase.notAfterMs);
}

/** An old one of which nothing is left, or a prepared one that is too old to be of use. */
export function hasLapsed(phase: AuthorityPhase, nowMs: number): boolean {
  if (phase.state === 'prepared') return nowMs >= phase.notAfterMs;
  const untilMs = signedUntilMs(phase);
  return untilMs !== undefined && nowMs >= untilMs;
}

/** Not so before its time either: where a clock was set back, what it signs would be believed by nobody. */
export function isValidAt(
  { notBeforeMs, notAfterMs }: Pick<AuthorityPhase, 'notBeforeMs' | 'notAfterMs'>,
  nowMs: number,
): boolean {
  return nowMs >= notBeforeMs && nowMs < notAfterMs;
}

/**
 * Why an X.509 authority is not replaced because of what the clock says; undefined where it may be. A
 * site that runs lets the next one take over when half of the time to sign is over, and has another
 * prepared: where all have expired, it was down for weeks, or the clock is wrong. A new one would be
 * known to nobody, and the old keys could not be brought back, so an operator has to say which it is.
 */
export function clockDoubt(
  set: readonly AuthorityPhase[],
  nowMs: number,
  trustedUntilMs: number | undefined,
): string | undefined {
  const active = set.find(({ state }) => state === 'active');
  if (active === undefined || nowMs < active.notAfterMs) return undefined;
  if (trustedUntilMs !== undefined && nowMs <= trustedUntilMs) return undefined;
  // Peers hold it already, so none of them is lost.
  if (set.some((one) => one.state === 'prepared' && isValidAt(one, nowMs))) return undefined;
  const { activatedAtMs, preparedAtMs, notAfterMs } = active;
  if ((notAfterMs - (activatedAtMs ?? preparedAtMs)) / 2 < doubtfulMs) return undefined;
  const day = new Date(nowMs + 86_400_000).toISOString().slice(0, 10);
  return `the clock says ${timeText(nowMs)}, and the authority of this site was valid until ${timeText(notAfterMs)}. A running site replaces it long before that, so the clock is wrong, or the site was down for a long time. Set the clock right. If it is right, start once with --ca-clock-trusted-until ${day}T00:00:00Z, and a new authority is made; peers then need a new invitation`;
}

/** Authorities of a shorter life expire over a holiday, and are replaced without asking. */
const doubtfulMs = 7 * 86_400_000;

/** Takes out what has lapsed. The active one stays, whatever its age: without it there is no site. */
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
      `Cannot prepare an authority: there are ${kept.length}, and ${maxAuthoritiesOfAKind} are the most. Wait until ${timeText(oldest === undefined ? undefined : signedUntilMs(oldest))}, when the oldest goes, or taint and revoke it.`,
    );
  }
}

/** `made` is published from now on and signs nothing yet. */
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

/** The prepared one signs from now on; the one before it is old. */
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
      `Cannot activate ${short(next.id)}: it is ${next.state}, and only a prepared one can be activated. Prepare a new one.`,
    );
  }
  if (!isValidAt(next, nowMs)) {
    throw refuse(
      `Cannot activate ${short(next.id)}: it is valid from ${timeText(next.notBeforeMs)} to ${timeText(next.notAfterMs)}, and it is ${timeText(nowMs)}. Check the clock, or revoke it and prepare a new one.`,
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

/** What an old one signed is to be replaced at once. Without a name, the one that signed last. */
export function taint<P extends AuthorityPhase>(
  set: readonly P[],
  named: string | undefined,
  nowMs: number,
): Phased<P> {
  const old = named === undefined ? lastRetired(set, ['old']) : find(set, named);
  if (old === undefined) {
    throw refuse(
      'Cannot taint an authority: none is old. An active one becomes old when the next is activated.',
    );
  }
  if (old.state !== 'old') {
    throw refuse(
      `Cannot taint ${short(old.id)}: it is ${old.state}, and only an old one can be tainted.${old.state === 'active' ? ' Activate another first, or rotate with --emergency.' : ''}`,
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
 * Takes one out of the bundle: a prepared or a tainted one at any time, an old one when nothing that it
 * signed is left. Never the active one. Without a name, the tainted one that signed last.
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
      `Cannot revoke ${short(gone.id)}: what it signed is valid until ${timeText(untilMs)}. Taint it first, so that all of it is replaced, or wait.`,
    );
  }
  return { set: set.filter((phase) => phase !== gone), steps: [stepOf('revoke', gone)] };
}

/**
 * Everything at once, for a key that is no longer its owner's alone: the next one signs, and the
 * active one is tainted and revoked. `made` is used where none is prepared, or where the prepared one
 * is not to be trusted either.
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

/** In an emergency the oldest make room: nobody waits. */
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

/** By its id, or by the beginning of it where that names one only. */
function find<P extends AuthorityPhase>(set: readonly P[], named: string): P {
  const exact = set.find(({ id }) => id === named);
  if (exact !== undefined) return exact;
  const found = set.filter(({ id }) => id.startsWith(named));
  const [one] = found;
  if (one === undefined || named.length < minNameLength) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `There is no authority ${JSON.stringify(named.slice(0, 80))}: give its id, or at least ${minNameLength} characters of its beginning.`,
    );
  }
  if (found.length > 1) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Several authorities begin with ${JSON.stringify(named)}: give more of the id.`,
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
