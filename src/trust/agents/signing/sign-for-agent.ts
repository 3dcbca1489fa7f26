// Signs SVIDs for the workloads of agents. The agent names an entry and proves that it holds the key.
// Everything else comes from the stored entry, which must be assigned to the agent. An answer leaves
// only after the audit records of the batch are durable.

import { verify as verifySync } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import {
  type JwtRequest,
  type SignRequest,
  type SignResponse,
  SignResponseSchema,
  type X509Request,
} from '../../../../proto/gen/agent_pb.ts';
import { timestamp } from '../../../api/object.ts';
import { excerpt } from '../../../api/values/trust-domain.ts';
import type { SignForAgent, SigningAgent } from '../../../core/agent/agent-signer.ts';
import { maxSignBatch } from '../../../core/agent/limits.ts';
import type { AuditDraft } from '../../../core/audit/event.ts';
import { HansaError, hasCode, toHansaError } from '../../../core/errors/error.ts';
import type { IssuedSvid, SiteAuthority } from '../../../core/identity/authority/authority.ts';
import { type IssuedJwtSvid, signJwtSvid } from '../../../core/identity/jwt/sign-svid.ts';
import type { KeyAlgorithm } from '../../../core/identity/x509/algorithms.ts';
import { PublicKey } from '../../../core/identity/x509/keys.ts';
import { commitFenced } from '../../../core/lease/current-fence.ts';
import { TokenBuckets } from '../../../core/limits/token-buckets.ts';
import type { PlaneContext } from '../../../core/plane/plane.ts';
import type { AuditRow } from '../../../core/store/store.ts';
import { poolQueue, type Verify } from '../../../core/identity/x509/verify-queue.ts';
import { checkTranscript } from '../../join/proof.ts';
import type { UsableEntry } from '../../workload/entries/matching-entries.ts';
import { describeJwt } from '../../workload/svids/issuer.ts';
import { JwtRecordLimit } from '../../workload/svids/jwt-record-limit.ts';
import type { AgentEntries } from '../agent-entries.ts';
import { signingTranscript } from '../sign-transcript.ts';
import { WorkTurns } from '../../../core/limits/work-turns.ts';

export interface SignForAgentParts
  extends Pick<PlaneContext, 'trustDomain' | 'clock' | 'log' | 'metrics'> {
  readonly store: Pick<PlaneContext['store'], 'commit'>;
  readonly audit: Pick<PlaneContext['audit'], 'record' | 'deny'>;
  readonly authority: Pick<SiteAuthority, 'issue' | 'jwtSigner' | 'isTainted'>;
  readonly entries: Pick<AgentEntries, 'of'>;
  /** See `agentStanding`. */
  readonly standing: (agent: string) => HansaError | undefined;
  /** The `iss` of JWT-SVIDs; undefined: they have none. */
  readonly jwtIssuer?: string | undefined;
}

/**
 * Signatures per agent and replica. An agent with 1,000 entries of the shortest lifetime (60 s) renews 33
 * per second, and after a restart it requests all at once.
 */
export const x509Quota = { burst: 5000, perSecond: 100 } as const;
/** Apart from the other, so that a workload that requests many tokens cannot stop renewals. */
export const jwtQuota = { burst: 2000, perSecond: 100 } as const;
/** Above the number of agents that a site can have. */
const maxAgents = 65_536;

export function signForAgent(parts: SignForAgentParts): SignForAgent {
  const signer = new AgentSigner(parts);
  return (agent, request, exporter) => signer.sign(agent, request, exporter);
}

/** A request that passed all checks. */
interface Wanted<T> {
  readonly entry: UsableEntry;
  readonly issue: () => Promise<Issued<T>>;
}

interface Issued<T> {
  readonly svid: T;
  readonly authorityId: string;
  /** For the audit record. Undefined if the token is only counted: see JwtRecordLimit. */
  readonly record: string | undefined;
}

interface Outcome<T> {
  readonly wanted?: Wanted<T>;
  issued?: Issued<T>;
  refusal?: HansaError;
}

interface Batch {
  readonly agent: SigningAgent;
  readonly id: bigint;
  readonly exporter: Buffer;
  /** Why the site signs nothing for this agent. */
  readonly problem: HansaError | undefined;
}

class AgentSigner {
  readonly #parts: SignForAgentParts;
  readonly #x509Quota: TokenBuckets;
  readonly #jwtQuota: TokenBuckets;
  readonly #jwtRecords = new JwtRecordLimit();
  readonly #work: WorkTurns;
  readonly #count: (type: 'x509' | 'jwt', outcomes: readonly Outcome<unknown>[]) => void;

  constructor(parts: SignForAgentParts) {
    this.#parts = parts;
    const { clock, metrics } = parts;
    this.#work = new WorkTurns(clock);
    this.#x509Quota = new TokenBuckets({ clock, maxKeys: maxAgents, ...x509Quota });
    this.#jwtQuota = new TokenBuckets({ clock, maxKeys: maxAgents, ...jwtQuota });
    const signed = metrics.counter<'type' | 'result'>({
      name: 'hansa_agent_svids_total',
      help: 'SVIDs that agents requested for their workloads, by type (x509, jwt) and result (issued, refused).',
      labels: ['type', 'result'],
    });
    this.#count = (type, outcomes) => {
      const issued = outcomes.filter((outcome) => outcome.issued !== undefined).length;
      if (issued > 0) signed.add({ type, result: 'issued' }, issued);
      const refused = outcomes.length - issued;
      if (refused > 0) signed.add({ type, result: 'refused' }, refused);
    };
  }

  /** Rejects if the batch is too large, or if its audit records cannot be written. */
  async sign(agent: SigningAgent, request: SignRequest, exporter: Buffer): Promise<SignResponse> {
    const { id, x509, jwt } = request;
    const problem = this.#parts.standing(agent.name);
    const batch: Batch = { agent, id, exporter, problem };
    if (x509.length + jwt.length > maxSignBatch) {
      throw this.#refusal(
        batch,
        new HansaError(
          'HANSA_BAD_REQUEST',
          `Cannot sign: the batch has ${x509.length + jwt.length} requests, and the limit is ${maxSignBatch}.`,
        ),
      );
    }
    const certificates: Outcome<IssuedSvid>[] = [];
    for (const asked of x509) {
      certificates.push(await this.#judge(batch, () => this.#x509(batch, asked)));
    }
    const tokens: Outcome<IssuedJwtSvid>[] = [];
    for (const asked of jwt) tokens.push(await this.#judge(batch, () => this.#jwt(batch, asked)));
    await this.#issueAll(batch, [...certificates, ...tokens]);
    this.#count('x509', certificates);
    this.#count('jwt', tokens);
    return create(SignResponseSchema, {
      id,
      x509: certificates.map(x509Result),
      jwt: tokens.map(jwtResult),
    });
  }

  /** The refusal of one request does not affect the others. */
  #judge<T>(batch: Batch, judge: () => Wanted<T> | Promise<Wanted<T>>): Promise<Outcome<T>> {
    return this.#work.run(batch.agent.name, async () => {
      try {
        if (batch.problem !== undefined) throw batch.problem;
        return { wanted: await judge() };
      } catch (error) {
        return { refusal: this.#refusal(batch, error) };
      }
    });
  }

  async #x509({ agent, id, exporter }: Batch, asked: X509Request): Promise<Wanted<IssuedSvid>> {
    const { authority, trustDomain } = this.#parts;
    this.#take(this.#x509Quota, agent);
    const entry = this.#entry(agent, asked.entry);
    const publicKey = PublicKey.parse(asked.publicKey);
    const transcript = signingTranscript({
      trustDomain: trustDomain.name,
      agent: agent.name,
      exporter,
      request: id,
      entry: entry.uid,
      publicKey: publicKey.spki,
    });
    if (!(await this.#holdsKey(agent, publicKey, transcript, asked.proof))) {
      throw new HansaError(
        'HANSA_FORBIDDEN',
        `Cannot sign for entry ${entry.name}: the request does not prove that the agent holds the key.`,
      );
    }
    // The batch may wait long for its audit records, and issuing needs only the bytes of the key.
    publicKey.dropKeyObject();
    const { id: spiffeId, ttlSeconds, dnsNames } = entry;
    return {
      entry,
      issue: async () => {
        const svid = await authority.issue({ spiffeId, publicKey, ttlSeconds, dnsNames });
        return {
          svid,
          authorityId: svid.authorityId,
          record: `${spiffeId.toString()}, serial number ${svid.serialHex}, until ${timestamp(svid.notAfterMs)}`,
        };
      },
    };
  }

  #jwt({ agent }: Batch, { entry: uid, audience }: JwtRequest): Wanted<IssuedJwtSvid> {
    this.#take(this.#jwtQuota, agent);
    const entry = this.#entry(agent, uid);
    return { entry, issue: () => this.#signToken(entry, audience) };
  }

  async #signToken(
    entry: UsableEntry,
    audience: readonly string[],
  ): Promise<Issued<IssuedJwtSvid>> {
    const { authority, clock, trustDomain, jwtIssuer } = this.#parts;
    const { id: subject, uid, jwtTtlSeconds: ttlSeconds } = entry;
    const nowMs = clock.now();
    const svid = await signJwtSvid({
      key: authority.jwtSigner,
      trustDomain,
      subject,
      audience,
      ttlSeconds,
      issuer: jwtIssuer,
      nowMs,
    });
    const unrecorded = this.#jwtRecords.take(uid, nowMs);
    const record =
      unrecorded === undefined
        ? undefined
        : `${subject.toString()}, ${describeJwt(svid, audience, unrecorded)}`;
    return { svid, authorityId: svid.keyId, record };
  }

  #take(quota: TokenBuckets, { name }: SigningAgent): void {
    const retryAfterSeconds = quota.take(name);
    if (retryAfterSeconds === undefined) return;
    throw new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `Cannot sign: the agent ${name} requested too many SVIDs. Try again in ${retryAfterSeconds} s.`,
      { details: { retryAfterSeconds } },
    );
  }

  /** An agent does not learn whether an entry of others exists. */
  #entry({ name }: SigningAgent, uid: string): UsableEntry {
    const entry = this.#parts.entries.of(name).get(uid);
    if (entry !== undefined) return entry;
    throw new HansaError(
      'HANSA_FORBIDDEN',
      `Cannot sign for entry ${JSON.stringify(excerpt(uid))}: no usable WorkloadEntry with this uid is assigned to the agent ${name}.`,
    );
  }

  async #holdsKey(
    { name }: SigningAgent,
    { keyObject, algorithm }: PublicKey,
    transcript: Buffer,
    proof: Uint8Array,
  ): Promise<boolean> {
    const verifies = quick.has(algorithm) ? verifyHere : poolQueue.of(name, neverAborted);
    try {
      return await checkTranscript(verifies, transcript, { key: keyObject, algorithm }, proof);
    } catch {
      // OpenSSL rejects some malformed signatures with an error.
      return false;
    }
  }

  /** Issues, records durably, and then checks that nothing was withdrawn meanwhile. */
  async #issueAll(batch: Batch, outcomes: readonly Outcome<unknown>[]): Promise<void> {
    const { name } = batch.agent;
    for (;;) {
      const rows: AuditRow[] = [];
      for (const outcome of outcomes) {
        const { wanted } = outcome;
        if (wanted === undefined || outcome.refusal !== undefined) continue;
        if (outcome.issued !== undefined) continue;
        await this.#work.run(name, () => this.#issue(batch, outcome, wanted, rows));
      }
      if (rows.length > 0) await commitFenced(this.#parts.store, { audit: rows });
      if (await this.#work.run(name, async () => this.#isComplete(batch, outcomes))) return;
    }
  }

  /** Takes back what was withdrawn. Returns whether nothing is left to issue. */
  #isComplete(batch: Batch, outcomes: readonly Outcome<unknown>[]): boolean {
    const { authority, entries, standing } = this.#parts;
    const { name } = batch.agent;
    const problem = standing(name);
    const current = entries.of(name);
    let isComplete = true;
    for (const outcome of outcomes) {
      const { wanted, issued } = outcome;
      if (wanted === undefined || issued === undefined) continue;
      const isWithdrawn = current.get(wanted.entry.uid) !== wanted.entry;
      if (problem !== undefined || isWithdrawn) {
        delete outcome.issued;
        outcome.refusal = this.#refusal(batch, problem ?? changedMeanwhile(wanted.entry));
      } else if (authority.isTainted(issued.authorityId)) {
        // The next round signs with the authority that is active then.
        delete outcome.issued;
        isComplete = false;
      }
    }
    return isComplete;
  }

  async #issue(
    batch: Batch,
    outcome: Outcome<unknown>,
    wanted: Wanted<unknown>,
    rows: AuditRow[],
  ): Promise<void> {
    try {
      outcome.issued = await wanted.issue();
    } catch (error) {
      const { name: agent } = batch.agent;
      const entry = wanted.entry.name;
      // Bad audiences are an error of the workload, and all others are errors of the site.
      if (!hasCode(error, 'HANSA_BAD_REQUEST')) {
        this.#parts.log.error('cannot sign for an agent', { error, agent, entry });
      }
      outcome.refusal = this.#refusal(batch, error);
      return;
    }
    const { record: reason } = outcome.issued;
    if (reason === undefined) return;
    const { name, uid } = wanted.entry;
    rows.push(
      this.#parts.audit.record({ ...this.#draft(batch), name, uid, outcome: 'allow', reason }),
    );
  }

  #refusal(batch: Batch, error: unknown): HansaError {
    const refusal = toHansaError(error);
    const { code, message: reason } = refusal;
    this.#parts.audit.deny({ ...this.#draft(batch), outcome: 'deny', code, reason });
    return refusal;
  }

  #draft({ agent }: Batch): Pick<AuditDraft, 'actor' | 'verb' | 'kind'> {
    const { name, address, serialHex: credential } = agent;
    const user = `${this.#parts.trustDomain.id}/hansa/agent/${name}`;
    const from = address === undefined ? {} : { address };
    return {
      actor: { user, groups: [], via: 'certificate', credential, ...from },
      verb: 'svid.issue',
      kind: 'WorkloadEntry',
    };
  }
}

/** Less than 100 µs of work, which is cheaper than a round trip to a thread of libuv's pool. */
const quick: ReadonlySet<KeyAlgorithm> = new Set(['p256', 'ed25519']);

const verifyHere: Verify = async (digest, data, key, signature) =>
  verifySync(digest, data, key, signature);

const neverAborted = new AbortController().signal;

function changedMeanwhile({ name }: UsableEntry): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    `Cannot sign for entry ${name}: it changed while the site signed. Try again with the current state.`,
  );
}

function x509Result({ issued, refusal }: Outcome<IssuedSvid>) {
  if (issued === undefined) return { refusal: refusalOf(refusal) };
  return { chain: [...issued.svid.chain], authority: issued.authorityId };
}

function jwtResult({ issued, refusal }: Outcome<IssuedJwtSvid>) {
  if (issued === undefined) return { refusal: refusalOf(refusal) };
  const { token, keyId, issuedAtMs, expiresAtMs } = issued.svid;
  return { token, keyId, issuedAtMs: BigInt(issuedAtMs), expiresAtMs: BigInt(expiresAtMs) };
}

function refusalOf(refusal: HansaError | undefined): { code: string; message: string } {
  return { code: refusal?.code ?? 'HANSA_INTERNAL', message: refusal?.message ?? '' };
}
