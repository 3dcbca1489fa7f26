import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { signCheckpoint } from '../../core/audit/checkpoint.ts';
import { cosign, withSignatures } from '../../core/audit/cosignature.ts';
import { introduceLog } from '../../core/audit/introduction.ts';
import { signRestore } from '../../core/audit/restore-record.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { hasCode } from '../../core/errors/error.ts';
import { encodeLogPart, type LogPart, maxLogPartBytes, parseLogPart } from './log-part.ts';

const longName = `${'x'.repeat(63)}.${'y'.repeat(63)}.${'z'.repeat(63)}.${'w'.repeat(62)}`;

/** As large as a part of a site with the longest name and a log of a billion events can be. */
async function largest(): Promise<LogPart> {
  const signer = testSigner(longName, 1);
  const checkpoint = await signCheckpoint(signer, { size: 2 ** 30, rootHash: Buffer.alloc(32, 9) });
  const cosignature = await cosign(checkpoint, longName, signer, 1_700_000_000);
  const next = testSigner(`${longName}/log/2`, 1);
  return {
    introduction: await introduceLog(signer, longName, longName),
    checkpoint,
    proofs: Array.from({ length: 4 }, (_, i) => ({
      from: 2 ** 29 + i,
      hashes: Array.from({ length: 31 }, () => Buffer.alloc(32, 7)),
    })),
    held: withSignatures(checkpoint, [cosignature]),
    seen: 2 ** 30,
    asks: [1, 2, 3],
    passesOn: true,
    others: Array.from({ length: 8 }, () => checkpoint),
    restored: (await signRestore(signer, next, checkpoint, '2026-01-01T00:00:00Z')).note,
  };
}

const wire = (part: LogPart): unknown => JSON.parse(JSON.stringify(encodeLogPart(part)));
const refused = (value: unknown, why: RegExp): void =>
  assert.throws(
    () => parseLogPart(value),
    (error) => hasCode(error, 'HANSA_BAD_REQUEST') && why.test(error.message),
  );

describe('the part of a heartbeat about logs', () => {
  test('is read as it was written, and fits into a heartbeat', async () => {
    const part = await largest();
    assert.deepEqual(parseLogPart(wire(part)), part);
    assert.ok(Buffer.byteLength(JSON.stringify(encodeLogPart(part))) <= maxLogPartBytes);
  });

  test('may say next to nothing', () => {
    assert.deepEqual(parseLogPart({}), { proofs: [], asks: [], passesOn: false, others: [] });
  });

  test('is refused beyond its limits', async () => {
    const part = await largest();
    const json = wire(part) as Record<string, unknown>;
    const note = part.checkpoint?.note ?? '';
    const cases: readonly (readonly [Record<string, unknown>, RegExp])[] = [
      [{ others: Array.from({ length: 9 }, () => note) }, /others has more than 8/],
      [{ proofs: Array.from({ length: 5 }, () => ({ from: 0, hashes: [] })) }, /more than 4/],
      [{ proofs: [{ from: 0, hashes: Array.from({ length: 65 }, () => '') }] }, /more than 64/],
      [{ proofs: [{ from: 0, hashes: ['AAAA'] }] }, /hash does not have 32 bytes/],
      [{ proofs: [{ from: -1, hashes: [] }] }, /not a whole number/],
      [{ proofs: {} }, /not a list/],
      [{ asks: [1, 2, 3, 4] }, /more than 3/],
      [{ asks: [1.5] }, /not a whole number/],
      [{ seen: '7' }, /not a whole number/],
      [{ checkpoint: 'nonsense' }, /checkpoint is not a checkpoint/],
      [{ held: 'x'.repeat(2049) }, /held is missing or too long/],
      [{ introduction: 'x'.repeat(4097) }, /introduction is missing or too long/],
      [{ restored: 5 }, /restored is missing or too long/],
    ];
    for (const [change, why] of cases) refused({ ...json, ...change }, why);
    for (const value of [null, 5, 'x', []]) refused(value, /not a JSON object/);
  });

  test('of anything is read or refused', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        try {
          parseLogPart({ checkpoint: a, proofs: b, asks: a, others: b, held: b });
        } catch (error) {
          assert.ok(hasCode(error, 'HANSA_BAD_REQUEST'), String(error));
        }
      }),
    );
  });
});
