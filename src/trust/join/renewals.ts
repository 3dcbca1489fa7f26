// Renews the SVID of a member. A valid SVID proves the member. So does the key that its record names, for
// some time after the SVID expired or after its authority was revoked: the member re-attests.

import { timestamp } from '../../api/object.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { IssuedSvid, ReservedIssuer } from '../../core/identity/authority/authority.ts';
import { svidActor } from './actors.ts';
import { signingProblem } from './conflicts.ts';
import { certsOf, readKey, type Said } from './conversation.ts';
import { describeSvid } from './describe-svid.ts';
import { judgeRenewal, type RenewalJudgement } from './generations.ts';
import type { JoinOutcomes } from './join-outcomes.ts';
import type { JoinServiceParts } from './join-service.ts';
import { judgeSvid, type SvidJudgement } from './judge-join.ts';
import type { KeptMember, Member, MemberRole } from './members.ts';
import { recordRefusedSvid } from './refused-svids.ts';
import { conflictOf, liveStream, reconnectFirst } from './second-process.ts';
import type { RenewalRate } from './limits/renewal-rate.ts';
import { credentialDigest, renewTranscript } from './transcript.ts';
import { judgeVouching, untrustedPeer, type Vouching, vouchingPeer } from './vouching.ts';
import type { GivenCerts, RenewOpening } from './wire.ts';

/** How often a renewal is decided again because the record of the member changed meanwhile. */
const mostAttempts = 3;

export interface RenewalsParts {
  readonly parts: JoinServiceParts;
  readonly issuers: Readonly<Record<MemberRole, ReservedIssuer>>;
  readonly rate: RenewalRate;
  readonly outcomes: JoinOutcomes;
}

type Renewal = NonNullable<RenewalJudgement['renewal']>;

export class Renewals {
  readonly #parts: JoinServiceParts;
  readonly #issuers: RenewalsParts['issuers'];
  readonly #rate: RenewalRate;
  readonly #outcomes: JoinOutcomes;

  constructor({ parts, issuers, rate, outcomes }: RenewalsParts) {
    this.#parts = parts;
    this.#issuers = issuers;
    this.#rate = rate;
    this.#outcomes = outcomes;
  }

  async renew(said: Said<RenewOpening>): Promise<GivenCerts> {
    const { clock, trustDomain, authority } = this.#parts;
    const { wish, chain } = said.opening;
    const credential = credentialDigest(chain[0] as Uint8Array);
    const transcript = renewTranscript(wish, { ...said.conversation, credential });
    const proof = { chain, transcript, signature: said.signature };
    const own = {
      bundleFor: (asked: typeof trustDomain) =>
        asked.equals(trustDomain) ? authority.bundle : undefined,
    };
    const nowMs = clock.now();
    const judged = await judgeSvid(proof, own, nowMs, said.verify, { expired: 'accepted' });
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#renewOnce(said, judged);
      } catch (error) {
        // The record changed meanwhile: the same client renewed, or an operator decided something.
        if (!hasCode(error, 'HANSA_CONFLICT') || attempt === mostAttempts) throw error;
      }
    }
  }

  async #renewOnce(said: Said<RenewOpening>, judged: SvidJudgement): Promise<GivenCerts> {
    const { clock, members, trustDomain, federationState, authority } = this.#parts;
    const { instance, generation } = said.opening.wish;
    const nowMs = clock.now();
    const key = readKey(said.opening.publicKey);
    const before = members.get(instance);
    const asked = { generation: Number(generation), publicKey: key.key };
    const judgement = judgeRenewal(before?.member, judged, asked, nowMs);
    const vouching = judgeVouching(
      before?.member ?? { provenBy: '' },
      trustDomain.name,
      federationState.current,
    );
    const { renewal } = judgement;
    const refusals = [
      ...key.refusals,
      ...judgement.refusals,
      ...(vouching.state === 'revoked' ? [untrustedPeer('renew', vouching.why)] : []),
    ];
    const actor = svidActor(renewal?.holder ?? judged.proven, said.address);
    if (
      refusals.length > 0 ||
      before === undefined ||
      key.key === undefined ||
      renewal === undefined
    ) {
      if (before !== undefined) this.#report(before, judgement, asked.generation, said.address);
      const words = judged.presented === undefined ? '' : describeSvid(judged.presented);
      const role = before?.member.role ?? '';
      throw this.#outcomes.refuse('renew', { role, token: '' }, refusals, actor, words);
    }
    said.proven();
    if (!renewal.repeats && key.key.fingerprint === before.member.key) {
      throw this.#outcomes.reusedKey(before, actor);
    }
    await this.#refuseForNow(before, vouching, renewal, { nowMs, actor });
    const { member } = before;
    const issued = await this.#issuers[member.role].issue(member.name, { publicKey: key.key });
    const { peerUid } = vouching;
    const next: Member = {
      ...withoutReattestFrom(member),
      ...renewal.next,
      ...(peerUid === undefined ? {} : { peerUid }),
      // The holder of the previous key can repeat its renewal for ever.
      renewedAtMs: renewal.repeats ? member.renewedAtMs : nowMs,
      serial: issued.serialHex,
      key: key.key.fingerprint,
      notAfterMs: issued.notAfterMs,
    };
    await this.#keep(before, next, issued, renewal.reattests, actor);
    return certsOf(issued, instance, next, authority.bundle, members.reattestWithinMs);
  }

  /** Throws if the member cannot renew now. It is authenticated, so it gets the reason. */
  async #refuseForNow(
    before: KeptMember,
    vouching: Vouching,
    { reattests, repeats }: Renewal,
    { nowMs, actor }: { readonly nowMs: number; readonly actor: AuditActor },
  ): Promise<void> {
    const { members } = this.#parts;
    const { instance, member } = before;
    const conflict = signingProblem(member);
    if (conflict !== undefined) throw this.#outcomes.conflicted(before, conflict, actor);
    const untilMs = members.reattestUntilMs(member);
    if (reattests && (nowMs > untilMs || members.reattestWithinMs === 0)) {
      throw this.#outcomes.tooLate(before, { untilMs, nowMs }, actor);
    }
    const stream = repeats ? undefined : liveStream(this.#parts.store, member, nowMs);
    const outdated = reconnectFirst(member, stream);
    if (outdated !== undefined) throw this.#outcomes.notYet(before, outdated, actor);
    if (vouching.state !== 'trusted') {
      await members.postponeEnd(before);
      throw this.#outcomes.paused(before, vouching.why, actor);
    }
    // Apart, so that the holder of the previous key cannot use up the renewals of the newest.
    if (!this.#rate.may(repeats ? `${instance} repeated` : instance)) {
      throw this.#outcomes.tooOften(member.role, instance, { method: 'renew', actor });
    }
  }

  async #keep(
    before: KeptMember,
    member: Member,
    issued: IssuedSvid,
    reattests: boolean,
    actor: AuditActor,
  ): Promise<void> {
    const { audit, members, trustDomain } = this.#parts;
    const until = `generation ${member.generation}, serial ${member.serial}, until ${timestamp(issued.notAfterMs)}`;
    const draft = {
      actor,
      kind: 'SVID',
      name: issued.id.toString(),
      ...vouchingPeer(member, trustDomain),
      outcome: 'allow',
    } as const;
    if (reattests) {
      const verb = `${member.role}.reattest`;
      const reason = `${until}; by the registered key of the SVID until ${timestamp(before.member.notAfterMs)}`;
      await members.put(before.instance, before, member, [
        audit.record({ ...draft, verb, reason }),
      ]);
    } else {
      await members.put(before.instance, before, member, []);
      audit.later({ ...draft, verb: `${member.role}.renew`, reason: until });
    }
    this.#outcomes.succeeded(reattests ? 'reattest' : 'renew');
  }

  /** Does not wait: the response time must not reveal the reason of the refusal. */
  #report(
    { instance, member }: KeptMember,
    { older }: RenewalJudgement,
    generation: number,
    address: string | undefined,
  ): void {
    if (older === undefined) return;
    const { store, clock, members, audit, log } = this.#parts;
    const serial = older.leaf.serialHex;
    const refusal = {
      serial,
      why: `generation ${generation} tried to renew, and generation ${member.generation} is the newest`,
      ...(address === undefined ? {} : { address }),
    };
    recordRefusedSvid(this.#parts, instance, refusal).catch((error: unknown) =>
      log.warn('cannot record a refused SVID', { error, member: instance }),
    );
    const nowMs = clock.now();
    const conflict = conflictOf(member, liveStream(store, member, nowMs), serial, nowMs);
    if (conflict === undefined) return;
    const row = audit.record({
      actor: svidActor(older, address),
      verb: 'agent.conflict',
      kind: 'SVID',
      name: member.name,
      outcome: 'deny',
      reason: conflict,
    });
    members
      .markConflicted(instance, conflict, [row])
      .catch((error: unknown) =>
        log.error('cannot mark an agent as conflicted', { error, agent: member.name }),
      );
  }
}

/** A renewed member has a new SVID, whose expiry counts. */
function withoutReattestFrom({ reattestFromMs: _from, ...member }: Member): Member {
  return member;
}
