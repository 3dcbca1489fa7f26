// Verifies checkpoints, cosignatures and proofs of an audit log with golang.org/x/mod/sumdb, and
// compares its verdict on changed ones with ours.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { before, describe, test } from 'node:test';
import {
  parseCheckpoint,
  type SignedCheckpoint,
  signCheckpoint,
  verifyCheckpoint,
} from '../../src/core/audit/checkpoint.ts';
import {
  cosign,
  verifyCosignature,
  withSignatures,
  witnessVerifier,
} from '../../src/core/audit/cosignature.ts';
import type { NoteVerifier } from '../../src/core/audit/note.ts';
import { Audit, type EventProof } from '../../src/core/audit/log.ts';
import { testSigner } from '../../src/core/audit/test-signer.ts';
import { VirtualClock } from '../../src/core/clock/virtual.ts';
import { hasCode } from '../../src/core/errors/error.ts';
import { createLog } from '../../src/core/log/json-log.ts';
import { verifyConsistency } from '../../src/core/merkle/proofs.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { openStore } from '../../src/core/store/open.ts';
import { missingTools, requireTool } from './tool.ts';

const skip = await missingTools('tlog');

interface Claim {
  readonly note: string;
  readonly keys: readonly string[];
  readonly record?: string;
  readonly index?: number;
  readonly inclusion?: readonly string[];
  readonly earlier?: string;
  readonly consistency?: readonly string[];
}

interface Verdict {
  readonly problem: string;
  readonly signers: readonly string[] | null;
  readonly size: number;
}

/** One run of the Go program for all claims of a test. */
async function judge(claims: readonly Claim[]): Promise<readonly Verdict[]> {
  const program = spawn(await requireTool('tlog'), { stdio: ['pipe', 'pipe', 'inherit'] });
  program.stdin.end(JSON.stringify(claims));
  const pieces: Buffer[] = [];
  for await (const piece of program.stdout) pieces.push(piece as Buffer);
  return JSON.parse(Buffer.concat(pieces).toString('utf8')) as readonly Verdict[];
}

const signer = testSigner('lubeck.example', 1);
const witness = testSigner('bruges.example', 2);
const witnessKey = witnessVerifier('bruges.example', witness.verifier);
const timeSeconds = 1_700_000_000;

interface Head {
  readonly checkpoint: SignedCheckpoint;
  /** A proof from each size so far. */
  readonly proofs: ReadonlyMap<number, readonly string[]>;
}

describe('the audit log to golang.org/x/mod/sumdb', { skip }, () => {
  const heads: Head[] = [];
  const events: EventProof[] = [];

  before(async () => {
    const clock = new VirtualClock(Date.UTC(2026, 0, 1));
    const store = await openStore({ driver: 'memory' }, { clock });
    const log = createLog({ sink: { write: () => true }, clock, level: 'error', format: 'text' });
    const audit = new Audit({ store, clock, signer, log, metrics: new MetricsRegistry() });
    await audit.start();
    // Sizes around powers of two and of stored subtrees.
    for (const size of [1, 2, 3, 7, 8, 9, 64, 100, 255, 256, 257, 600]) {
      const rows = Array.from({ length: size - store.auditLog.size }, () =>
        audit.record({
          actor: { user: 'alice', groups: [], via: 'certificate' },
          verb: 'create',
          outcome: 'allow',
        }),
      );
      await store.commit({ audit: rows.slice(0, 256) });
      if (rows.length > 256) await store.commit({ audit: rows.slice(256) });
      const proofs = new Map<number, readonly string[]>();
      for (const { checkpoint } of heads) {
        const { proof } = await audit.proveConsistency(checkpoint.size);
        proofs.set(
          checkpoint.size,
          proof.map((hash) => hash.toString('base64')),
        );
      }
      heads.push({ checkpoint: await audit.checkpoint(), proofs });
    }
    for (const index of [0, 1, 255, 256, 599]) events.push(await audit.prove(index));
    await audit.stop();
    await store.close();
  });

  test('has valid checkpoints, each of which extends all before it', async () => {
    const claims = heads.flatMap(({ checkpoint, proofs }) =>
      heads
        .filter(({ checkpoint: { size } }) => proofs.has(size))
        .map((earlier) => ({
          note: checkpoint.note,
          keys: [signer.verifier.text],
          earlier: earlier.checkpoint.note,
          consistency: proofs.get(earlier.checkpoint.size) ?? [],
        })),
    );
    assert.equal(claims.length, 66);
    const verdicts = await judge(claims);
    assert.deepEqual(
      verdicts.filter(({ problem }) => problem !== ''),
      [],
    );
  });

  test('has its events where their proofs say', async () => {
    const claims = events.map(({ index, row, checkpoint, proof }) => ({
      note: checkpoint.note,
      keys: [signer.verifier.text],
      record: row.toString('utf8'),
      index,
      inclusion: proof.map((hash) => hash.toString('base64')),
    }));
    const changed = claims.map((claim) => ({ ...claim, record: `${claim.record} ` }));
    const verdicts = await judge([...claims, ...changed]);
    assert.deepEqual(
      verdicts.map(({ problem }) => problem === ''),
      [...claims.map(() => true), ...changed.map(() => false)],
    );
  });

  test('carries cosignatures that verify beside the signature of the log', async () => {
    const { checkpoint } = heads.at(-1) as Head;
    const cosignature = await cosign(checkpoint, 'bruges.example', witness, timeSeconds);
    const { note } = withSignatures(checkpoint, [cosignature]);
    const [both, one] = await judge([
      { note, keys: [signer.verifier.text, witnessKey.text] },
      { note, keys: [signer.verifier.text] },
    ]);
    assert.deepEqual(both, {
      problem: '',
      signers: ['lubeck.example', 'bruges.example'],
      size: 600,
    });
    assert.deepEqual(one?.signers, ['lubeck.example']);
  });

  test('gets the same verdict as ours on replayed, forged and foreign cosignatures', async () => {
    const { checkpoint } = heads.at(-1) as Head;
    const earlier = (heads.at(-2) as Head).checkpoint;
    const good = await cosign(checkpoint, 'bruges.example', witness, timeSeconds);
    const ofEarlier = await cosign(earlier, 'bruges.example', witness, timeSeconds);
    const otherTime = Buffer.from(good.signature);
    otherTime.writeBigUInt64BE(BigInt(timeSeconds + 1));
    const foreign = await signCheckpoint(testSigner('novgorod.example', 1), checkpoint);
    const cases = [
      withSignatures(checkpoint, [good]),
      withSignatures(checkpoint, [ofEarlier]),
      withSignatures(checkpoint, [{ ...good, signature: otherTime }]),
      withSignatures(checkpoint, [{ ...good, signature: good.signature.subarray(8) }]),
      withSignatures(foreign, [good]),
      withSignatures(checkpoint, [{ ...good, name: 'lubeck.example' }]),
    ];
    const keys = [signer.verifier, witnessKey];
    const verdicts = await judge(
      cases.map(({ note }) => ({ note, keys: keys.map(({ text }) => text) })),
    );
    const ours = cases.map(({ note }) => bothSigned(parseCheckpoint(note)));
    assert.deepEqual(
      verdicts.map(({ signers, problem }) => problem === '' && signers?.length === 2),
      ours,
    );
    assert.deepEqual(ours, [true, false, false, false, false, false]);
  });

  test('gets the same verdict as ours on proofs of the wrong size, shrunken and forked logs', async () => {
    const { checkpoint, proofs } = heads.at(-1) as Head;
    const earlier = (heads.at(-3) as Head).checkpoint;
    const proof = proofs.get(earlier.size) ?? [];
    const fork = await signCheckpoint(signer, { size: 600, rootHash: Buffer.alloc(32, 7) });
    const sameSize = await signCheckpoint(signer, { size: 256, rootHash: Buffer.alloc(32, 7) });
    const cases: readonly (readonly [SignedCheckpoint, SignedCheckpoint, readonly string[]])[] = [
      [checkpoint, earlier, proof],
      [checkpoint, earlier, proof.slice(1)],
      [checkpoint, earlier, [...proof, ...proof.slice(0, 1)]],
      [checkpoint, earlier, proofs.get(100) ?? []],
      [checkpoint, earlier, []],
      [earlier, checkpoint, proof],
      [fork, earlier, proof],
      [checkpoint, sameSize, proof],
    ];
    const verdicts = await judge(
      cases.map(([now, before_, consistency]) => ({
        note: now.note,
        keys: [signer.verifier.text],
        earlier: before_.note,
        consistency,
      })),
    );
    const ours = cases.map(([now, before_, hashes]) =>
      verifyConsistency({
        size1: before_.size,
        rootHash1: before_.rootHash,
        size2: now.size,
        rootHash2: now.rootHash,
        proof: hashes.map((hash) => Buffer.from(hash, 'base64')),
      }),
    );
    assert.deepEqual(
      verdicts.map(({ problem }) => problem === ''),
      ours,
    );
    assert.deepEqual(ours, [true, ...cases.slice(1).map(() => false)]);
  });
});

function bothSigned(note: SignedCheckpoint): boolean {
  const holds = (key: NoteVerifier, check: (key: NoteVerifier) => unknown): boolean => {
    try {
      return check(key) !== false;
    } catch (error) {
      assert.ok(hasCode(error, 'HANSA_AUDIT_INVALID'));
      return false;
    }
  };
  return (
    holds(signer.verifier, (key) => verifyCheckpoint(note, key)) &&
    holds(witnessKey, (key) => verifyCosignature(note, key) !== undefined)
  );
}
