import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import {
  MintX509SVIDRequestSchema,
  MintX509SVIDResponseSchema,
  MintX509SVIDsRequestSchema,
  MintX509SVIDsResponseSchema,
} from '../../../proto/gen/mint_pb.ts';
import { hasCode } from '../../core/errors/error.ts';
import {
  frameMinted,
  frameRefusal,
  frameStreamed,
  readMintRequest,
  readStreamedRequest,
} from './mint-messages.ts';

const uint32 = fc.integer({ min: 0, max: 0xffff_ffff });
const minted = fc.record({
  chain: fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 3 }),
  spiffeId: fc
    .stringMatching(/^[a-z0-9._-]{1,200}$/)
    .map((path) => `spiffe://lubeck.example/${path}`),
  expiresAtSeconds: fc.integer({ min: 1, max: 2 ** 40 }),
});

/** What is in the frame, whose head must tell its length and that nothing is compressed. */
function unframe(framed: Buffer): Buffer {
  assert.equal(framed[0], 0);
  assert.equal(framed.readUInt32BE(1), framed.length - 5);
  return framed.subarray(5);
}

describe('the messages of minting', () => {
  test('are read as the generated code writes them', () => {
    fc.assert(
      fc.property(uint32, fc.uint8Array(), uint32, (id, csr, ttlSeconds) => {
        const one = toBinary(
          MintX509SVIDRequestSchema,
          create(MintX509SVIDRequestSchema, { csr, ttlSeconds }),
        );
        assert.deepEqual(readMintRequest(one), { id: 0, csr, ttlSeconds });
        const streamed = toBinary(
          MintX509SVIDsRequestSchema,
          create(MintX509SVIDsRequestSchema, { id, csr, ttlSeconds }),
        );
        assert.deepEqual(readStreamedRequest(streamed), { id, csr, ttlSeconds });
      }),
    );
  });

  test('are written as the generated code reads them', () => {
    fc.assert(
      fc.property(uint32, minted, (id, svid) => {
        const expected = {
          chain: svid.chain.map((der) => Buffer.from(der).toString('hex')),
          spiffeId: svid.spiffeId,
          expiresAt: BigInt(svid.expiresAtSeconds),
        };
        const plain = (read: { chain: Uint8Array[]; spiffeId: string; expiresAt: bigint }) => ({
          chain: read.chain.map((der) => Buffer.from(der).toString('hex')),
          spiffeId: read.spiffeId,
          expiresAt: read.expiresAt,
        });
        const one = fromBinary(MintX509SVIDResponseSchema, unframe(frameMinted(svid)));
        assert.deepEqual(one.svid && plain(one.svid), expected);
        const each = fromBinary(MintX509SVIDsResponseSchema, unframe(frameStreamed(id, svid)));
        assert.equal(each.id, id);
        assert.ok(each.result.case === 'svid');
        assert.deepEqual(plain(each.result.value), expected);
      }),
    );
  });

  test('tell refusals in any words', () => {
    fc.assert(
      fc.property(uint32, fc.nat(16), fc.string({ unit: 'binary' }), (id, code, text) => {
        const message = text.toWellFormed();
        const read = fromBinary(
          MintX509SVIDsResponseSchema,
          unframe(frameRefusal(id, { code, message })),
        );
        assert.equal(read.id, id);
        assert.ok(read.result.case === 'refusal');
        assert.deepEqual([read.result.value.code, read.result.value.message], [code, message]);
      }),
    );
  });

  test('are refused where they cannot be read, and in no other way', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        for (const read of [readMintRequest, readStreamedRequest]) {
          try {
            read(bytes);
          } catch (error) {
            assert.ok(hasCode(error, 'HANSA_BAD_REQUEST'));
          }
        }
      }),
    );
    for (const hex of ['0a', '0aff01', '0a0500', 'ffffffffffffffffffffff01', '0f', '0b']) {
      assert.throws(
        () => readMintRequest(Buffer.from(hex, 'hex')),
        (error) => hasCode(error, 'HANSA_BAD_REQUEST'),
        hex,
      );
    }
  });
});
