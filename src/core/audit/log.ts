// The audit log service. It connects records, proofs, checkpoints and searches to the store.
//
// The store keeps the records and the hashes of the tree, in the commit of the change that they
// record. Callers decide which events to record; a change to the log after the fact breaks its signed
// checkpoints.

import type { Clock, Timer } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { commitUnfenced } from '../lease/current-fence.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { AuditRow, Store } from '../store/store.ts';
import {
  parseCheckpoint,
  type SignedCheckpoint,
  signCheckpoint,
  verifyCheckpoint,
} from './checkpoint.ts';
import type { NoteSigner } from './note.ts';
import { DenialGroups } from './denials.ts';
import { follows } from './restore-record.ts';
import { type AuditDraft, encodeEvent } from './event.ts';
import { verifyConsistency } from '../merkle/proofs.ts';
import { consistencyProof, inclusionProof } from './proof.ts';
import { type AuditPage, type AuditQuery, isoTime, queryLog } from './query.ts';
import { WaitingRows } from './waiting-rows.ts';

export interface AuditOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly signer: NoteSigner;
  readonly log: Log;
  readonly metrics: Metrics;
}

const checkpointCollection = 'audit.checkpoints';
const latestCheckpoint = 'latest';
/** A checkpoint that a peer holds and that this log does not extend. */
const contradictingCheckpoint = 'contradicting';

/** The last checkpoint of a store while its site is stopped; undefined where there is none. */
export function storedCheckpoint(store: Store): string | undefined {
  return store.get(checkpointCollection, latestCheckpoint)?.value.toString('utf8');
}

/** New rows are under a signed checkpoint after this long at the latest. */
const checkpointDelayMs = 1000;
/** Checks for a row's commit before the log assumes that it failed. */
const mostLooks = 30;
const denialWindowMs = 60_000;
/** Minimum time between flushes caused by searches, so that frequent searches do not defeat aggregation. */
const settleMs = 5_000;
/** Rows of `later` are written within this long. */
const laterDelayMs = 1000;

export interface EventProof {
  readonly index: number;
  /** The exact bytes of the record. */
  readonly row: Buffer;
  readonly checkpoint: SignedCheckpoint;
  readonly proof: readonly Buffer[];
}

/** One to a store. `start` it, and `stop` it before the store is closed. */
export class Audit {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #signer: NoteSigner;
  readonly #log: Log;
  readonly #denials = new DenialGroups();
  readonly #countDenial: () => void;
  readonly #waiting: WaitingRows;
  #latest: SignedCheckpoint | undefined;
  #making: Promise<SignedCheckpoint> | undefined;
  #checkpointTimer: Timer | undefined;
  #denialTimer: Timer | undefined;
  #settledAt = -Infinity;
  #looksLeft = 0;
  #checkpointFailures = 0;
  #problem: HansaError | undefined;
  /** The reason for `problem` that could not be written yet. */
  #unstored: Contradiction | undefined;
  #stopped = false;

  constructor({ store, clock, signer, log, metrics }: AuditOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#signer = signer;
    this.#log = log.with({ component: 'audit' });
    const denials = metrics.counter({
      name: 'hansa_audit_denials_total',
      help: 'Denied requests, before they are aggregated.',
    });
    this.#countDenial = () => denials.add({});
    const lost = metrics.counter({
      name: 'hansa_audit_lost_total',
      help: 'Audit records that the site could not write and dropped. Only events that do not wait for the write are affected, such as renewals and denials.',
    });
    this.#waiting = new WaitingRows({
      store,
      clock,
      log: this.#log,
      lost: (rows) => lost.add({}, rows),
      written: () => this.#expectRows(),
    });
    const gauge = (name: string, help: string, read: () => number): void =>
      metrics.observe({ name, help }, (report) => report({}, read()));
    gauge('hansa_audit_events', 'Records in the audit log.', () => store.auditLog.size);
    gauge(
      'hansa_audit_signed_events',
      'Records that the newest checkpoint covers.',
      () => this.#latest?.size ?? 0,
    );
    gauge(
      'hansa_audit_waiting_events',
      'Records that are waiting to be written.',
      () => this.#waiting.size + this.#denials.size,
    );
    gauge('hansa_audit_problem', 'Whether the log contradicts an earlier checkpoint.', () =>
      this.#problem === undefined ? 0 : 1,
    );
  }

  /**
   * Reads the last checkpoint and checks that the log still extends it. If it does not, the log
   * signs no more checkpoints and `problem` says why. The site keeps working: an audit problem must
   * not become an outage.
   */
  async start(): Promise<void> {
    try {
      await this.#resume();
    } catch (error) {
      if (!(error instanceof HansaError) || error.code !== 'HANSA_AUDIT_INVALID') throw error;
      this.#problem = error;
      this.#log.error('the audit log does not extend its last checkpoint', { error });
      return;
    }
    if (this.#latest?.size !== this.#store.auditLog.size) await this.checkpoint();
  }

  /** Why the log signs no checkpoints; undefined where it does. */
  get problem(): HansaError | undefined {
    return this.#problem;
  }

  /**
   * Stops signing, for good: a peer holds this checkpoint, which the log's own key signed and which the log
   * does not extend.
   */
  async contradict(held: SignedCheckpoint): Promise<void> {
    if (this.#problem === undefined) {
      const { name } = this.#signer.verifier;
      const reason = contradiction(held, name, this.#store.auditLog.size);
      this.#problem = brokenLog(reason);
      this.#unstored = { held, reason };
      this.#checkpointTimer?.cancel();
      this.#log.error('the audit log contradicts a checkpoint that a peer holds', {
        error: this.#problem,
      });
    }
    const unstored = this.#unstored;
    if (unstored === undefined) return;
    this.#unstored = undefined;
    try {
      await this.#storeContradiction(unstored);
    } catch (error) {
      // The next message of a peer tries again. Until then, a restart would forget it.
      this.#unstored = unstored;
      throw error;
    }
  }

  async #storeContradiction({ held, reason }: Contradiction): Promise<void> {
    const note = Buffer.from(held.note);
    await commitUnfenced(this.#store, {
      put: [
        { collection: checkpointCollection, name: contradictingCheckpoint, encode: () => note },
      ],
      audit: [
        this.record({
          actor: { user: 'system:audit', groups: [], via: 'controller' },
          verb: 'audit.contradicted',
          outcome: 'error',
          code: 'HANSA_AUDIT_INVALID',
          reason: `${reason} Checkpoint: ${held.body}`,
        }),
      ],
    });
  }

  get verifier(): NoteSigner['verifier'] {
    return this.#signer.verifier;
  }

  /** A row for the commit of the change that it records. */
  record(draft: AuditDraft): AuditRow {
    this.#expectRows();
    const time = isoTime(this.#clock.now());
    return { encode: ({ index, revision }) => encodeEvent({ ...draft, time, index, revision }) };
  }

  /** Records a denial: at most one record per actor, reason and minute. */
  deny(draft: AuditDraft): void {
    this.#countDenial();
    this.#denials.add(draft, isoTime(this.#clock.now()));
    if (this.#stopped) return;
    this.#denialTimer ??= this.#clock.timer(denialWindowMs, () => {
      this.#denialTimer = undefined;
      this.#flushDenials();
    });
  }

  /** Records a renewal or similar event: written in batches, and a failure does not fail the caller. */
  later(draft: AuditDraft): void {
    this.#waiting.add(draft, laterDelayMs);
  }

  /** The signed head over all rows that are committed now. Signing happens outside of any commit. */
  async checkpoint(): Promise<SignedCheckpoint> {
    if (this.#problem !== undefined) throw this.#problem;
    const latest = this.#latest;
    if (latest !== undefined && latest.size === this.#store.auditLog.size) return latest;
    // One at a time. Later callers may need a newer checkpoint than the one being signed.
    while (this.#making !== undefined) await this.#making.catch(() => undefined);
    if (this.#latest?.size === this.#store.auditLog.size) return this.#latest;
    this.#making = this.#makeCheckpoint();
    try {
      return await this.#making;
    } finally {
      this.#making = undefined;
    }
  }

  /** The newest checkpoint that was made, at most about a second old while rows come in. */
  get latestCheckpoint(): SignedCheckpoint | undefined {
    return this.#latest;
  }

  /** Searches the log. It first writes aggregated denials, so that a search finds recent ones. */
  async list(query: AuditQuery): Promise<AuditPage> {
    if (query.before === undefined) await this.#settle();
    return queryLog(this.#store.auditLog, query);
  }

  /** A record and the proof that it is under the current checkpoint. */
  async prove(index: number): Promise<EventProof> {
    const checkpoint = await this.checkpoint();
    const known = Number.isSafeInteger(index) && index >= 0 && index < checkpoint.size;
    const [row] = known ? await this.#store.auditLog.read(index, 1) : [];
    if (row === undefined) {
      throw new HansaError(
        'HANSA_NOT_FOUND',
        `There is no audit record ${index}: the log has records 0 to ${checkpoint.size - 1}.`,
      );
    }
    const proof = await inclusionProof(this.#store.auditLog, index, checkpoint.size);
    return { index, row, checkpoint, proof };
  }

  /** The proof that the current checkpoint extends the tree of the first `size` records. */
  async proveConsistency(
    size: number,
  ): Promise<{ readonly checkpoint: SignedCheckpoint; readonly proof: readonly Buffer[] }> {
    const checkpoint = await this.checkpoint();
    if (!Number.isSafeInteger(size) || size < 0 || size > checkpoint.size) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `Cannot prove consistency with a tree of ${size} records: the log has ${checkpoint.size}.`,
      );
    }
    return {
      checkpoint,
      proof: await consistencyProof(this.#store.auditLog, size, checkpoint.size),
    };
  }

  /** Writes waiting records and signs a last checkpoint. Failures do not block the shutdown. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#checkpointTimer?.cancel();
    this.#denialTimer?.cancel();
    this.#flushDenials();
    await this.#waiting.stop();
    if (this.#problem !== undefined) return;
    await this.checkpoint().catch((error: unknown) => {
      this.#log.warn('cannot sign a last checkpoint of the audit log', { error });
    });
  }

  #flushDenials(): void {
    for (const draft of this.#denials.take()) this.#waiting.add(draft, 0);
  }

  async #settle(): Promise<void> {
    const now = this.#clock.monotonic();
    if (this.#stopped || now < this.#settledAt + settleMs) return;
    this.#settledAt = now;
    this.#flushDenials();
    await this.#waiting.flush();
  }

  /** Schedules a checkpoint for rows that were committed or will be soon. */
  #expectRows(): void {
    this.#looksLeft = mostLooks;
    this.#scheduleCheckpoint();
  }

  #scheduleCheckpoint(): void {
    if (this.#stopped || this.#problem !== undefined) return;
    // Backs off on a full disk, up to one attempt per minute.
    const delayMs = Math.min(
      60_000,
      checkpointDelayMs * 2 ** Math.min(this.#checkpointFailures, 6),
    );
    this.#checkpointTimer ??= this.#clock.timer(delayMs, () => {
      this.#checkpointTimer = undefined;
      // The commit of a row may still be running, also while this checkpoint is signed.
      const lookAgain = (): void => {
        if (--this.#looksLeft > 0) this.#scheduleCheckpoint();
      };
      if (this.#latest?.size === this.#store.auditLog.size) {
        lookAgain();
        return;
      }
      this.checkpoint().then(
        () => {
          this.#checkpointFailures = 0;
          lookAgain();
          return undefined;
        },
        (error: unknown) => {
          this.#checkpointFailures++;
          this.#log.warn('cannot sign a checkpoint of the audit log', { error });
          this.#scheduleCheckpoint();
        },
      );
    });
  }

  async #makeCheckpoint(): Promise<SignedCheckpoint> {
    // Both are read in one turn, between commits.
    const { size, rootHash } = this.#store.auditLog;
    const made = await signCheckpoint(this.#signer, { size, rootHash });
    const note = Buffer.from(made.note);
    await commitUnfenced(this.#store, {
      put: [{ collection: checkpointCollection, name: latestCheckpoint, encode: () => note }],
    });
    this.#latest = made;
    return made;
  }

  async #resume(): Promise<void> {
    const stored = this.#store.get(checkpointCollection, latestCheckpoint);
    if (stored === undefined) {
      // A site signs its empty log before the first record, so a missing checkpoint was deleted.
      const records = this.#store.auditLog.size;
      if (records === 0) return;
      throw brokenLog(
        `The audit log has ${records} records, but its signed checkpoint is missing: it was removed while the site was stopped.`,
      );
    }
    const last = parseCheckpoint(stored.value.toString('utf8'));
    verifyCheckpoint(last, this.#signer.verifier);
    const { size } = this.#store.auditLog;
    if (!(await this.#extends(last))) {
      throw brokenLog(
        `The audit log has ${size} records that do not extend its signed checkpoint of ${last.size} records: it was changed while the site was stopped.`,
      );
    }
    this.#latest = last;
    const other = this.#store.get(checkpointCollection, contradictingCheckpoint);
    const held = other && parseCheckpoint(other.value.toString('utf8'));
    if (held === undefined) return;
    const { name } = this.#signer.verifier;
    // A restore opens a new origin. Checkpoints of the one before no longer bind it, but those of a later one do.
    const isBroken =
      held.origin === name ? !(await this.#extends(held)) : follows(held.origin, name);
    if (isBroken) throw brokenLog(contradiction(held, name, size));
  }

  async #extends(earlier: SignedCheckpoint): Promise<boolean> {
    const log = this.#store.auditLog;
    const { size, rootHash } = log;
    return (
      earlier.size <= size &&
      verifyConsistency({
        size1: earlier.size,
        rootHash1: earlier.rootHash,
        size2: size,
        rootHash2: rootHash,
        proof: await consistencyProof(log, earlier.size, size),
      })
    );
  }
}

interface Contradiction {
  readonly held: SignedCheckpoint;
  readonly reason: string;
}

function contradiction(held: SignedCheckpoint, origin: string, size: number): string {
  if (held.origin !== origin) {
    return `A peer holds a checkpoint of the log ${held.origin} that this site signed after a restore, and the log of this site is ${origin}: an older copy of the data folder was put back.`;
  }
  return held.size > size
    ? `A peer holds a checkpoint of ${held.size} records that this site signed, and the audit log has ${size}: an older copy of the data folder was put back.`
    : `A peer holds a checkpoint of ${held.size} records that this site signed, and the first ${held.size} records of the audit log are others: they were changed.`;
}

/** No other log can follow what others have seen of this one. So the way out is its newest copy, or a new log. */
function brokenLog(why: string): HansaError {
  return new HansaError(
    'HANSA_AUDIT_INVALID',
    `${why} The site serves its API, workloads and peers as before, but signs no more checkpoints. To sign again, stop it and put back the newest copy of the data folder. If there is none, start over with a new data folder, and ask the operator of each peer for hansa peer reenrol.`,
  );
}
