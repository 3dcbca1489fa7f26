// The audit log as other sites see it: its newest checkpoint with consistency proofs, the introduction of
// its key, the cosignatures of its witnesses, and what this site cosigns for others.

import type { Clock } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { commitFenced } from '../lease/current-fence.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Store } from '../store/store.ts';
import { type SignedCheckpoint, verifyCheckpoint } from './checkpoint.ts';
import { cosign, withSignatures } from './cosignature.ts';
import { Cosignatures } from './cosignatures.ts';
import { introduceLog, isOriginOf, siteOfOrigin } from './introduction.ts';
import type { Audit } from './log.ts';
import { type NoteSigner, noteVerifier, type NoteVerifier, rawPublicKeyOf } from './note.ts';
import { consistencyProof, rootHashAt } from './proof.ts';
import { follows } from './restore-record.ts';

export interface PublicLogOptions {
  readonly audit: Pick<Audit, 'checkpoint' | 'latestCheckpoint' | 'problem' | 'contradict'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly signer: NoteSigner;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Proofs to the newest checkpoint that are kept: one for each size that a peer holds. */
const mostProofs = 1024;
const mostKnownRoots = 256;

export class PublicLog {
  readonly cosignatures: Cosignatures;
  readonly #options: PublicLogOptions;
  #proofs:
    | { readonly of: SignedCheckpoint; readonly from: Map<number, Promise<Buffer[]>> }
    | undefined;
  /** Roots that were compared before, by size. */
  readonly #roots = new Map<number, Buffer>();

  constructor(options: PublicLogOptions) {
    this.#options = options;
    this.cosignatures = new Cosignatures(options);
    options.metrics.observe(
      {
        name: 'hansa_audit_cosigned_events',
        help: 'Records of the audit log that each witness has cosigned.',
        labels: ['witness'],
      },
      (report) => {
        for (const { witness, checkpoint } of this.#cosigned()) {
          report({ witness: witness.name }, checkpoint.size);
        }
      },
    );
  }

  /** The key of this log. */
  get verifier(): NoteVerifier {
    return this.#options.signer.verifier;
  }

  /** Why this log is not signed. */
  get problem(): HansaError | undefined {
    return this.#options.audit.problem;
  }

  /**
   * The newest checkpoint; undefined if the log does not extend it. A log that contradicts a checkpoint
   * of a peer still shows its last one, which proves to the peer what happened.
   */
  get checkpoint(): SignedCheckpoint | undefined {
    return this.#options.audit.latestCheckpoint;
  }

  /** How many events the log has, signed or not. */
  get size(): number {
    return this.#options.store.auditLog.size;
  }

  /** How many events of the current origin this witness has cosigned. */
  cosignedBy(witness: string): number {
    const { checkpoint } = this.cosignatures.of(witness) ?? {};
    return checkpoint?.origin === this.verifier.name ? checkpoint.size : 0;
  }

  introduce(to: string): Promise<string> {
    const { signer } = this.#options;
    return introduceLog(signer, siteOfOrigin(signer.verifier.name), to);
  }

  /** The proof that `checkpoint` extends the tree of `size` records; undefined if it is smaller. */
  async proof(size: number, checkpoint: SignedCheckpoint): Promise<readonly Buffer[] | undefined> {
    if (size > checkpoint.size) return undefined;
    if (this.#proofs?.of !== checkpoint) this.#proofs = { of: checkpoint, from: new Map() };
    const { from } = this.#proofs;
    let proof = from.get(size);
    if (proof === undefined) {
      if (from.size >= mostProofs) from.clear();
      proof = consistencyProof(this.#options.store.auditLog, size, checkpoint.size);
      from.set(size, proof);
      // The next call tries again.
      proof.catch(() => from.delete(size));
    }
    return proof;
  }

  /**
   * The checkpoint for a peer that knows checkpoints of these sizes. Another replica of this site may have signed
   * them, and an older one would look like a log that shrank, or like another log.
   */
  async checkpointFrom(sizes: readonly number[]): Promise<SignedCheckpoint | undefined> {
    const { audit } = this.#options;
    await this.#read(Math.max(0, ...sizes));
    const { checkpoint, size: readable } = this;
    const isOlder = sizes.some((size) => size <= readable && size > (checkpoint?.size ?? size));
    return isOlder && this.problem === undefined ? audit.checkpoint() : checkpoint;
  }

  /** Cosigns a checkpoint of another log. The caller has verified and persisted it. */
  async cosign(checkpoint: SignedCheckpoint): Promise<SignedCheckpoint> {
    const { signer, clock } = this.#options;
    if (this.problem !== undefined) throw this.problem;
    const witness = siteOfOrigin(signer.verifier.name);
    const seconds = Math.floor(clock.now() / 1000);
    return withSignatures(checkpoint, [await cosign(checkpoint, witness, signer, seconds)]);
  }

  /**
   * Compares this log with a checkpoint that a peer holds of it, signed by this log's own key. If the log
   * does not extend it, the log was rolled back or rewritten, and signs nothing more. Resolves to whether
   * the log extends it. Throws HANSA_AUDIT_INVALID if this log did not sign it.
   */
  async compare(held: SignedCheckpoint): Promise<boolean> {
    const { store, audit } = this.#options;
    const { auditLog } = store;
    const { name } = this.verifier;
    if (held.origin !== name && isOriginOf(held.origin, siteOfOrigin(name))) {
      // Of the log before a restore, held by a peer that has not heard of it.
      if (!follows(held.origin, name)) return false;
      verifyCheckpoint(held, noteVerifier(held.origin, rawPublicKeyOf(this.verifier)));
      await audit.contradict(held);
      return false;
    }
    verifyCheckpoint(held, this.verifier);
    await this.#read(held.size);
    let root = this.#roots.get(held.size);
    if (root === undefined && held.size <= auditLog.size) {
      root = await rootHashAt(auditLog, held.size);
      if (this.#roots.size >= mostKnownRoots) this.#roots.clear();
      this.#roots.set(held.size, root);
    }
    if (root?.equals(held.rootHash) === true) return true;
    await audit.contradict(held);
    return false;
  }

  stop(): Promise<void> {
    return this.cosignatures.stop();
  }

  /** Another replica of this site may have written more. A commit shows all of it. */
  async #read(size: number): Promise<void> {
    if (size > this.size) await commitFenced(this.#options.store, {});
  }

  /** The cosignatures of the current origin. */
  #cosigned(): ReturnType<Cosignatures['list']> {
    const { name } = this.verifier;
    return this.cosignatures.list().filter(({ checkpoint }) => checkpoint.origin === name);
  }
}
