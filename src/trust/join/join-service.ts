// The gRPC service by which agents and bots join and renew (proto/join.proto): one conversation for
// all its methods, judged as a whole, answered with an SVID or with the one refusal.

import { joinTokenKind, type JoinToken } from '../../api/kinds/join-token.ts';
import { timestamp } from '../../api/object.ts';
import { excerpt } from '../../api/trust-domain.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { IssuedSvid, ReservedIssuer } from '../../core/identity/authority.ts';
import type { BundleSource } from '../../core/identity/bundle.ts';
import { PublicKey } from '../../core/identity/keys.ts';
import { brokenRule } from '../../core/identity/rules.ts';
import type { PlaneCall, PlaneContext, PlaneRpc } from '../../core/plane/plane.ts';
import { bundlesOfTrusted } from '../entitlement.ts';
import type { Relations } from '../relations.ts';
import { secretActor, stranger, svidActor } from './actors.ts';
import { describeSvid } from './describe-svid.ts';
import { isSameJoin, judgeGeneration } from './generations.ts';
import {
  judgeRules,
  judgeSecret,
  judgeSvid,
  judgeToken,
  type Refusal,
  uniformRefusal,
} from './judge-join.ts';
import type { Member, MemberRole, Members } from './members.ts';
import { systemVerify, type Verify } from './proof.ts';
import { RenewalRate } from './renewal-rate.ts';
import type { TokenBook, UsableToken } from './token-book.ts';
import { judgeVouching, type Vouching } from './vouching.ts';
import {
  type Conversation,
  credentialDigest,
  exporterBytes,
  exporterLabel,
  joinTranscript,
  type JoinWish,
  nonceBytes,
  renewTranscript,
} from './transcript.ts';
import {
  encodeCerts,
  encodeChallenge,
  type GivenCerts,
  maxMessageBytes,
  renewWire,
  type RenewOpening,
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
> & {
  readonly members: Members;
  readonly tokens: TokenBook;
  readonly relations: { readonly current: Relations };
  /** node:crypto's unless told. */
  readonly verify?: Verify;
};

/** Two messages each way: whoever needs longer waits for something else. */
const withinMs = 10_000;
/** How often a join is tried again where another one of the same name was faster. */
const mostAttempts = 3;

/** The client's part of a conversation, when all of it is there. */
interface Said<O> {
  readonly opening: O;
  readonly conversation: Omit<Conversation, 'credential'>;
  readonly signature: Uint8Array;
  readonly address: string | undefined;
}

/** Who joined, by what. */
interface Proof {
  readonly method: 'spiffe' | 'secret' | 'renew';
  readonly actor: AuditActor;
  /** In the record of the member. */
  readonly provenBy: string;
  readonly peerUid?: string;
  /** For the audit log. */
  readonly words: string;
}

export class JoinService {
  readonly #parts: JoinServiceParts;
  readonly #verify: Verify;
  readonly #bundles: BundleSource;
  readonly #rate: RenewalRate;
  readonly #issuers: Readonly<Record<MemberRole, ReservedIssuer>>;
  readonly #joins;

  constructor(parts: JoinServiceParts) {
    this.#parts = parts;
    this.#verify = parts.verify ?? systemVerify;
    this.#bundles = bundlesOfTrusted(parts.bundles, parts.relations);
    this.#rate = new RenewalRate(parts.clock);
    this.#issuers = {
      agent: parts.authority.reservedIssuer('agent'),
      bot: parts.authority.reservedIssuer('bot'),
    };
    this.#joins = parts.metrics.counter({
      name: 'hansa_joins_total',
      help: 'Joins and renewals of agents and bots, by method and result: ok, or why not.',
      labels: ['method', 'result'],
    });
  }

  get rpcs(): readonly PlaneRpc[] {
    return [
      this.#rpc(spiffeWire, (said) => this.#joinBySvid(said)),
      this.#rpc(secretWire, (said) => this.#joinBySecret(said)),
      this.#rpc(renewWire, (said) => this.#renew(said)),
    ];
  }

  #rpc<O extends { readonly publicKey: Uint8Array; readonly clientNonce: Uint8Array }>(
    wire: Wire<O>,
    decide: (said: Said<O>) => Promise<GivenCerts>,
  ): PlaneRpc {
    return {
      path: wire.path,
      maxMessageBytes,
      withinMs,
      handle: async (call) => {
        const exporter = call.exportKeyingMaterial(exporterLabel, exporterBytes);
        const opening = wire.opening(await nextMessage(call));
        // For this stream alone: it lives nowhere else, so it cannot be used again.
        const serverNonce = await this.#parts.random.bytes(nonceBytes);
        await call.write(encodeChallenge(serverNonce));
        const signature = wire.solution(await nextMessage(call));
        // Before anything is judged: it may take many turns, and a token may be gone after them.
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
        });
        await call.write(encodeCerts(certs));
      },
    };
  }

  async #joinBySvid(said: Said<SpiffeOpening>): Promise<GivenCerts> {
    const { clock, tokens } = this.#parts;
    const { wish, chain } = said.opening;
    const nowMs = clock.now();
    const credential = credentialDigest(chain[0] as Uint8Array);
    const transcript = joinTranscript(wish, { ...said.conversation, credential });
    const proof = { chain, transcript, signature: said.signature };
    const judged = judgeSvid(proof, this.#bundles, nowMs, this.#verify);
    const token = tokens.token(wish.token);
    const key = readKey(said.opening.publicKey);
    const refusals = [
      ...judgeToken(token, 'spiffe', wish, nowMs),
      ...key.refusals,
      ...judged.refusals,
      ...judgeRules(token, judged.proven?.id),
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
      throw this.#refuse('spiffe', wish, refusals, actor, words);
    }
    const provenBy = proven.id.toString();
    const { peerUid } = this.#vouching({ provenBy });
    return await this.#admit(token, wish, key.key, {
      method: 'spiffe',
      actor,
      provenBy,
      ...(peerUid === undefined ? {} : { peerUid }),
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
    const judged = judgeSecret(proof, kept, this.#verify);
    const key = readKey(said.opening.publicKey);
    const refusals = [...judgeToken(token, 'secret', wish, nowMs), ...key.refusals, ...judged];
    if (refusals.length > 0 || token === undefined || key.key === undefined) {
      throw this.#refuse('secret', wish, refusals, stranger(said.address), '');
    }
    const actor = secretActor(token.name, said.address);
    return await this.#admit(token, wish, key.key, {
      method: 'secret',
      actor,
      provenBy: actor.user,
      words: 'by the secret of the token',
    });
  }

  /** Only now that everything is proven, an answer may tell anything: that a name is taken. */
  async #admit(
    token: UsableToken,
    wish: JoinWish,
    publicKey: PublicKey,
    proof: Proof,
  ): Promise<GivenCerts> {
    const { members, clock, audit, random } = this.#parts;
    const role = wish.role as MemberRole;
    const name = role === 'agent' ? wish.name : (token.botName as string);
    const unique = Buffer.from(await random.bytes(8)).toString('hex');
    const instance = role === 'agent' ? `agent/${name}` : `bot/${name}/${unique}`;
    for (let attempt = 1; ; attempt++) {
      const before = members.get(instance);
      if (
        before !== undefined &&
        !isSameJoin(before.member, { token: token.name, provenBy: proof.provenBy, publicKey })
      ) {
        throw this.#nameTaken(token, role, name, proof);
      }
      if (before !== undefined && !this.#rate.may(instance)) {
        throw this.#tooOften(role, instance, proof);
      }
      const issued = await this.#issuers[role].issue(name, { publicKey });
      const nowMs = clock.now();
      const member: Member = {
        role,
        name,
        token: token.name,
        provenBy: proof.provenBy,
        ...(proof.peerUid === undefined ? {} : { peerUid: proof.peerUid }),
        joinedAtMs: before?.member.joinedAtMs ?? nowMs,
        renewedAtMs: nowMs,
        generation: 1,
        serial: issued.serialHex,
        key: publicKey.fingerprint,
        notAfterMs: issued.notAfterMs,
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
        await members.put(instance, before, member, [row]);
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT') || attempt === mostAttempts) throw error;
        continue;
      }
      this.#joins.add({ method: proof.method, result: 'ok' });
      this.#countUse(token.name, nowMs);
      return this.#certs(issued, instance, member);
    }
  }

  async #renew(said: Said<RenewOpening>): Promise<GivenCerts> {
    const { clock, members, audit, trustDomain, authority } = this.#parts;
    const { wish, chain } = said.opening;
    const credential = credentialDigest(chain[0] as Uint8Array);
    const transcript = renewTranscript(wish, { ...said.conversation, credential });
    const nowMs = clock.now();
    const proof = { chain, transcript, signature: said.signature };
    const own = {
      bundleFor: (asked: typeof trustDomain) =>
        asked.equals(trustDomain) ? authority.bundle : undefined,
    };
    const judged = judgeSvid(proof, own, nowMs, this.#verify);
    const key = readKey(said.opening.publicKey);
    const before = members.get(wish.instance);
    const next = judgeGeneration(before, judged.proven, Number(wish.generation), key.key);
    const vouching = this.#vouching(before?.member ?? { provenBy: '' });
    const revoked: readonly Refusal[] =
      vouching.state === 'revoked'
        ? [{ reason: 'untrusted-peer', message: `It cannot renew: ${vouching.why}.` }]
        : [];
    const refusals = [...key.refusals, ...judged.refusals, ...next.refusals, ...revoked];
    const actor = svidActor(judged.proven, said.address);
    if (
      refusals.length > 0 ||
      before === undefined ||
      key.key === undefined ||
      next.member === undefined
    ) {
      const words = judged.presented === undefined ? '' : describeSvid(judged.presented);
      throw this.#refuse(
        'renew',
        { role: before?.member.role ?? '', token: '' },
        refusals,
        actor,
        words,
      );
    }
    const { role, name } = before.member;
    if (vouching.state === 'paused') throw this.#paused(role, wish.instance, vouching.why, actor);
    if (!this.#rate.may(wish.instance)) {
      throw this.#tooOften(role, wish.instance, { method: 'renew', actor });
    }
    const issued = await this.#issuers[role].issue(name, { publicKey: key.key });
    const { peerUid } = vouching;
    const member: Member = {
      ...before.member,
      ...next.member,
      ...(peerUid === undefined ? {} : { peerUid }),
      renewedAtMs: nowMs,
      serial: issued.serialHex,
      key: key.key.fingerprint,
      notAfterMs: issued.notAfterMs,
    };
    // Two that renew at once with the same SVID: one is too late, and is told so by its next attempt.
    await members.put(wish.instance, before, member, []);
    audit.later({
      actor,
      verb: `${role}.renew`,
      kind: 'SVID',
      name: issued.id.toString(),
      outcome: 'allow',
      reason: `generation ${member.generation}, serial ${member.serial}, until ${timestamp(issued.notAfterMs)}`,
    });
    this.#joins.add({ method: 'renew', result: 'ok' });
    return this.#certs(issued, wish.instance, member);
  }

  #vouching(
    member: Pick<Member, 'provenBy' | 'peerUid'>,
  ): Vouching & { readonly peerUid?: string } {
    const { trustDomain, relations } = this.#parts;
    return judgeVouching(member, trustDomain.name, relations.current);
  }

  #certs(issued: IssuedSvid, instance: string, member: Member): GivenCerts {
    return {
      spiffeId: issued.id.toString(),
      chain: issued.chain,
      bundle: this.#parts.authority.bundle.authorities.map(({ der }) => der),
      instance,
      generation: BigInt(member.generation),
    };
  }

  #nameTaken(token: UsableToken, role: MemberRole, name: string, proof: Proof): HansaError {
    const message = `There is an agent ${name} already, and a join never replaces one. Choose another name, or have the operator forget it: hansa join forget ${name}.`;
    this.#joins.add({ method: proof.method, result: 'name-taken' });
    this.#parts.audit.deny({
      actor: proof.actor,
      verb: `${role}.join`,
      kind: joinTokenKind.kind,
      name: token.name,
      outcome: 'deny',
      code: 'HANSA_ALREADY_EXISTS',
      reason: `agent ${name} exists already; ${proof.words}`,
    });
    return new HansaError('HANSA_ALREADY_EXISTS', message);
  }

  /** The member is proven, so it may know. A client tries again, and is renewed after a resume. */
  #paused(role: MemberRole, instance: string, why: string, actor: AuditActor): HansaError {
    this.#joins.add({ method: 'renew', result: 'untrusted-peer' });
    const code = 'HANSA_UNAVAILABLE';
    this.#parts.audit.deny({
      actor,
      verb: `${role}.renew`,
      kind: 'SVID',
      name: instance,
      outcome: 'deny',
      code,
      reason: `${why}, and it vouched for ${instance}`,
    });
    return new HansaError(
      code,
      `Cannot renew: ${why}, and it vouched for ${instance}. Ask the operator of ${this.#parts.trustDomain.name}.`,
    );
  }

  #tooOften(
    role: MemberRole,
    instance: string,
    { method, actor }: Pick<Proof, 'method' | 'actor'>,
  ): HansaError {
    this.#joins.add({ method, result: 'too-often' });
    const code = 'HANSA_TOO_MANY_REQUESTS';
    this.#parts.audit.deny({
      actor,
      verb: `${role}.${method === 'renew' ? 'renew' : 'join'}`,
      kind: 'SVID',
      name: instance,
      outcome: 'deny',
      code,
      reason: 'it was certified anew many times within minutes',
    });
    return new HansaError(code, 'Cannot certify the same member so often. Try again in a minute.');
  }

  /** The operator gets every reason; whoever asked gets none. */
  #refuse(
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
    this.#parts.audit.deny({
      actor,
      verb: `${role === 'bot' ? 'bot' : 'agent'}.${verb}`,
      kind: method === 'renew' ? 'SVID' : joinTokenKind.kind,
      // Of a stranger, who may have written 64 KiB.
      ...(token === '' ? {} : { name: excerpt(token) }),
      outcome: 'deny',
      code: error.code,
      reason: words === '' ? reasons : `${reasons} (${words})`,
    });
    return error;
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
        this.#parts.log.warn('the use of a join token could not be counted', {
          error,
          token: name,
        }),
      );
  }
}

async function nextMessage(call: PlaneCall): Promise<Buffer> {
  const message = await call.read();
  if (message !== undefined) return message;
  throw new HansaError('HANSA_BAD_REQUEST', 'The stream ended before the conversation was over.');
}

function readKey(spki: Uint8Array): {
  readonly key: PublicKey | undefined;
  readonly refusals: readonly Refusal[];
} {
  try {
    return { key: PublicKey.parse(spki), refusals: [] };
  } catch (caught) {
    if (brokenRule(caught) === undefined) throw caught;
    const { message } = caught as HansaError;
    return { key: undefined, refusals: [{ reason: 'bad-key', message }] };
  }
}
