import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { hasCode } from '../errors/error.ts';
import { MemoryDatabase } from '../store/memory/driver.ts';
import { openStore } from '../store/open.ts';
import type { AuditLog, Store } from '../store/store.ts';
import { type SignedCheckpoint, signCheckpoint } from './checkpoint.ts';
import { noteSigner } from './note.ts';
import { cosign, withSignatures, witnessVerifier } from './cosignature.ts';
import type { Cosigned } from './cosignatures.ts';
import { type AuditEvent, encodeEvent } from './event.ts';
import { exportLog, type ProofFile, proofFile } from './export.ts';
import { hashBytes, leafHash } from '../merkle/tree.ts';
import { inclusionProof, rootHashAt } from './proof.ts';
import { knowsNothing } from './test-verify-options.ts';
import { verifyExport, verifyLog, verifyProof } from './verify.ts';

function signerOf(seed: number, name = 'lubeck.example'): ReturnType<typeof noteSigner> {
  const der = Buffer.concat([
    Buffer.from('302e020100300506032b657004220420', 'hex'),
    Buffer.alloc(32, seed),
  ]);
  return noteSigner(name, createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }));
}

const signer = signerOf(1);
const key = signer.verifier;

function eventAt(index: number, name = `n${index}`): AuditEvent {
  return {
    time: '2026-01-01T00:00:00.000Z',
    index,
    actor: { user: 'alice', groups: [], via: 'socket' },
    verb: 'create',
    name,
    outcome: 'allow',
  };
}

async function storeOf(
  count: number,
  name?: string,
): Promise<{ store: Store; database: MemoryDatabase }> {
  const database = new MemoryDatabase();
  const store = await openStore({ driver: 'memory', database }, { clock: new VirtualClock() });
  const row = { encode: ({ index }: { index: number }) => encodeEvent(eventAt(index, name)) };
  for (let left = count; left > 0; left -= 300) {
    await store.commit({ audit: Array.from({ length: Math.min(left, 300) }, () => row) });
  }
  return { store, database };
}

async function exportOf(log: AuditLog, checkpoint: SignedCheckpoint): Promise<string> {
  let text = '';
  for await (const piece of exportLog(log, checkpoint, key)) text += piece.toString();
  return text;
}

async function refused(verifying: Promise<unknown>, why: RegExp): Promise<void> {
  await assert.rejects(verifying, (error) => {
    assert.ok(hasCode(error, 'HANSA_AUDIT_INVALID'), String(error));
    assert.match(error.message, why);
    return true;
  });
}

const size = 600;
let store: Store;
let checkpoint: SignedCheckpoint;
let text: string;

before(async () => {
  ({ store } = await storeOf(size));
  checkpoint = await signCheckpoint(signer, store.auditLog);
  text = await exportOf(store.auditLog, checkpoint);
});

/** The export after its lines were changed: records, and the hashes of all of them in the last line. */
function withLines(change: (rows: string[]) => string[]): string {
  const [header, ...rows] = text.trimEnd().split('\n') as [string, ...string[]];
  return `${[header, ...change(rows)].join('\n')}\n`;
}

function verifyChanged(change: (rows: string[]) => string[]): Promise<unknown> {
  return verifyExport([Buffer.from(withLines(change))], { ...knowsNothing, key });
}

async function headAt(records: number) {
  return { size: records, rootHash: await rootHashAt(store.auditLog, records) };
}

describe('an export', () => {
  test('verifies, in pieces of any size, with progress', async () => {
    const bytes = Buffer.from(text);
    for (const length of [1, 7, 1000, bytes.length]) {
      const pieces: Buffer[] = [];
      for (let i = 0; i < bytes.length; i += length) pieces.push(bytes.subarray(i, i + length));
      const seen: number[] = [];
      const verified = await verifyExport(pieces, {
        ...knowsNothing,
        key,
        progress: (rows) => seen.push(rows),
      });
      assert.equal(verified.size, size);
      assert.equal(verified.origin, 'lubeck.example');
      assert.equal(verified.keyIsTrusted, true);
      assert.equal(seen.at(-1), size);
    }
  });

  test('without a key from elsewhere verifies against its own, and says so', async () => {
    const verified = await verifyExport([Buffer.from(text)], knowsNothing);
    assert.equal(verified.keyIsTrusted, false);
    assert.equal(verified.key.text, key.text);
  });

  test('of an empty log verifies', async () => {
    const empty = await storeOf(0);
    const signed = await signCheckpoint(signer, empty.store.auditLog);
    const verified = await verifyExport(
      [Buffer.from(await exportOf(empty.store.auditLog, signed))],
      knowsNothing,
    );
    assert.equal(verified.size, 0);
  });

  test('is refused where a record was changed', async () => {
    await refused(
      verifyChanged((rows) => rows.with(300, encodeEvent(eventAt(300, 'forged')).toString())),
      /record 300 was changed: it no longer has the hash that was stored with it\. The checkpoint signs the stored hashes, so nothing else was changed/,
    );
  });

  test('names the first record that was changed, and says how many others were', async () => {
    await refused(
      verifyChanged((rows) =>
        rows.map((row, i) =>
          [17, 18, 400].includes(i) ? encodeEvent(eventAt(i, 'forged')).toString() : row,
        ),
      ),
      /record 17 was changed: .* stored with it, and so were 2 later records\. The checkpoint signs/,
    );
  });

  test('tells a changed record from a log that was signed again, whatever else the caller knows', async () => {
    const earlier = await signCheckpoint(signer, await headAt(100));
    const forged = encodeEvent(eventAt(50, 'forged')).toString();
    await refused(
      verifyExport([Buffer.from(withLines((rows) => rows.with(50, forged)))], {
        ...knowsNothing,
        key,
        earlier,
      }),
      /record 50 was changed/,
    );
  });

  test('is refused where a record was changed together with its hash, or only the hash', async () => {
    const { leafHashes } = JSON.parse(
      withLines((rows) => [rows.at(-1) as string]).split('\n')[1] ?? '',
    ) as {
      leafHashes: string;
    };
    const forged = encodeEvent(eventAt(300, 'forged'));
    const hashes = Buffer.from(leafHashes, 'base64');
    leafHash(forged).copy(hashes, 300 * hashBytes);
    const line = JSON.stringify({ leafHashes: hashes.toString('base64') });
    await refused(
      verifyChanged((rows) => rows.with(300, forged.toString()).with(size, line)),
      /at least one was changed together with its hash, and the log was not signed again/,
    );
    await refused(
      verifyChanged((rows) => rows.with(size, line)),
      /the hash of record 300 was changed\. The 600 records are those that the checkpoint signs/,
    );
    await refused(
      verifyChanged((rows) =>
        rows.with(299, encodeEvent(eventAt(299, 'x')).toString()).with(size, line),
      ),
      /record 299 was changed: .* and so were 1 later records\. The stored hashes do not add up/,
    );
  });

  test('is refused where hashes are missing, malformed or too many', async () => {
    const bad: [(rows: string[]) => string[], RegExp][] = [
      [(rows) => rows.slice(0, -1), /ends without the hashes of its last 600 records/],
      [(rows) => rows.with(size, '{"leafHashes":"AAAA"}'), /600 records with 0\.09375 hashes/],
      [
        (rows) => rows.with(size, '{"leafHashes":"#"}'),
        /a line with hashes of records is malformed/,
      ],
      [(rows) => rows.with(size, '{"leafHashes":""'), /a line with hashes of records is malformed/],
      [
        (rows) => [...rows, rows.at(-1) as string],
        /from record 600 on, there are 0 records with 600/,
      ],
      [(rows) => rows.toSpliced(5, 0, rows.at(-1) as string), /5 records with 600 hashes/],
    ];
    for (const [change, why] of bad) await refused(verifyChanged(change), why);
    const many = await storeOf(2000);
    const signed = await signCheckpoint(signer, many.store.auditLog);
    const lines = (await exportOf(many.store.auditLog, signed)).split('\n');
    const without = lines.filter((line) => !line.startsWith('{"leafHashes"')).join('\n');
    await refused(
      verifyExport([Buffer.from(without)], { ...knowsNothing, key }),
      /the hashes of the records 0 to 1023 are missing/,
    );
  });

  test('is refused where a record was removed', async () => {
    await refused(
      verifyChanged((rows) => rows.toSpliced(300, 1)),
      /record 300 is missing: record 301 is in its place/,
    );
    await refused(
      verifyChanged((rows) =>
        rows.toSpliced(300, 1).map((row, i) => row.replace(/"index":\d+/, `"index":${i}`)),
      ),
      /from record 0 on, there are 599 records with 600 hashes: records were removed/,
    );
  });

  test('is refused where records were reordered', async () => {
    await refused(
      verifyChanged((rows) => rows.with(10, rows[20] as string).with(20, rows[10] as string)),
      /record 10 is missing: record 20 is in its place, so records were removed or reordered/,
    );
  });

  test('is refused where a record was inserted', async () => {
    await refused(
      verifyChanged((rows) => rows.toSpliced(300, 0, rows[299] as string)),
      /record 299 is in the place of record 300: records were inserted/,
    );
    await refused(
      verifyChanged((rows) => [...rows, encodeEvent(eventAt(size)).toString()]),
      /records beyond the 600 that the checkpoint signs/,
    );
  });

  test('is refused where it was cut short, between records or within one', async () => {
    await refused(
      verifyChanged((rows) => rows.slice(0, 400)),
      /ends after 400 records, but its checkpoint signs 600/,
    );
    await refused(
      verifyExport([Buffer.from(text.slice(0, -10))], { ...knowsNothing, key }),
      /truncated: it ends within a line, after 600 of the 600 records/,
    );
    await refused(verifyExport([], { ...knowsNothing, key }), /it has no header/);
    await refused(
      verifyExport([Buffer.from(text.slice(0, 100))], { ...knowsNothing, key }),
      /header/,
    );
  });

  test('is refused where the checkpoint was forged', async () => {
    const forger = signerOf(2);
    const forged = await signCheckpoint(forger, store.auditLog);
    await refused(
      verifyExport([Buffer.from(await exportOf(store.auditLog, forged))], { ...knowsNothing, key }),
      /no signature by the key/,
    );
    const signed = checkpoint.note.replace('\n600\n', '\n601\n');
    const changed = text.replace(JSON.stringify(checkpoint.note), JSON.stringify(signed));
    await refused(
      verifyExport([Buffer.from(changed)], { ...knowsNothing, key }),
      /forged or the checkpoint was changed/,
    );
  });

  test('is refused where the log was rewritten and signed again, if an earlier checkpoint is known', async () => {
    const early = await storeOf(100);
    const earlier = await signCheckpoint(signer, early.store.auditLog);
    assert.equal(
      (await verifyExport([Buffer.from(text)], { ...knowsNothing, key, earlier })).size,
      size,
    );
    const rewritten = await storeOf(size, 'rewritten');
    const anew = await signCheckpoint(signer, rewritten.store.auditLog);
    const forged = await exportOf(rewritten.store.auditLog, anew);
    await refused(
      verifyExport([Buffer.from(forged)], { ...knowsNothing, key, earlier }),
      /first 100 records are not those that an earlier checkpoint signed/,
    );
    const short = await exportOf(early.store.auditLog, earlier);
    await refused(
      verifyExport([Buffer.from(short)], { ...knowsNothing, key, earlier: checkpoint }),
      /checkpoint to compare with signs 600 records, and this log has only 100: the log was rolled back, or/,
    );
  });

  test('is refused where it is something else', async () => {
    await refused(verifyExport([Buffer.from('hello\n')], knowsNothing), /does not begin with JSON/);
    await refused(verifyExport([Buffer.from('{}\n')], knowsNothing), /format is not/);
    await refused(verifyExport([Buffer.from('[1]\n')], knowsNothing), /format is not/);
    await refused(verifyExport([Buffer.alloc(1_000_000, 65)], knowsNothing), /longer than/);
    const header = text.slice(0, text.indexOf('\n'));
    await refused(verifyExport([Buffer.from(`${header}\nnonsense\n`)], knowsNothing), /not JSON/);
    await refused(
      verifyExport([Buffer.from('{"format":"hansa-audit-export/1"}\n')], knowsNothing),
      /no checkpoint or no public key/,
    );
  });
});

describe('a log in a store', () => {
  test('verifies', async () => {
    assert.equal(
      (await verifyLog(store.auditLog, checkpoint, { ...knowsNothing, key })).size,
      size,
    );
  });

  test('is refused with the record that was changed, where hashes were left alone', async () => {
    const { store: other, database } = await storeOf(size);
    const row = database.audit[123];
    assert.ok(row !== undefined);
    database.audit[123] = { ...row, body: encodeEvent(eventAt(123, 'forged')) };
    await refused(
      verifyLog(other.auditLog, checkpoint, { ...knowsNothing, key }),
      /record 123 was changed/,
    );
  });

  test('is refused where the rows were changed together with their hashes', async () => {
    const { store: other } = await storeOf(size, 'forged');
    await refused(verifyLog(other.auditLog, checkpoint, { ...knowsNothing, key }), /do not add up/);
  });

  test('is refused where the last records were removed', async () => {
    const { store: other } = await storeOf(size - 1);
    await refused(
      verifyLog(other.auditLog, checkpoint, { ...knowsNothing, key }),
      /the last ones were removed/,
    );
  });
});

describe('one event with its proof', () => {
  async function proofOf(
    index: number,
    earlierSize?: number,
    log = store.auditLog,
  ): Promise<ProofFile> {
    const [row] = await log.read(index, 1);
    const proof = await inclusionProof(log, index, log.size);
    const signed = await signCheckpoint(signer, log);
    return proofFile(
      log,
      { index, row: row as Buffer, checkpoint: signed, proof },
      key,
      earlierSize,
    );
  }

  const against = (file: ProofFile, earlier: SignedCheckpoint) => () =>
    verifyProof(JSON.stringify(file), { ...knowsNothing, key, earlier });
  const says = (code: 'HANSA_AUDIT_INVALID' | 'HANSA_USAGE', why: RegExp) => (error: unknown) =>
    hasCode(error, code) && why.test(error.message);

  test('verifies against any earlier checkpoint of its log', async () => {
    for (const from of [0, 1, 255, 256, 300, 599, size]) {
      const earlier = await signCheckpoint(signer, await headAt(from));
      assert.equal(against(await proofOf(42, from), earlier)().index, 42);
    }
    const empty = await signCheckpoint(signer, await headAt(0));
    assert.equal(against(await proofOf(42), empty)().index, 42);
    assert.equal(against(await proofOf(42), checkpoint)().index, 42);
  });

  test('is refused where its log was rewritten after the checkpoint, and signed again', async () => {
    const forked = (await storeOf(size, 'rewritten')).store.auditLog;
    for (const from of [1, 100, size]) {
      const earlier = await signCheckpoint(signer, await headAt(from));
      const why = says('HANSA_AUDIT_INVALID', /records are not those that an earlier checkpoint/);
      assert.throws(against(await proofOf(42, from, forked), earlier), why);
      // With the consistency proof of the honest log, it does not fit either.
      const { consistency } = await proofOf(42, from);
      const mixed = { ...(await proofOf(42, from, forked)), ...(consistency && { consistency }) };
      assert.throws(against(mixed, earlier), why);
    }
  });

  test('is refused with a checkpoint of another log or another key', async () => {
    const file = await proofOf(42, 100);
    const head = await headAt(100);
    assert.throws(
      against(file, await signCheckpoint(signerOf(2), head)),
      says('HANSA_AUDIT_INVALID', /no signature by the key/),
    );
    assert.throws(
      against(file, await signCheckpoint(signerOf(1, 'bruges.example'), head)),
      says('HANSA_AUDIT_INVALID', /belongs to the log bruges\.example, but the key to/),
    );
  });

  test('that has no proof from the checkpoint is not judged, and the error says what to do', async () => {
    const what = says('HANSA_USAGE', /Get one that has from the site, with --checkpoint FILE/);
    const at100 = await signCheckpoint(signer, await headAt(100));
    assert.throws(against(await proofOf(42), at100), what);
    assert.throws(against(await proofOf(42, 99), at100), what);
    const later = (await storeOf(size + 1)).store.auditLog;
    assert.throws(against(await proofOf(42, 100), await signCheckpoint(signer, later)), what);
    const broken = { ...(await proofOf(42)), consistency: { from: 100, proof: [7] } };
    assert.throws(
      against(broken as unknown as ProofFile, at100),
      says('HANSA_AUDIT_INVALID', /consistency proof of the file is malformed/),
    );
  });

  test('is not made from more records than the log has', async () => {
    await assert.rejects(proofOf(42, size + 1), (error) => hasCode(error, 'HANSA_BAD_REQUEST'));
  });

  test('verifies, and is told', async () => {
    const verified = verifyProof(JSON.stringify(await proofOf(42)), { ...knowsNothing, key });
    assert.equal(verified.event.name, 'n42');
    assert.equal(verified.index, 42);
    assert.equal(verified.keyIsTrusted, true);
  });

  test('is refused where event, index, proof or checkpoint were changed', async () => {
    const file = await proofOf(42);
    const forged = encodeEvent(eventAt(42, 'forged')).toString();
    const bad: [Partial<Record<keyof ProofFile, unknown>>, RegExp][] = [
      [{ event: forged }, /does not show that this event is record 42/],
      [{ index: 43 }, /does not show/],
      [{ inclusion: file.inclusion.slice(1) }, /does not show/],
      [{ inclusion: ['AAAA'] }, /does not show/],
      [{ inclusion: 7 }, /not a proof/],
      [{ event: `${file.event} ` }, /another field order or spacing/],
      [{ checkpoint: file.checkpoint.replace('\n600\n', '\n601\n') }, /forged/],
      [{ format: 'other' }, /format is not/],
    ];
    for (const [change, why] of bad) {
      const changed = JSON.stringify({ ...file, ...change });
      assert.throws(
        () => verifyProof(changed, { ...knowsNothing, key }),
        (error) => {
          assert.ok(hasCode(error, 'HANSA_AUDIT_INVALID'));
          assert.match(error.message, why);
          return true;
        },
      );
    }
    assert.throws(() => verifyProof('nonsense', knowsNothing), /does not begin with JSON/);
  });
});

describe('an export of a log with many witnesses', () => {
  const exportWith = async (count: number, nameOf: (at: number) => string) => {
    const cosigned: Cosigned[] = [];
    for (let at = 0; at < count; at++) {
      const older = size - at;
      const rootHash = await rootHashAt(store.auditLog, older);
      const bare = await signCheckpoint(signer, { size: older, rootHash });
      const name = nameOf(at);
      const made = withSignatures(bare, [await cosign(bare, name, signer, 1_700_000_000)]);
      const witness = witnessVerifier(name, key);
      cosigned.push({ witness, checkpoint: made, timeSeconds: 1_700_000_000 });
    }
    const pieces: Buffer[] = [];
    for await (const piece of exportLog(store.auditLog, checkpoint, key, cosigned)) {
      pieces.push(piece);
    }
    return verifyExport(pieces, { ...knowsNothing, key });
  };

  test('carries at most 256 cosigned checkpoints, those of the largest sizes', async () => {
    const { cosigned } = await exportWith(300, (at) => `w${at}.example`);
    assert.equal(cosigned.length, 256);
    assert.equal(cosigned[0]?.witness, 'w0.example');
    assert.ok(!cosigned.some(({ witness }) => witness === 'w256.example'));
  });

  test('carries fewer with the longest names, and is read', async () => {
    const { cosigned } = await exportWith(256, (at) => `${'w'.repeat(246)}${at}.example`);
    assert.ok(cosigned.length > 100 && cosigned.length < 256, String(cosigned.length));
  });
});
