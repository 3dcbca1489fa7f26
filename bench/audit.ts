// Benchmarks the audit log: the cost of appending as the tree grows, the cost of proofs, the time to verify a
// million events, and what a cosignature costs compared with bare Ed25519. Run it with `node bench/audit.ts`.
//
// Every event is its own commit into the memory store, so that the figures are those of hashing and
// bookkeeping and not of a disk.

import { generateKeyPairSync, sign, verify } from 'node:crypto';
import { parseCheckpoint, signCheckpoint, verifyCheckpoint } from '../src/core/audit/checkpoint.ts';
import {
  cosign,
  verifyCosignature,
  withSignatures,
  witnessVerifier,
} from '../src/core/audit/cosignature.ts';
import { noteSigner } from '../src/core/audit/note.ts';
import { encodeEvent } from '../src/core/audit/event.ts';
import { exportLog } from '../src/core/audit/export.ts';
import { consistencyProof, inclusionProof, rootHashAt } from '../src/core/audit/proof.ts';
import { knowsNothing } from '../src/core/audit/test-verify-options.ts';
import { verifyExport, verifyLog } from '../src/core/audit/verify.ts';
import { systemClock } from '../src/core/clock/system.ts';
import { verifyConsistency } from '../src/core/merkle/proofs.ts';
import { openStore } from '../src/core/store/open.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { sized } from './size.ts';

const total = Number(process.argv[2] ?? sized(1_000_000, 1_000_000, 1000));
/** As many commits as 256 clients have under way. */
const atOnce = 256;

const store = await openStore({ driver: 'memory' }, { clock: systemClock });
const row = {
  encode: ({ index, revision }: { index: number; revision: number }) =>
    encodeEvent({
      time: '2026-01-01T00:00:00.000Z',
      index,
      revision,
      actor: { user: 'alice', groups: ['system:authenticated'], via: 'certificate' },
      verb: 'update',
      kind: 'SPIFFEFederation',
      name: `td-${index % 500}.example`,
      uid: '7b1f5f0e-8f0a-4f0e-9d0a-1c2d3e4f5a6b',
      outcome: 'allow',
      changed: ['spec.bundleSource.httpsSpiffe.bundleEndpointURL'],
    }),
};

function emit(bench: string, value: number, unit: string, aim?: number): void {
  const figure: Figure = { bench, value, unit, ...(aim === undefined ? {} : { aim }) };
  console.log(JSON.stringify(figure));
}

/** CPU time of this process, which neighbours on the machine do not stretch. */
async function timed(work: () => Promise<unknown>): Promise<{ readonly ms: number }> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { ms: (user + system) / 1000 };
}

const decades = [1000, 10_000, 100_000, 1_000_000].filter((size) => size <= total);
for (const size of decades) {
  const from = store.auditLog.size;
  // The last tenth of each decade, when the tree has about its size.
  const measureFrom = Math.max(from, Math.floor(size * 0.9));
  await append(measureFrom - from);
  const { ms } = await timed(() => append(size - measureFrom));
  emit(`audit-append-at-${size}`, round((ms * 1000) / (size - measureFrom)), 'CPU µs per event');
}

async function append(count: number): Promise<void> {
  for (let left = count; left > 0; left -= atOnce) {
    const commits = Array.from({ length: Math.min(left, atOnce) }, () =>
      store.commit({ audit: [row] }),
    );
    await Promise.all(commits);
  }
}

const { size } = store.auditLog;
const signer = noteSigner('bench.example', generateKeyPairSync('ed25519').privateKey);
const checkpoint = await signCheckpoint(signer, store.auditLog);

const proofs = sized(500, 200, 10);
const proving = await timed(async () => {
  for (let i = 0; i < proofs; i++) {
    await inclusionProof(store.auditLog, Math.floor((i * size) / proofs), size);
  }
});
emit(`audit-proof-at-${size}`, round((proving.ms * 1000) / proofs), 'CPU µs per proof');

const log = await timed(() =>
  verifyLog(store.auditLog, checkpoint, { ...knowsNothing, key: signer.verifier }),
);
emit(`audit-verify-log-of-${size}`, round(log.ms / 1000), 'CPU s');

// Verifying what is streamed, as from a file; what exporting costs is in it.
const verified = await timed(() =>
  verifyExport(exportLog(store.auditLog, checkpoint, signer.verifier), {
    ...knowsNothing,
    key: signer.verifier,
  }),
);
emit(`audit-verify-export-of-${size}`, round(verified.ms / 1000), 'CPU s', 10);
await cosignatures();
await store.close();

/** Both beside a bare signature of the same bytes and its verification, in turns. */
async function cosignatures(): Promise<void> {
  const witness = noteSigner('witness.example', generateKeyPairSync('ed25519').privateKey);
  const witnessKey = witnessVerifier('witness.example', witness.verifier);
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const body = Buffer.from(checkpoint.body);
  const earlier = Math.floor(size * 0.9);
  const consistency = {
    size1: earlier,
    rootHash1: await rootHashAt(store.auditLog, earlier),
    size2: size,
    rootHash2: checkpoint.rootHash,
    proof: await consistencyProof(store.auditLog, earlier, size),
  };
  const bare = async (): Promise<boolean> =>
    verify(null, body, publicKey, sign(null, body, privateKey));
  /** What the witness adds, and how the log verifies it. */
  const cosigned = async (told = checkpoint): Promise<boolean> => {
    const cosignature = await cosign(told, 'witness.example', witness, 1_700_000_000);
    const { note } = withSignatures(told, [cosignature]);
    return verifyCosignature(parseCheckpoint(note), witnessKey) !== undefined;
  };
  /** All that a new checkpoint costs the witness and the log, apart from the disk. */
  const witnessed = async (): Promise<boolean> => {
    const told = parseCheckpoint(checkpoint.note);
    verifyCheckpoint(told, signer.verifier);
    return verifyConsistency(consistency) && (await cosigned(told));
  };
  const works = [bare, cosigned, witnessed] as const;
  const times: [number[], number[], number[]] = [[], [], []];
  const repeats = sized(500, 500, 5);
  // The first turn warms up.
  for (let turn = 0; turn <= sized(9, 5, 1); turn++) {
    for (const [i, work] of works.entries()) {
      const { ms } = await timed(async () => {
        for (let n = 0; n < repeats; n++) {
          if (!(await work())) throw new Error('a signature does not verify');
        }
      });
      if (turn > 0) times[i]?.push((ms * 1000) / repeats);
    }
  }
  const [bareMicros, ...micros] = times.map(median) as [number, number, number];
  for (const [i, name] of [
    'audit-cosignature',
    `audit-witnessed-checkpoint-at-${size}`,
  ].entries()) {
    const value = micros[i] as number;
    const figure: Figure = {
      bench: name,
      value: rounded(value),
      unit: 'CPU µs each',
      ...spread(times[i + 1] ?? []),
      anchor: 'Ed25519 sign and verify',
      anchorValue: rounded(bareMicros),
      ratio: rounded(bareMicros / value),
    };
    console.log(JSON.stringify(figure));
  }
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
