import assert from 'node:assert/strict';
import { verify } from 'node:crypto';
import { describe, test } from 'node:test';
import { hasCode } from '../errors/error.ts';
import { parseCheckpoint, signCheckpoint, verifyCheckpoint } from './checkpoint.ts';
import { noteSigner, noteVerifier, parseVerifier } from './note.ts';
import { testKey } from './test-signer.ts';

const signer = noteSigner('lubeck.example/hansa/audit', testKey(1));
const head = { size: 7, rootHash: Buffer.alloc(32, 9) };

function refused(run: () => unknown, why: RegExp): void {
  assert.throws(run, (error) => hasCode(error, 'HANSA_AUDIT_INVALID') && why.test(error.message));
}

describe('a checkpoint', () => {
  test('is a signed note: origin, size, root, blank line, signature', async () => {
    const { note, body } = await signCheckpoint(signer, head);
    assert.equal(body, `lubeck.example/hansa/audit\n7\n${head.rootHash.toString('base64')}\n`);
    assert.match(note.slice(body.length), /^\n— lubeck\.example\/hansa\/audit [A-Za-z0-9+/]+=*\n$/);
  });

  test('verifies with the key that signed it', async () => {
    const signed = await signCheckpoint(signer, head);
    const parsed = parseCheckpoint(signed.note);
    assert.deepEqual(parsed, signed);
    assert.equal(parsed.size, 7);
    assert.deepEqual(parsed.rootHash, head.rootHash);
    verifyCheckpoint(parsed, parseVerifier(signer.verifier.text));
  });

  // The example in the documentation of golang.org/x/mod/sumdb/note, the reference implementation.
  test('is signed as others sign notes', () => {
    const verifier = parseVerifier(
      'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
    );
    const body =
      "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
    const line = Buffer.from(
      'x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=',
      'base64',
    );
    assert.deepEqual(line.subarray(0, 4), verifier.keyId);
    assert.ok(verify(null, Buffer.from(body), verifier.publicKey, line.subarray(4)));
  });

  test('carries signatures of others along, and does not need them', async () => {
    const signed = await signCheckpoint(signer, head);
    const peer = noteSigner('bruges.example/hansa/witness', testKey(2));
    const line = Buffer.concat([peer.verifier.keyId, Buffer.alloc(72, 1)]).toString('base64');
    const cosigned = parseCheckpoint(`${signed.note}— ${peer.verifier.name} ${line}\n`);
    assert.equal(cosigned.signatures.length, 2);
    assert.equal(cosigned.signatures[1]?.signature.length, 72);
    verifyCheckpoint(cosigned, signer.verifier);
  });

  test('carries long signatures of unknown keys along, up to a bound', async () => {
    const signed = await signCheckpoint(signer, head);
    // ML-DSA-87 has the longest signatures of its standard: 4627 bytes.
    const line = (bytes: number) =>
      `— bruges.example/mldsa ${Buffer.alloc(4 + bytes, 1).toString('base64')}\n`;
    const cosigned = parseCheckpoint(`${signed.note}${line(4627)}`);
    assert.equal(cosigned.signatures[1]?.signature.length, 4627);
    verifyCheckpoint(cosigned, signer.verifier);
    refused(() => parseCheckpoint(`${signed.note}${line(6141)}`), /malformed/);
  });

  test('is refused where it was changed after it was signed', async () => {
    const { note } = await signCheckpoint(signer, head);
    refused(
      () => verifyCheckpoint(parseCheckpoint(note.replace('\n7\n', '\n8\n')), signer.verifier),
      /forged or the checkpoint was changed/,
    );
  });

  test('is refused by another key, even one of the same name, and for another log', async () => {
    const signed = await signCheckpoint(signer, head);
    const thief = noteSigner(signer.verifier.name, testKey(3));
    refused(() => verifyCheckpoint(signed, thief.verifier), /no signature by the key/);
    const other = noteSigner('bruges.example/hansa/audit', testKey(1));
    refused(() => verifyCheckpoint(signed, other.verifier), /belongs to the log lubeck/);
  });

  test('is refused where one of two signatures by the key is bad', async () => {
    const signed = await signCheckpoint(signer, head);
    const bad = Buffer.concat([signer.verifier.keyId, Buffer.alloc(64)]).toString('base64');
    const note = `${signed.note}— ${signer.verifier.name} ${bad}\n`;
    refused(() => verifyCheckpoint(parseCheckpoint(note), signer.verifier), /forged/);
  });

  test('is refused where it is malformed', async () => {
    const { note, body } = await signCheckpoint(signer, head);
    const signature = note.slice(body.length);
    const root = head.rootHash.toString('base64');
    const malformed: [string, RegExp][] = [
      ['', /no signatures/],
      [body, /no signatures/],
      [note.slice(0, -1), /no signatures/],
      [`${body}\n`, /malformed/],
      [`${note}\u0000`, /control characters/],
      [note.replaceAll('\n', '\r\n'), /control characters/],
      [`x y\n7\n${root}\n${signature}`, /no log origin/],
      [`\n7\n${root}\n${signature}`, /no log origin/],
      [`x\n07\n${root}\n${signature}`, /not a tree size/],
      [`x\n-1\n${root}\n${signature}`, /not a tree size/],
      [`x\n99999999999999999\n${root}\n${signature}`, /not a tree size/],
      [`x\n7\nAAAA\n${signature}`, /not a SHA-256 hash/],
      [`x\n7\n${root.slice(0, -1)}\n${signature}`, /not a SHA-256 hash/],
      [`${body}\n— name\n`, /malformed/],
      [`${body}\n- name AAAAAAAA\n`, /malformed/],
      [`${body}\n— name AAAA\n`, /malformed/],
      [`${body}\n${'— n AAAAAAAA\n'.repeat(300)}`, /more than 256/],
      [note + 'x'.repeat(200_000), /too long/],
    ];
    for (const [text, why] of malformed) refused(() => parseCheckpoint(text), why);
  });
});

describe('the public key of a log', () => {
  test('is refused where it is malformed, of another type, or does not match its key ID', () => {
    const { text } = signer.verifier;
    refused(() => parseVerifier('nonsense'), /looks like/);
    refused(() => parseVerifier(text.replace(/\+[0-9a-f]{8}\+/, '+00000000+')), /own key ID/);
    refused(() => parseVerifier(text.slice(0, -4)), /not an Ed25519 key/);
    refused(() => parseVerifier('n+00000000+AgAA'), /not an Ed25519 key/);
    refused(() => noteVerifier('two words', Buffer.alloc(32)), /cannot be the name/);
    refused(() => noteVerifier('a+b', Buffer.alloc(32)), /cannot be the name/);
    refused(() => noteVerifier('a', Buffer.alloc(31)), /32 bytes/);
  });
});
