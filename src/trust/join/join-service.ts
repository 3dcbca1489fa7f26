// The gRPC service for agents and bots to join and renew (proto/join.proto). All methods have the same
// sequence of messages, and end with an SVID or with one uniform rejection.

import { joinTokenKind, type JoinToken } from '../../api/kinds/join-token.ts';
import { timestamp } from '../../api/object.ts';
import { sourceOf } from '../../core/access/failure-limit.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { ReservedIssuer } from '../../core/identity/authority/authority.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { PublicKey } from '../../core/identity/x509/keys.ts';
import { poolQueue, type Verify, VerifyQueue } from '../../core/identity/x509/verify-queue.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { PlaneCall, PlaneRpc } from '../../core/plane/stream.ts';
import { bundlesOfTrusted } from '../authorization/entitlement.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import { secretActor, stranger, svidActor } from './actors.ts';
import { certsOf, readKey, type Said } from './conversation.ts';
import { describeSvid } from './describe-svid.ts';
import { entriesByName } from '../agents/former-agents.ts';
import { JoinOutcomes, type Proof } from './join-outcomes.ts';
import { isSameJoin } from './generations.ts';
import { judgeRules, judgeSecret, judgeSvid, judgeToken } from './judge-join.ts';
import type { Member, MemberRole, Members } from './members.ts';
import { RefusalLimit } from './limits/refusal-limit.ts';
import type { SourceRates } from '../../core/limits/source-budget.ts';
import { RenewalRate } from './limits/renewal-rate.ts';
import { Renewals } from './renewals.ts';
import type { TokenBook, UsableToken } from './token-book.ts';
import { judgeVouching, untrustedPeer, type Vouching } from './vouching.ts';
import {
  credentialDigest,
  exporterBytes,
  exporterLabel,
  joinTranscript,
  type JoinWish,
  nonceBytes,
} from './transcript.ts';
import {
  encodeCerts,
  encodeChallenge,
  type GivenCerts,
  maxMessageBytes,
  renewWire,
  type SecretOpening,
  secretWire,
  type SpiffeOpening,
  spiffeWire,
  type Wire,
} from './wire.ts';

export type JoinServiceParts = Pick<
  PlaneContext,
  | 'trustDomain'
  | 'clock'
  | 'random'
  | 'log'
  | 'metrics'
  | 'audit'
  | 'authority'
  | 'bundles'
  | 'resources'
  | 'store'
> & {
  readonly members: Members;
  readonly tokens: TokenBook;
  readonly federationState: { readonly current: FederationState };
  /** Default: on libuv's thread pool. */
  readonly verify?: Verify;
  /** Default: the standard limits. */
  readonly refusalRates?: SourceRates;
};

/** A client answers a challenge at once, with one signature. */
const messageWithinMs = 10_000;
/** Enough for the site to check signatures and commit, even under load. */
const idleMs = 30_000;
/** How often a join is retried after a conflict with another one of the same name. */
const mostAttempts = 3;

export class JoinService {
  readonly #parts: JoinServiceParts;
  readonly #verifications: VerifyQueue;
  readonly #refusals: RefusalLimit;
  readonly #bundles: BundleSource;
  readonly #rate: RenewalRate;
  readonly #issuers: Readonly<Record<MemberRole, ReservedIssuer>>;
  readonly #outcomes: JoinOutcomes;
  readonly #renewals: Renewals;

  constructor(parts: JoinServiceParts) {
    this.#parts = parts;
    this.#verifications = parts.verify === undefined ? poolQueue : new VerifyQueue(parts.verify);
    this.#refusals = new RefusalLimit(parts.clock, parts.refusalRates);
    this.#bundles = bundlesOfTrusted(parts.bundles, parts.federationState);
    this.#rate = new RenewalRate(parts.clock);
    this.#issuers = {
      agent: parts.authority.reservedIssuer('agent'),
      bot: parts.authority.reservedIssuer('bot'),
    };
    this.#outcomes = new JoinOutcomes(parts);
    this.#renewals = new Renewals({
      parts,
      issuers: this.#issuers,
      rate: this.#rate,
      outcomes: this.#outcomes,
    });
  }

  get rpcs(): readonly PlaneRpc[] {
    return [
      this.#rpc(spiffeWire, (said) => this.#joinBySvid(said)),
      this.#rpc(secretWire, (said) => this.#joinBySecret(said)),
      this.#rpc(renewWire, (said) => this.#renewals.renew(said)),
    ];
  }

  #rpc<O extends { readonly publicKey: Uint8Array; readonly clientNonce: Uint8Array }>(
    wire: Wire<O>,
    decide: (said: Said<O>) => Promise<GivenCerts>,
  ): PlaneRpc {
    return {
      path: wire.path,
      maxMessageBytes,
      messageWithinMs,
      idleMs,
      // The messages prove who joins.
      allow: 'public',
      handle: async (call) => {
        // Checked before the site reads anything, for sources that it rejected often.
        const proven = this.#refusals.enter(call.address ?? '');
        const exporter = call.exportKeyingMaterial(exporterLabel, exporterBytes);
        const opening = wire.opening(await nextMessage(call));
        // The nonce belongs to this stream only, so it cannot be reused.
        const serverNonce = await this.#parts.random.bytes(nonceBytes);
        await call.write(encodeChallenge(serverNonce));
        const signature = wire.solution(await nextMessage(call));
        // Runs before the checks: it may yield many times, and a token may be deleted meanwhile.
        await this.#parts.members.prune();
        const certs = await decide({
          opening,
          conversation: {
            method: wire.path,
            trustDomain: this.#parts.trustDomain.name,
            publicKey: opening.publicKey,
            clientNonce: opening.clientNonce,
            serverNonce,
            exporter,
          },
          signature,
          address: call.address,
          verify: this.#verifications.of(sourceOf(call.address ?? ''), call.signal),
          proven,
        });
        await call.write(encodeCerts(certs));
      },
    };
  }

  async #joinBySvid(said: Said<SpiffeOpening>): Promise<GivenCerts> {
    const { clock, tokens, federationState } = this.#parts;
    const { wish, chain } = said.opening;
    const nowMs = clock.now();
    const credential = credentialDigest(chain[0] as Uint8Array);
    const transcript = joinTranscript(wish, { ...said.conversation, credential });
    const proof = { chain, transcript, signature: said.signature };
    const judgedBy = federationState.current;
    const judged = await judgeSvid(proof, this.#bundles, nowMs, said.verify);
    const token = tokens.token(wish.token);
    const key = readKey(said.opening.publicKey);
    const provenBy = judged.proven?.id.toString() ?? '';
    // Checked again: the trust in this peer may have ended during the signature checks.
    const { peerUid } = this.#vouching({ provenBy }, judgedBy);
    const vouching = this.#vouching({ provenBy, ...(peerUid === undefined ? {} : { peerUid }) });
    const refusals = [
      ...judgeToken(token, 'spiffe', wish, nowMs),
      ...key.refusals,
      ...judged.refusals,
      ...judgeRules(token, judged.proven?.id),
      ...(vouching.state === 'trusted' ? [] : [untrustedPeer('join', vouching.why)]),
    ];
    const actor = svidActor(judged.proven, said.address);
    const words = judged.presented === undefined ? '' : describeSvid(judged.presented);
    const { proven } = judged;
    if (
      refusals.length > 0 ||
      token === undefined ||
      key.key === undefined ||
      proven === undefined
    ) {
      throw this.#outcomes.refuse('spiffe', wish, refusals, actor, words);
    }
    said.proven();
    return await this.#admit(token, wish, key.key, {
      method: 'spiffe',
      actor,
      provenBy,
      ...(vouching.peerUid === undefined ? {} : { peerUid: vouching.peerUid }),
      words,
    });
  }

  async #joinBySecret(said: Said<SecretOpening>): Promise<GivenCerts> {
    const { clock, tokens } = this.#parts;
    const { wish, secretKey } = said.opening;
    const nowMs = clock.now();
    const credential = credentialDigest(secretKey);
    const transcript = joinTranscript(wish, { ...said.conversation, credential });
    const token = tokens.token(wish.token);
    const kept = tokens.secret(wish.token);
    const proof = { publicKey: secretKey, transcript, signature: said.signature };
    const judged = await judgeSecret(proof, kept, said.verify);
    const key = readKey(said.opening.publicKey);
    const refusals = [...judgeToken(token, 'secret', wish, nowMs), ...key.refusals, ...judged];
    if (refusals.length > 0 || token === undefined || key.key === undefined) {
      throw this.#outcomes.refuse('secret', wish, refusals, stranger(said.address), '');
    }
    said.proven();
    const actor = secretActor(token.name, said.address);
    return await this.#admit(token, wish, key.key, {
      method: 'secret',
      actor,
      provenBy: actor.user,
      words: 'with the secret of the token',
    });
  }

  /** Called after all checks passed. Only now a response may reveal that a name is taken. */
  async #admit(
    token: UsableToken,
    wish: JoinWish,
    publicKey: PublicKey,
    proof: Proof,
  ): Promise<GivenCerts> {
    const { members, tokens, clock, audit, random, authority, store } = this.#parts;
    const role = wish.role as MemberRole;
    const name = role === 'agent' ? wish.name : (token.botName as string);
    const unique = Buffer.from(await random.bytes(8)).toString('hex');
    const { provenBy } = proof;
    const asked = { role, name, token: token.name, provenBy, publicKey };
    for (let attempt = 1; ; attempt++) {
      const use = tokens.use(token);
      const usingUp = tokens.usingUp(token);
      const instance =
        role === 'agent' ? `agent/${name}` : (use?.instance ?? `bot/${name}/${unique}`);
      const before = members.get(instance);
      const isRepeated = before !== undefined && isSameJoin(before.member, asked);
      if (use !== undefined && !(isRepeated && use.instance === instance)) {
        throw this.#outcomes.tokenUsed(token, role, use, proof);
      }
      if (before !== undefined && !isRepeated) {
        throw this.#outcomes.nameTaken(token, role, name, proof);
      }
      if (before !== undefined && !this.#rate.may(instance)) {
        throw this.#outcomes.tooOften(role, instance, proof);
      }
      const issued = await this.#issuers[role].issue(name, { publicKey });
      const nowMs = clock.now();
      const labels = before === undefined ? token.labels : before.member.labels;
      const byName = entriesByName(store, name, token);
      const isByName =
        before === undefined ? byName.isGiven : before.member.entriesByName !== false;
      const member: Member = {
        role,
        name,
        token: token.name,
        provenBy,
        ...(proof.peerUid === undefined ? {} : { peerUid: proof.peerUid }),
        joinedAtMs: before?.member.joinedAtMs ?? nowMs,
        renewedAtMs: nowMs,
        generation: 1,
        serial: issued.serialHex,
        key: publicKey.fingerprint,
        notAfterMs: issued.notAfterMs,
        ...(role === 'agent' && labels !== undefined ? { labels } : {}),
        ...(role === 'agent' && !isByName ? { entriesByName: false } : {}),
      };
      const row = audit.record({
        actor: proof.actor,
        verb: `${role}.join`,
        kind: joinTokenKind.kind,
        name: token.name,
        uid: token.uid,
        outcome: 'allow',
        reason: `${issued.id.toString()} until ${timestamp(issued.notAfterMs)}, serial ${member.serial}; ${proof.words}`,
      });
      try {
        const used = usingUp(instance, use?.atMs ?? nowMs);
        const expect = [...used.expect, ...(role === 'agent' ? [byName.expect] : [])];
        await members.put(instance, before, member, [row], { ...used, expect });
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT') || attempt === mostAttempts) throw error;
        continue;
      }
      this.#outcomes.succeeded(proof.method);
      this.#countUse(token.name, nowMs);
      return certsOf(issued, instance, member, authority.bundle, members.reattestWithinMs);
    }
  }

  #vouching(
    member: Pick<Member, 'provenBy' | 'peerUid'>,
    federationState = this.#parts.federationState.current,
  ): Vouching {
    return judgeVouching(member, this.#parts.trustDomain.name, federationState);
  }

  #countUse(name: string, nowMs: number): void {
    this.#parts
      .resources<JoinToken>(joinTokenKind)
      .patchStatus(
        name,
        ({ status }) => ({
          ...status,
          uses: (status?.uses ?? 0) + 1,
          lastUsedAt: timestamp(nowMs),
        }),
        { controller: 'join' },
      )
      .catch((error: unknown) =>
        this.#parts.log.warn('cannot count the use of a join token', {
          error,
          token: name,
        }),
      );
  }
}

async function nextMessage(call: PlaneCall): Promise<Buffer> {
  const message = await call.read();
  if (message !== undefined) return message;
  throw new HansaError('HANSA_BAD_REQUEST', 'The stream ended before all messages arrived.');
}
