// What happens to the endpoints of a member while its API server cannot be reached. That is not the same
// as a member whose endpoints are dead: the Services may work well.

import type { MemberSettings, MemberState } from '../members/member.ts';

/** `use`: as they were. `drain`: not ready, but they still serve open connections. `remove`: gone. */
export interface Fate {
  readonly fate: 'use' | 'drain' | 'remove';
  /** When it changes, if nothing else does. Monotonic time. */
  readonly nextMs: number | undefined;
}

const defaultGraceSeconds = 300;

/** `keep 600`, `drain`, `remove` and so on. */
const annotation = /^(keep|drain|remove)(?: (0|[1-9]\d{0,5}))?$/i;

export function fateOf(
  { state, sinceMonotonicMs }: MemberState,
  settings: Pick<MemberSettings, 'unreachable'>,
  annotated: string | undefined,
  monotonicMs: number,
): Fate {
  if (state === 'Ready') return { fate: 'use', nextMs: undefined };
  // It is not who it should be: none of its endpoints can be trusted.
  if (state === 'Refused') return { fate: 'remove', nextMs: undefined };
  const { policy, graceSeconds } = wanted(settings, annotated);
  // Not known to be away: after a start of the site, nothing is drained or removed before the first attempt.
  if (state === 'Connecting') {
    const endMs = sinceMonotonicMs + Math.max(graceSeconds, defaultGraceSeconds) * 1000;
    return monotonicMs >= endMs
      ? { fate: 'remove', nextMs: undefined }
      : { fate: 'use', nextMs: endMs };
  }
  const endMs = sinceMonotonicMs + graceSeconds * 1000;
  if (policy === 'remove' || monotonicMs >= endMs) return { fate: 'remove', nextMs: undefined };
  return { fate: policy === 'drain' ? 'drain' : 'use', nextMs: endMs };
}

/** Whether the annotation of a Service can be read. */
export function isUnreachablePolicy(text: string): boolean {
  return annotation.test(text);
}

function wanted({ unreachable }: Pick<MemberSettings, 'unreachable'>, annotated = '') {
  const match = annotation.exec(annotated);
  const policy = match?.[1] ?? unreachable?.policy ?? 'keep';
  return {
    policy: policy.toLowerCase() as 'keep' | 'drain' | 'remove',
    graceSeconds:
      match?.[2] === undefined
        ? (unreachable?.graceSeconds ?? defaultGraceSeconds)
        : Number(match[2]),
  };
}
