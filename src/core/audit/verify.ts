// Verifies a log, an export or one proof offline, with a public key. Failures are HANSA_AUDIT_INVALID
// with a message that says what is wrong.

import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';
import { usageError } from '../command/usage-error.ts';
import { verifyConsistency, verifyInclusion } from '../merkle/proofs.ts';
import { leafHash } from '../merkle/tree.ts';
import type { AuditLog } from '../store/store.ts';
import type { SignedCheckpoint } from './checkpoint.ts';
import type { Cosigned } from './cosignatures.ts';
import { type AuditEvent, largestRowBytes, parseEvent } from './event.ts';
import { exportFormat, isHashLine, proofFormat, readHashLine } from './export.ts';
import { LineSplitter } from './lines.ts';
import type { NoteVerifier } from './note.ts';
import {
  type EarlierTree,
  invalid,
  judgeHead,
  readJson,
  readSigned,
  rewritten,
  type Verified,
  type VerifyOptions,
} from './signed-head.ts';
import { mostRowsAtOnce, TreeCheck } from './tree-check.ts';

/** Verifies an export as it streams in: O(rows) time, O(log rows) memory. A million rows take seconds. */
export async function verifyExport(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: VerifyOptions,
): Promise<Verified> {
  const splitter = new LineSplitter(largestRowBytes);
  let signs = 0;
  let tree: TreeCheck | undefined;
  for await (const piece of pieces) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    for (const line of splitter.push(bytes)) {
      if (tree === undefined) {
        const text = line.toString('utf8');
        const head = judgeHead(readSigned(readJson(text, exportFormat, 'an export')), options);
        refuseShorter(head.claim.size, options.earlier);
        signs = head.claim.size;
        tree = new TreeCheck(head);
      } else if (isHashLine(line)) {
        tree.compare(readHashLine(line));
        await yieldToEventLoop();
      } else tree.add(line);
    }
  }
  if (tree === undefined) throw invalid('the file is not an export: it has no header');
  if (splitter.rest.length > 0) {
    throw invalid(
      `the export is truncated: it ends within a line, after ${tree.size} of the ${signs} records that its checkpoint signs`,
    );
  }
  return tree.finish('the export');
}

/** Verifies the rows and hashes that a store holds against a checkpoint of it. */
export async function verifyLog(
  log: AuditLog,
  checkpoint: SignedCheckpoint,
  options: VerifyOptions & { readonly key: NoteVerifier },
  cosigned: readonly Cosigned[] = [],
): Promise<Verified> {
  const head = judgeHead({ checkpoint, key: options.key, cosigned }, options);
  refuseShorter(checkpoint.size, options.earlier);
  if (log.size < checkpoint.size) {
    throw invalid(
      `the log contains ${log.size} records, but its checkpoint signs ${checkpoint.size}: the last ones were removed`,
    );
  }
  const tree = new TreeCheck(head);
  while (tree.size < checkpoint.size) {
    const start = tree.size;
    const rows = await log.read(start, Math.min(mostRowsAtOnce, checkpoint.size - start));
    if (rows.length === 0) break;
    for (const row of rows) tree.add(row);
    tree.compare(await log.leafHashes(start, rows.length));
    await yieldToEventLoop();
  }
  return tree.finish('the log');
}

function refuseShorter(size: number, earlier: SignedCheckpoint | undefined): void {
  if (earlier === undefined || earlier.size <= size) return;
  throw invalid(
    `the checkpoint to compare with signs ${earlier.size} records, and this log has only ${size}: the log was rolled back, or this is a copy that is older than the checkpoint`,
  );
}

/** Verifies one event with its proof, as `hansa audit proof` writes it. */
export function verifyProof(
  text: string,
  options: VerifyOptions,
): Verified & { readonly event: AuditEvent; readonly index: number } {
  const file = readJson(text, proofFormat, 'a proof');
  const { index, event, inclusion } = file;
  const proof = readHashes(inclusion);
  if (typeof index !== 'number' || typeof event !== 'string' || proof === undefined) {
    throw invalid('the file is not a proof: index, event or inclusion is missing');
  }
  const { claim, earlierTrees } = judgeHead(readSigned(file), options);
  const row = Buffer.from(event);
  const parsed = parseEvent(row);
  const { size, rootHash } = claim;
  if (
    parsed.index !== index ||
    !verifyInclusion({ index, leafHash: leafHash(row), size, rootHash, proof })
  ) {
    throw invalid(
      `the proof does not show that this event is record ${index} of the log: the event or the proof was changed`,
    );
  }
  for (const earlier of earlierTrees) compareProof(claim, earlier, file['consistency']);
  return { ...claim, event: parsed, index };
}

/** A proof has no other records, so only a consistency proof shows that its log extends an earlier tree. */
function compareProof(
  { origin, size, rootHash }: Verified,
  earlier: EarlierTree,
  consistency: unknown,
): void {
  const { from, proof } = (consistency ?? {}) as Readonly<Record<string, unknown>>;
  const isTrivial = earlier.size === size || earlier.size === 0;
  if (!isTrivial && (from !== earlier.size || earlier.size > size)) {
    throw usageError(
      `Cannot tell whether the log ${origin} of this proof extends the checkpoint: the proof is under a checkpoint of ${size} records and has no consistency proof from ${earlier.size}. Get one that has from the site, with --checkpoint FILE of hansa audit proof or hansa audit export --peer.`,
    );
  }
  const hashes = isTrivial ? [] : readHashes(proof);
  if (hashes === undefined) throw invalid('the consistency proof of the file is malformed');
  const claim = {
    size1: earlier.size,
    rootHash1: earlier.rootHash,
    size2: size,
    rootHash2: rootHash,
  };
  if (!verifyConsistency({ ...claim, proof: hashes })) throw rewritten(earlier);
}

function readHashes(json: unknown): readonly Buffer[] | undefined {
  if (!Array.isArray(json) || !json.every((node) => typeof node === 'string')) return undefined;
  return json.map((node: string) => Buffer.from(node, 'base64'));
}
