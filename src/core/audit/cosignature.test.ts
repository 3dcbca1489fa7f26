import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { hasCode } from '../errors/error.ts';
import { parseCheckpoint, signCheckpoint, verifyCheckpoint } from './checkpoint.ts';
import {
  cosign,
  parseWitnessKey,
  parseWitnessVerifier,
  verifyCosignature,
  withSignatures,
  witnessVerifier,
} from './cosignature.ts';
import { mostCosignatures, parseVerifier, signatureLine } from './note.ts';
import { testSigner } from './test-signer.ts';

const log = testSigner('lubeck.example', 1);
const bruges = testSigner('bruges.example', 2);
const brugesWitness = witnessVerifier('bruges.example', bruges.verifier);
const timeSeconds = 1_700_000_000;
const head = { size: 7, rootHash: Buffer.alloc(32, 9) };
const checkpoint = await signCheckpoint(log, head);
const cosignature = await cosign(checkpoint, 'bruges.example', bruges, timeSeconds);
const cosigned = withSignatures(checkpoint, [cosignature]);

function refused(run: () => unknown, why: RegExp): void {
  assert.throws(run, (error) => hasCode(error, 'HANSA_AUDIT_INVALID') && why.test(error.message));
}

describe('a cosignature', () => {
  // The example of c2sp.org/tlog-cosignature, whose public key the document does not give.
  test('of others is read with its time', () => {
    const note =
      'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n' +
      '— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n' +
      '— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n';
    const [, witness] = parseCheckpoint(note).signatures;
    assert.equal(witness?.name, 'witness.example.com/w1');
    assert.equal(witness.signature.length, 72);
    assert.equal(Number(witness.signature.readBigUInt64BE(0)), 1_679_315_147);
  });

  test('verifies with the key of the witness, and leaves the signature of the log valid', () => {
    const parsed = parseCheckpoint(cosigned.note);
    verifyCheckpoint(parsed, log.verifier);
    assert.deepEqual(verifyCosignature(parsed, parseWitnessVerifier(brugesWitness.text)), {
      witness: 'bruges.example',
      timeSeconds,
    });
  });

  test('is absent where the witness has not cosigned', () => {
    assert.equal(verifyCosignature(checkpoint, brugesWitness), undefined);
    const other = witnessVerifier('bruges.example', testSigner('bruges.example', 3).verifier);
    assert.equal(verifyCosignature(cosigned, other), undefined);
  });

  test('has another key ID than a signature of the same key on a log', () => {
    assert.notDeepEqual(brugesWitness.keyId, bruges.verifier.keyId);
    refused(() => parseWitnessVerifier(bruges.verifier.text), /for cosignatures/);
    refused(() => parseVerifier(brugesWitness.text), /not an Ed25519 key of a log/);
  });

  test('verifies with the key of the log of the witness, also after a restore', () => {
    const restored = testSigner('bruges.example/log/2', 2).verifier;
    for (const { text } of [bruges.verifier, restored, brugesWitness]) {
      assert.equal(parseWitnessKey(text).text, brugesWitness.text);
    }
    refused(() => parseWitnessKey('bruges.example'), /looks like NAME/);
  });

  test('is no signature of the log, also where one key signs both', async () => {
    const own = await cosign(checkpoint, 'lubeck.example', log, timeSeconds);
    const forged = { ...own, keyId: log.verifier.keyId, signature: own.signature.subarray(8) };
    const note = parseCheckpoint(`${checkpoint.body}\n${signatureLine(forged)}`);
    refused(() => verifyCheckpoint(note, log.verifier), /forged/);
  });

  test('is refused on another checkpoint: one that is larger, has another root or another origin', async () => {
    const others = [
      await signCheckpoint(log, { ...head, size: 8 }),
      await signCheckpoint(log, { ...head, rootHash: Buffer.alloc(32, 8) }),
      await signCheckpoint(testSigner('novgorod.example', 1), head),
    ];
    for (const other of others) {
      refused(
        () => verifyCosignature(withSignatures(other, [cosignature]), brugesWitness),
        /forged/,
      );
    }
  });

  test('is refused with any bit changed, its time included', () => {
    fc.assert(
      fc.property(fc.nat(72 * 8 - 1), (bit) => {
        const signature = Buffer.from(cosignature.signature);
        signature[bit >> 3] = (signature[bit >> 3] as number) ^ (1 << (bit & 7));
        const changed = withSignatures(checkpoint, [{ ...cosignature, signature }]);
        refused(() => verifyCosignature(changed, brugesWitness), /forged/);
      }),
    );
  });

  test('is refused with another length', () => {
    for (const length of [1, 8, 64, 71, 73, 100]) {
      const signature = Buffer.alloc(length, 1);
      const changed = withSignatures(checkpoint, [{ ...cosignature, signature }]);
      refused(() => verifyCosignature(changed, brugesWitness), /forged/);
    }
  });

  test('is refused with a time that no clock has, also if it is signed', async () => {
    const latest = await cosign(checkpoint, 'bruges.example', bruges, 8_640_000_000_000);
    assert.equal(
      verifyCosignature(withSignatures(checkpoint, [latest]), brugesWitness)?.timeSeconds,
      8_640_000_000_000,
    );
    for (const time of [8_640_000_000_001, Number.MAX_SAFE_INTEGER]) {
      const signed = await cosign(checkpoint, 'bruges.example', bruges, time);
      const note = withSignatures(checkpoint, [signed]);
      refused(() => verifyCosignature(note, brugesWitness), /forged/);
    }
  });

  test('of the same witness replaces the older one', async () => {
    const newer = await cosign(checkpoint, 'bruges.example', bruges, timeSeconds + 5);
    const both = withSignatures(cosigned, [newer]);
    assert.equal(both.signatures.length, 2);
    assert.equal(verifyCosignature(both, brugesWitness)?.timeSeconds, timeSeconds + 5);
  });

  test('counts by the newest where a note has two, and both must verify', async () => {
    const newer = await cosign(checkpoint, 'bruges.example', bruges, timeSeconds + 5);
    const two = parseCheckpoint(
      checkpoint.note + signatureLine(newer) + signatureLine(cosignature),
    );
    assert.equal(verifyCosignature(two, brugesWitness)?.timeSeconds, timeSeconds + 5);
    const bad = { ...cosignature, signature: Buffer.alloc(72, 1) };
    const one = parseCheckpoint(checkpoint.note + signatureLine(newer) + signatureLine(bad));
    refused(() => verifyCosignature(one, brugesWitness), /forged/);
  });
});

describe('a note', () => {
  const lines = (count: number) =>
    Array.from({ length: count }, (_, i) => ({
      ...cosignature,
      // As long as the names of trust domains can be.
      name: `${'w'.repeat(250)}${i}`,
    }));

  test('holds 256 cosignatures of the longest names, and no more', () => {
    const full = withSignatures(checkpoint, lines(mostCosignatures));
    assert.equal(full.signatures.length, 257);
    assert.deepEqual(parseCheckpoint(full.note), full);
    refused(() => withSignatures(full, [cosignature]), /at most 256 cosignatures/);
    refused(() => parseCheckpoint(full.note + signatureLine(cosignature)), /more than 256/);
  });

  test('of anything is read or refused, and reading what was written gives the same', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc
        .tuple(fc.nat(cosigned.note.length), fc.string({ unit: 'binary', maxLength: 4 }))
        .map(
          ([at, piece]) =>
            cosigned.note.slice(0, at) + piece + cosigned.note.slice(at + piece.length),
        ),
    );
    fc.assert(
      fc.property(text, (note) => {
        try {
          const parsed = parseCheckpoint(note);
          assert.equal(parsed.note, note);
          assert.equal(`${parsed.body}\n${parsed.signatures.map(signatureLine).join('')}`, note);
        } catch (error) {
          assert.ok(hasCode(error, 'HANSA_AUDIT_INVALID'), String(error));
        }
      }),
    );
  });
});
