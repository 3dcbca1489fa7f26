// Join: how agents and bots get their first SVID, and renew it.
//
// This folder contains the rules of who may join (this file), the signed transcript (transcript.ts),
// the check of a proof (judge-join.ts), the records of members (members.ts), the gRPC service on the
// federation listener (join-service.ts) and the routes for operators. core/identity verifies and issues
// SVIDs, and core/rpc and the server implement gRPC.
//
// This file matches a SPIFFE ID against a rule with globs. Pure. A segment has at most one `*`, and a
// rule at most one `**`, so a match takes time proportional to the length of the ID.

import { isReservedPath, SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';

/** One segment of a path: a text, or the texts before and after the `*`. */
type SegmentRule = string | readonly [before: string, after: string];

export interface AllowRule {
  readonly trustDomain: string;
  /** All segments, or those before `**`. */
  readonly head: readonly SegmentRule[];
  /** The segments after `**`; undefined if there is none. */
  readonly tail: readonly SegmentRule[] | undefined;
}

const scheme = 'spiffe://';
const segmentPattern = /^[a-zA-Z0-9._*-]+$/;

/** Throws HANSA_BAD_REQUEST with the reason. */
export function parseAllowRule(text: string): AllowRule {
  const refuse = (why: string): never => {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `${JSON.stringify(text.slice(0, 120))} is not a rule for SPIFFE IDs: ${why}.`,
    );
  };
  if (!text.startsWith(scheme)) return refuse(`it does not start with ${scheme}`);
  const slash = text.indexOf('/', scheme.length);
  if (slash === -1)
    return refuse('it has no path, and the ID of a trust domain identifies no workload');
  const trustDomain = text.slice(scheme.length, slash);
  const problem = TrustDomain.problem(trustDomain);
  if (problem !== undefined) {
    return refuse(`the trust domain must be a valid name without globs: ${problem}`);
  }
  const segments = text.slice(slash + 1).split('/');
  for (const segment of segments) {
    if (!segmentPattern.test(segment)) {
      return refuse('each segment must have letters, digits, dots, dashes, underscores or globs');
    }
    if (segment === '.' || segment === '..') return refuse('a segment is . or ..');
    if (segment !== '**' && segment.indexOf('*') !== segment.lastIndexOf('*')) {
      return refuse('a segment may contain one *, and ** must be a whole segment');
    }
  }
  const across = segments.indexOf('**');
  if (across !== segments.lastIndexOf('**')) return refuse('it contains ** more than once');
  // Paths below /hansa identify sites, agents, bots and users, which cannot join with a token.
  if (segments[0] === 'hansa') return refuse('/hansa and all paths below it are reserved');
  return {
    trustDomain,
    head: (across === -1 ? segments : segments.slice(0, across)).map(segmentRule),
    tail: across === -1 ? undefined : segments.slice(across + 1).map(segmentRule),
  };
}

function segmentRule(segment: string): SegmentRule {
  const star = segment.indexOf('*');
  return star === -1 ? segment : [segment.slice(0, star), segment.slice(star + 1)];
}

/** Always false for a reserved path, even if a glob matches it. */
export function allows(rule: AllowRule, id: SpiffeId): boolean {
  if (rule.trustDomain !== id.trustDomain.name || isReservedPath(id.path)) return false;
  const segments = id.segments;
  const { head, tail } = rule;
  if (tail === undefined) return segments.length === head.length && allMatch(head, segments, 0);
  return (
    // ** matches at least one segment.
    segments.length > head.length + tail.length &&
    allMatch(head, segments, 0) &&
    allMatch(tail, segments, segments.length - tail.length)
  );
}

function allMatch(
  rules: readonly SegmentRule[],
  segments: readonly string[],
  from: number,
): boolean {
  return rules.every((rule, index) => {
    const segment = segments[from + index] as string;
    if (typeof rule === 'string') return rule === segment;
    const [before, after] = rule;
    return (
      segment.length >= before.length + after.length &&
      segment.startsWith(before) &&
      segment.endsWith(after)
    );
  });
}
