// The outcomes of joins and renewals: it counts them, writes audit records and builds the responses.

import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { timestamp } from '../../api/object.ts';
import { excerpt, type TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import { type ErrorCode, HansaError } from '../../core/errors/error.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type Refusal, uniformRefusal } from './judge-join.ts';
import type { KeptMember, MemberRole } from './members.ts';
import type { TokenUse, UsableToken } from './token-book.ts';
import type { JoinWish } from './transcript.ts';
import { vouchingPeer } from './vouching.ts';

/** Who joined, and with which proof. */
export interface Proof {
  readonly method: 'spiffe' | 'secret' | 'renew' | 'reattest';
  readonly actor: AuditActor;
  /** In the record of the member. */
  readonly provenBy: string;
  readonly peerUid?: string;
  /** For the audit log. */
  readonly words: string;
}

export class JoinOutcomes {
  readonly #audit: PlaneContext['audit'];
  readonly #trustDomain: TrustDomain;
  readonly #joins;

  constructor({
    audit,
    trustDomain,
    metrics,
  }: Pick<PlaneContext, 'audit' | 'trustDomain' | 'metrics'>) {
    this.#audit = audit;
    this.#trustDomain = trustDomain;
    this.#joins = metrics.counter({
      name: 'hansa_joins_total',
      help: 'Joins and renewals of agents and bots, by method and result (ok, or the reason of the rejection).',
      labels: ['method', 'result'],
    });
  }

  succeeded(method: Proof['method']): void {
    this.#joins.add({ method, result: 'ok' });
  }

  nameTaken(token: UsableToken, role: MemberRole, name: string, proof: Proof): HansaError {
    const message = `There is an agent ${name} already, and a join never replaces one. Choose another name, or ask the operator to forget it: hansa agent forget ${name}`;
    this.#joins.add({ method: proof.method, result: 'name-taken' });
    this.#audit.deny({
      actor: proof.actor,
      verb: `${role}.join`,
      kind: joinTokenKind.kind,
      name: token.name,
      outcome: 'deny',
      code: 'HANSA_ALREADY_EXISTS',
      reason: `agent ${name} already exists; ${proof.words}`,
    });
    return new HansaError('HANSA_ALREADY_EXISTS', message);
  }

  /** The member is authenticated, so it gets the reason. Its client retries, and succeeds after a resume. */
  paused({ instance, member }: KeptMember, why: string, actor: AuditActor): HansaError {
    const code = 'HANSA_UNAVAILABLE';
    const reason = `${why}, and it vouched for ${instance}`;
    const peer = vouchingPeer(member, this.#trustDomain);
    this.#denyRenewal('untrusted-peer', member.role, instance, { code, reason, ...peer }, actor);
    return new HansaError(
      code,
      `Cannot renew: ${reason}. Ask the operator of ${this.#trustDomain.name}.`,
    );
  }

  /** The second client with a single-use token. It proved the secret or identity, so it gets the reason. */
  tokenUsed(token: UsableToken, role: MemberRole, use: TokenUse, proof: Proof): HansaError {
    this.#joins.add({ method: proof.method, result: 'used-token' });
    const code = 'HANSA_FORBIDDEN';
    this.#audit.deny({
      actor: proof.actor,
      verb: `${role}.join`,
      kind: joinTokenKind.kind,
      name: token.name,
      uid: token.uid,
      outcome: 'deny',
      code,
      reason: `the token is single-use, and ${use.instance} used it at ${timestamp(use.atMs)}; ${proof.words}`,
    });
    return new HansaError(
      code,
      `Cannot join: the token ${token.name} is single-use, and it was used at ${timestamp(use.atMs)}. If you did not use it, tell the operator of ${this.#trustDomain.name}: another client had its secret or identity. Ask for a new token.`,
    );
  }

  /** The client retries, and succeeds after an operator has reinstated the agent. */
  conflicted(member: KeptMember, why: string, actor: AuditActor): HansaError {
    return this.#forNow('conflicted', member, why, actor);
  }

  /** The client retries, and succeeds after the agent has reconnected. */
  notYet(member: KeptMember, why: string, actor: AuditActor): HansaError {
    return this.#forNow('not-reconnected', member, why, actor);
  }

  #forNow(
    result: string,
    { instance, member }: KeptMember,
    why: string,
    actor: AuditActor,
  ): HansaError {
    const code = 'HANSA_UNAVAILABLE';
    this.#denyRenewal(result, member.role, instance, { code, reason: why }, actor);
    return new HansaError(code, `Cannot renew: ${why}.`);
  }

  /** The time for re-attestation is over. The member is authenticated by its key, so it gets the reason. */
  tooLate(
    { instance, member }: KeptMember,
    { untilMs, nowMs }: { readonly untilMs: number; readonly nowMs: number },
    actor: AuditActor,
  ): HansaError {
    const code = 'HANSA_FORBIDDEN';
    const reason =
      nowMs > member.notAfterMs
        ? `its SVID expired at ${timestamp(member.notAfterMs)}, and its key could renew it until ${timestamp(untilMs)}`
        : 'the authority that signed its SVID was revoked, and this site does not renew such SVIDs';
    this.#denyRenewal('expired', member.role, instance, { code, reason }, actor);
    const next =
      member.role === 'bot'
        ? 'Join again.'
        : `Ask the operator of ${this.#trustDomain.name} to forget the agent (hansa agent forget ${member.name}), and join again.`;
    return new HansaError(code, `Cannot renew ${instance}: ${reason}. ${next}`);
  }

  /** A key identifies one generation of the member. */
  reusedKey({ instance, member }: KeptMember, actor: AuditActor): HansaError {
    const code = 'HANSA_BAD_REQUEST';
    const reason = 'the request contains the key of the SVID that it renews';
    this.#denyRenewal('bad-key', member.role, instance, { code, reason }, actor);
    return new HansaError(code, `Cannot renew: ${reason}. Create a new key for each renewal.`);
  }

  #denyRenewal(
    result: string,
    role: MemberRole,
    name: string,
    why: { readonly code: ErrorCode; readonly reason: string; readonly peer?: string },
    actor: AuditActor,
  ): void {
    this.#joins.add({ method: 'renew', result });
    this.#audit.deny({ actor, verb: `${role}.renew`, kind: 'SVID', name, outcome: 'deny', ...why });
  }

  tooOften(
    role: MemberRole,
    instance: string,
    { method, actor }: Pick<Proof, 'method' | 'actor'>,
  ): HansaError {
    this.#joins.add({ method, result: 'too-often' });
    const code = 'HANSA_TOO_MANY_REQUESTS';
    this.#audit.deny({
      actor,
      verb: `${role}.${method === 'renew' ? 'renew' : 'join'}`,
      kind: 'SVID',
      name: instance,
      outcome: 'deny',
      code,
      reason: 'the member renewed too often within minutes',
    });
    return new HansaError(code, 'The site renewed this member too often. Try again in a minute.');
  }

  /** The audit log gets every reason; the caller gets none. */
  refuse(
    method: Proof['method'],
    { role, token }: Pick<JoinWish, 'role' | 'token'>,
    refusals: readonly Refusal[],
    actor: AuditActor,
    words: string,
  ): HansaError {
    const error = uniformRefusal();
    this.#joins.add({ method, result: refusals[0]?.reason ?? 'unknown-member' });
    const reasons = refusals.map(({ message }) => message).join(' ');
    const verb = method === 'renew' ? 'renew' : 'join';
    this.#audit.deny({
      actor,
      verb: `${role === 'bot' ? 'bot' : 'agent'}.${verb}`,
      kind: method === 'renew' ? 'SVID' : joinTokenKind.kind,
      // A stranger may send 64 KiB.
      ...(token === '' ? {} : { name: excerpt(token) }),
      outcome: 'deny',
      code: error.code,
      reason: words === '' ? reasons : `${reasons} (${words})`,
    });
    return error;
  }
}
