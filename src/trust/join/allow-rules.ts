// Join: how agents and bots come by their first SVID, and renew it.
//
// Here live the rules of who may (this file), what is signed (transcript.ts), how a proof is judged
// (judge-join.ts), what is remembered of who joined (members.ts), the gRPC service on the
// federation listener (join-service.ts), the routes and the controller of JoinToken, and the client
// behind `hansa join`. How SVIDs are verified and issued is for core/identity; how gRPC is spoken is
// for core/rpc and the server.
//
// This file: does a SPIFFE ID match a rule with globs? Pure. Each glob splits what it stands in into
// what comes before and what comes after, and there is one in a place, so that a match takes time
// in proportion to the ID, whatever rule and ID are made of.

import { isReservedPath, SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';

/** One segment of a path: a text, or what stands before and after the `*`. */
type SegmentRule = string | readonly [before: string, after: string];

export interface AllowRule {
  readonly trustDomain: string;
  /** All segments; of a rule with `**` those before it. */
  readonly head: readonly SegmentRule[];
  /** The segments after `**`; undefined where there is none. */
  readonly tail: readonly SegmentRule[] | undefined;
}

const scheme = 'spiffe://';
const segmentPattern = /^[a-zA-Z0-9._*-]+$/;

/** Throws HANSA_BAD_REQUEST with what is wrong. */
export function parseAllowRule(text: string): AllowRule {
  const refuse = (why: string): never => {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `${JSON.stringify(text.slice(0, 120))} is not a rule for SPIFFE IDs: ${why}.`,
    );
  };
  if (!text.startsWith(scheme)) return refuse(`it does not start with ${scheme}`);
  const slash = text.indexOf('/', scheme.length);
  if (slash === -1) return refuse('it has no path, and the ID of a trust domain is nobody');
  const trustDomain = text.slice(scheme.length, slash);
  const problem = TrustDomain.problem(trustDomain);
  if (problem !== undefined) {
    return refuse(`the trust domain must be written out, and this one is wrong: ${problem}`);
  }
  const segments = text.slice(slash + 1).split('/');
  for (const segment of segments) {
    if (!segmentPattern.test(segment)) {
      return refuse(
        'between slashes it may have letters, digits, dots, dashes, underscores and globs, and not nothing',
      );
    }
    if (segment === '.' || segment === '..') return refuse('it has a segment of dots alone');
    if (segment !== '**' && segment.indexOf('*') !== segment.lastIndexOf('*')) {
      return refuse('a segment may have one *, and ** stands alone between slashes');
    }
  }
  const across = segments.indexOf('**');
  if (across !== segments.lastIndexOf('**')) return refuse('it has ** more than once');
  // What is below /hansa are sites, agents, bots and users: they have ways of their own.
  if (segments[0] === 'hansa') return refuse('/hansa and everything below it is reserved');
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

/** Never true of what is reserved, also where a glob would reach it. */
export function allows(rule: AllowRule, id: SpiffeId): boolean {
  if (rule.trustDomain !== id.trustDomain.name || isReservedPath(id.path)) return false;
  const segments = id.segments;
  const { head, tail } = rule;
  if (tail === undefined) return segments.length === head.length && allMatch(head, segments, 0);
  return (
    // ** stands for one segment at least.
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
