// Witnesses the audit logs of peers: verifies what they send, persists it, and only then cosigns it. It
// also collects the cosignatures of this site's own log. A problem here never fails a heartbeat.

import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { enrolmentOf } from '../../api/enrolment.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import {
  parseCheckpoint,
  type SignedCheckpoint,
  verifyCheckpoint,
} from '../../core/audit/checkpoint.ts';
import { witnessVerifier } from '../../core/audit/cosignature.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import { readIntroduction, siteOfOrigin } from '../../core/audit/introduction.ts';
import type { Audit } from '../../core/audit/log.ts';
import { signaturesBy } from '../../core/audit/note.ts';
import type { PublicLog } from '../../core/audit/public-log.ts';
import { storedRestore } from '../../core/audit/restore-record.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import { setCondition } from '../../core/reconcile/conditions.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { AuditRow, Store } from '../../core/store/store.ts';
import type { Kept } from '../handshake/records.ts';
import { PeerRate } from '../peers/peer-rate.ts';
import type { PeerRepository } from '../peers/peer-repository.ts';
import { findingLimit } from '../timing.ts';
import { AwaitedCosignatures } from './awaited-cosignatures.ts';
import { conditionOf, wordsOf } from './finding.ts';
import { encodeLogPart, type LogPart, type LogProof, maxLogPartBytes } from './log-part.ts';
import { bare, held, nextLog, withFinding } from './next-log.ts';
import { PassedOn, type Settled } from './passed-on.ts';
import { StaleLogs } from './stale-logs.ts';
import {
  emptyHead,
  headOf,
  verifierOf,
  type WitnessedLog,
  WitnessedLogs,
} from './witnessed-logs.ts';

export interface WitnessParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly audit: Pick<Audit, 'record' | 'deny'>;
  readonly publicLog: PublicLog;
  readonly peers: Pick<PeerRepository, 'note'>;
  /** Whether to pass on checkpoints of peers to other peers that do so too. */
  readonly passesOn: boolean;
}

/** The peer that sent a message. */
export interface Sender {
  readonly name: string;
  /** Of its enrolment (`enrolmentOf`). */
  readonly uid: string;
}

const peersReader = kindReader(federationPeerKind);

/** After more conflicts in a row, the next heartbeat tries again. */
const maxAttempts = 4;
const actor: AuditActor = { user: 'system:witness', groups: [], via: 'controller' };

export class Witness {
  readonly logs: WitnessedLogs;
  readonly awaited: AwaitedCosignatures;
  readonly stale: StaleLogs;
  readonly #parts: WitnessParts;
  readonly #findings: PeerRate;
  readonly #passedOn = new PassedOn();
  /** What each peer said last. */
  readonly #last = new Map<string, LogPart>();
  readonly #introductions = new Map<string, Promise<string>>();
  /** The key and the note of the last `held` of each peer that this process has compared with its log. */
  readonly #agreed = new Map<string, string>();
  /** The cosigned checkpoint of each log, so that one head is cosigned once. */
  readonly #cosigned = new Map<string, SignedCheckpoint>();

  constructor(parts: WitnessParts) {
    this.#parts = parts;
    this.logs = new WitnessedLogs(parts.store);
    this.awaited = new AwaitedCosignatures(parts.clock, parts.publicLog);
    this.stale = new StaleLogs(parts.clock);
    this.#findings = new PeerRate(parts.clock, findingLimit);
  }

  /** The part about logs of the next message to this peer, by what the peer said last. */
  part(name: string): Promise<LogPart> {
    return this.#part(name, this.#last.get(name));
  }

  /**
   * The part about logs of the answer to a message with this part. Another message of the peer may have come in
   * between, and the peer judges an answer by what its own request said.
   */
  answer(name: string, request: LogPart | undefined): Promise<LogPart> {
    return this.#part(name, request);
  }

  /** `last`: what the receiver has said about logs. */
  async #part(name: string, last: LogPart | undefined): Promise<LogPart> {
    const { publicLog, store, passesOn } = this.#parts;
    if (this.logs.get(name) !== undefined) this.awaited.look(name);
    const sizes = [last?.held?.size ?? 0, ...(last?.asks ?? [])];
    const checkpoint = await publicLog.checkpointFrom(sizes);
    const proofs: LogProof[] = [];
    for (const from of new Set(sizes)) {
      const hashes = checkpoint && (await publicLog.proof(from, checkpoint));
      if (hashes !== undefined && from > 0) proofs.push({ from, hashes });
    }
    const holds = await this.#held(name);
    const restored = storedRestore(store);
    // A peer that knew this site before it was rebuilt holds a checkpoint of another key.
    const knowsKey =
      last?.held !== undefined && signaturesBy(last.held, publicLog.verifier).length > 0;
    const part: LogPart = {
      ...(knowsKey ? {} : { introduction: await this.introduction(name) }),
      ...(checkpoint === undefined ? {} : { checkpoint }),
      proofs,
      ...(holds === undefined ? {} : { held: holds }),
      ...(last?.held === undefined ? {} : { seen: last.held.size }),
      asks: this.#passedOn.asks(name),
      passesOn,
      others: [],
      ...(restored === undefined ? {} : { restored }),
    };
    if (!passesOn || last?.passesOn !== true) return part;
    const bytes = Buffer.byteLength(JSON.stringify(encodeLogPart(part)));
    return { ...part, others: this.#passedOn.pick(name, this.logs, maxLogPartBytes - bytes) };
  }

  /** The key of this site's log, signed for this peer. */
  introduction(name: string): Promise<string> {
    let text = this.#introductions.get(name);
    if (text === undefined) {
      text = this.#parts.publicLog.introduce(name);
      this.#introductions.set(name, text);
      // The next message tries again.
      text.catch(() => this.#introductions.delete(name));
    }
    return text;
  }

  /** In the handshake with a peer: takes the key of its log, and answers with the key of this site's log. */
  async exchange(
    peer: FederationPeer,
    introduction: string | undefined,
  ): Promise<{ readonly logIntroduction: string }> {
    const { name } = peer.metadata;
    if (introduction !== undefined) {
      await this.introduced({ name, uid: enrolmentOf(peer) }, introduction);
    }
    return { logIntroduction: await this.introduction(name) };
  }

  /** In the handshake: the key of the peer's log, before its first heartbeat. */
  async introduced(sender: Sender, introduction: string): Promise<void> {
    const { trustDomain } = this.#parts;
    await this.#guarded(sender.name, async () => {
      const { text } = readIntroduction(introduction, sender.name, trustDomain.name);
      const before = this.logs.get(sender.name);
      if (before?.value.key === text) return;
      // Nothing but the key is known. A changed key is judged with the first heartbeat.
      if (before === undefined) {
        await this.logs.put(sender.name, before, { uid: sender.uid, key: text, ...emptyHead });
      }
    });
  }

  /** Handles the part about logs of a message. `sent`: the part of the request that it answers. */
  async heard(sender: Sender, part: LogPart | undefined, sent?: LogPart): Promise<void> {
    const { name } = sender;
    if (part === undefined) this.#last.delete(name);
    else this.#last.set(name, part);
    const { held: holds } = part ?? {};
    // On its own: a bad checkpoint of this site's log must not keep the peer's log from being judged.
    if (holds !== undefined) await this.#guarded(name, () => this.#ownLog(name, holds));
    await this.#guarded(name, async () => {
      const offered = await this.#theirLog(sender, part, sent);
      if (part !== undefined && offered !== undefined) {
        for (const settled of this.#passedOn.settle(name, offered, part.proofs, sent?.asks)) {
          await this.#settled(name, settled);
        }
      }
      if (part !== undefined && this.#parts.passesOn) await this.#others(name, part.others);
      await this.show(name);
    });
  }

  /** Forgets what a peer said. Its record stays. */
  forget(name: string): void {
    this.#last.delete(name);
    this.#introductions.delete(name);
    this.#agreed.delete(name);
    this.#cosigned.delete(name);
    this.#passedOn.forget(name);
    this.awaited.forget(name);
    this.stale.forget(name);
  }

  /** Compares this site's log with what a peer holds of it, and keeps the cosignature. */
  async #ownLog(name: string, checkpoint: SignedCheckpoint): Promise<void> {
    const { publicLog } = this.#parts;
    const known = this.logs.get(name);
    const told = `${known?.value.key} ${checkpoint.note}`;
    // Most heartbeats bring no new cosignature.
    if (this.#agreed.get(name) === told) return;
    if (!(await publicLog.compare(checkpoint)) || known === undefined) return;
    publicLog.cosignatures.add(checkpoint, witnessVerifier(name, verifierOf(known.value)));
    this.#agreed.set(name, told);
    this.awaited.look(name);
  }

  /** Resolves to the verified checkpoint of the message if it extends what this site holds. */
  async #theirLog(
    sender: Sender,
    part: LogPart | undefined,
    sent: LogPart | undefined,
  ): Promise<SignedCheckpoint | undefined> {
    const { clock, trustDomain } = this.#parts;
    const { name } = sender;
    for (let attempt = 1; ; attempt++) {
      const before = this.logs.get(name);
      const { log, offered, isLate, refused } = nextLog(before?.value, {
        ...sender,
        self: trustDomain.name,
        part,
        ...(sent === undefined ? {} : { answerTo: sent.held?.size ?? 0 }),
        nowMs: clock.now(),
      });
      for (const why of refused) this.#deny(name, why);
      this.stale.heard(name, isLate === true, before?.value.size ?? 0);
      if (log === undefined || log === before?.value) return offered;
      try {
        return (await this.#put(name, before, log)) ? offered : undefined;
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT') || attempt >= maxAttempts) throw error;
      }
    }
  }

  /** Resolves to false if the peer has too many findings: then nothing is written. */
  async #put(
    name: string,
    before: Kept<WitnessedLog> | undefined,
    log: WitnessedLog,
  ): Promise<boolean> {
    const { finding } = log;
    const rows: AuditRow[] = [];
    if (finding !== undefined && finding !== before?.value.finding) {
      // The next message tries again.
      if (!this.#findings.take(name)) return false;
      rows.push(
        this.#parts.audit.record({
          actor,
          verb: 'witness.finding',
          kind: 'FederationPeer',
          name,
          outcome: 'error',
          code: 'HANSA_AUDIT_INVALID',
          reason: wordsOf(finding),
        }),
      );
    }
    await this.logs.put(name, before, log, rows);
    return true;
  }

  /** Checkpoints of other logs that this peer passed on. */
  async #others(from: string, others: readonly SignedCheckpoint[]): Promise<void> {
    for (const checkpoint of others) {
      const name = siteOfOrigin(checkpoint.origin);
      if (name === this.#parts.trustDomain.name) {
        await this.#guarded(from, () => this.#ownLog(from, checkpoint));
        continue;
      }
      const known = this.logs.get(name);
      if (known === undefined || name === from) continue;
      const verifier = verifierOf(known.value);
      if (verifier.name !== checkpoint.origin) continue;
      await this.#guarded(from, async () => {
        verifyCheckpoint(checkpoint, verifier);
        const settled = this.#passedOn.offer(name, from, checkpoint, headOf(known.value));
        if (settled === undefined) return;
        await this.#settled(name, settled);
        await this.show(name);
      });
    }
  }

  async #settled(name: string, settled: Settled): Promise<void> {
    const before = this.logs.get(name);
    if (before === undefined) return;
    const log = before.value;
    const { checkpoint } = settled.question;
    // From before a restore of the peer or a new key: it says nothing about this log.
    if (signaturesBy(checkpoint, verifierOf(log)).length === 0) return;
    if (settled.kind === 'contradicts') {
      const proof = [...held(log), bare(checkpoint, verifierOf(log))];
      const next = withFinding(log, 'SplitView', settled.message, proof, this.#parts.clock.now());
      if (next !== log) await this.#put(name, before, next);
      return;
    }
    // Another peer has seen at least as much as this site, of the same history.
    if (this.logs.isConfirmed(log) || checkpoint.size < log.size) return;
    const confirmed = this.logs.restoreId() as string;
    const row = this.#parts.audit.record({
      actor,
      verb: 'witness.confirm',
      kind: 'FederationPeer',
      name,
      outcome: 'allow',
      reason: `${settled.question.from} confirmed ${checkpoint.size} events after the restore of this site`,
    });
    await this.logs.put(name, before, { ...log, confirmed }, [row]);
  }

  /** The checkpoint of this peer that this site holds, cosigned where that is allowed. */
  async #held(name: string): Promise<SignedCheckpoint | undefined> {
    const log = this.logs.get(name)?.value;
    const note = log && held(log)[0];
    if (note === undefined) return undefined;
    const checkpoint = parseCheckpoint(note);
    const { publicLog } = this.#parts;
    // A restored log is a new one, and its finding says nothing against it.
    const doubted = log?.finding !== undefined && log.finding.reason !== 'Restored';
    if (
      log === undefined ||
      doubted ||
      publicLog.problem !== undefined ||
      !this.logs.isConfirmed(log)
    ) {
      return checkpoint;
    }
    let cosigned = this.#cosigned.get(name);
    if (cosigned?.body !== checkpoint.body) {
      cosigned = await publicLog.cosign(checkpoint);
      this.#cosigned.set(name, cosigned);
    }
    return cosigned;
  }

  /** Shows the state of the log in the status of the peer. */
  async show(name: string): Promise<void> {
    const log = this.logs.get(name)?.value;
    if (log === undefined) return;
    const { peers, clock, store } = this.#parts;
    const condition = conditionOf(log.finding, {
      confirmed: this.logs.isConfirmed(log),
      stale: this.stale.staleMs(name) > 0,
    });
    const shown = peersReader.get(store, name)?.status?.conditions;
    if (setCondition(shown, condition, clock.now()) === shown) return;
    await peers.note(name, (status) => ({
      ...status,
      conditions: setCondition(status.conditions, condition, clock.now()),
    }));
  }

  async #guarded(name: string, run: () => Promise<unknown>): Promise<void> {
    try {
      await run();
    } catch (error) {
      if (hasCode(error, 'HANSA_AUDIT_INVALID')) this.#deny(name, error.message);
      else this.#parts.log.warn('cannot witness an audit log', { peer: name, error });
    }
  }

  #deny(name: string, reason: string): void {
    this.#parts.audit.deny({
      actor: {
        user: SpiffeId.of(TrustDomain.parse(name), 'hansa', 'site').toString(),
        groups: [],
        via: 'certificate',
      },
      verb: 'witness.refuse',
      kind: 'FederationPeer',
      name,
      outcome: 'deny',
      code: 'HANSA_AUDIT_INVALID',
      reason,
    });
  }
}
