// Encrypts secrets at rest. Each record has its own data key, wrapped by the key-encryption key; both
// layers are AES-256-GCM. The place of the record is authenticated, so a sealed value cannot be
// opened after it was copied to another place or rolled back to another version.

import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';
import type { Random } from '../../clock/clock.ts';
import { HansaError } from '../../errors/error.ts';
import { isSealed } from './sealed-collections.ts';

/** What a sealed value is bound to. All four must be the same when it is opened. */
export interface SealedPlace {
  readonly collection: string;
  readonly key: string;
  readonly column: string;
  /** The version of the record or of its format, chosen by the caller; a whole number from 0. */
  readonly version: number;
}

/** Asynchronous, so that the key can move to another process or a device. */
export interface Sealer {
  /** Only for collections whose values the store erases when they are replaced (sealed-collections.ts). */
  seal(place: SealedPlace, secret: Uint8Array): Promise<Buffer>;
  /** Rejects with HANSA_SEAL_BROKEN where key, place or bytes are not those of `seal`. */
  open(place: SealedPlace, sealed: Uint8Array): Promise<Buffer>;
}

export const keyBytes = 32;

const cipher = 'aes-256-gcm';
/** NIST SP 800-38D section 8.2: 96-bit nonces; random ones are safe for 2^32 records a key. */
const nonceBytes = 12;
const tagBytes = 16;
const keyIdBytes = 8;

// The layout: format, key id, nonce and wrapped data key with its tag; nonce, secret with its tag.
const format = 1;
const headerBytes = 1 + keyIdBytes;
const wrappedBytes = nonceBytes + keyBytes + tagBytes;
const overheadBytes = headerBytes + wrappedBytes + nonceBytes + tagBytes;

/** The key is copied; the caller may wipe its own. */
export function createSealer(key: Uint8Array, random: Random): Sealer {
  if (key.byteLength !== keyBytes) {
    throw new RangeError(`a key-encryption key has ${keyBytes} bytes, not ${key.byteLength}`);
  }
  const wrappingKey = Buffer.from(key);
  // Distinguishes another key from a damaged record, without revealing the key.
  const keyId = createHash('sha256')
    .update('hansa key-encryption key id\0')
    .update(wrappingKey)
    .digest()
    .subarray(0, keyIdBytes);
  const header = Buffer.concat([Buffer.of(format), keyId]);

  return {
    async seal(place, secret) {
      if (!isSealed(place.collection)) {
        throw new RangeError(
          `${place.collection} keeps a history of its values: a collection for secrets has a name that ends in .secrets`,
        );
      }
      const fresh = Buffer.from(await random.bytes(keyBytes + 2 * nonceBytes));
      const dataKey = fresh.subarray(0, keyBytes);
      const wrapNonce = fresh.subarray(keyBytes, keyBytes + nonceBytes);
      const dataNonce = fresh.subarray(keyBytes + nonceBytes);
      const sealed = Buffer.concat([
        header,
        wrapNonce,
        encrypt(wrappingKey, wrapNonce, aad('key', header, place), dataKey),
        dataNonce,
        encrypt(dataKey, dataNonce, aad('secret', header, place), secret),
      ]);
      fresh.fill(0);
      return sealed;
    },

    async open(place, sealed) {
      const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
      if (bytes.byteLength < overheadBytes || bytes[0] !== format) {
        throw broken(place, 'it is truncated, or its format is unknown to this version of Hansa');
      }
      if (!bytes.subarray(1, headerBytes).equals(keyId)) {
        throw broken(place, 'it was sealed with another key file');
      }
      const wrapped = bytes.subarray(headerBytes, headerBytes + wrappedBytes);
      const body = bytes.subarray(headerBytes + wrappedBytes);
      try {
        const dataKey = decrypt(wrappingKey, wrapped, aad('key', header, place));
        const secret = decrypt(dataKey, body, aad('secret', header, place));
        dataKey.fill(0);
        return secret;
      } catch {
        // The cause would only say that a tag did not match.
        throw broken(place, 'the record was changed, or was copied from another place');
      }
    },
  };
}

function encrypt(key: Buffer, nonce: Buffer, associated: Buffer, plain: Uint8Array): Buffer {
  const encryption = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes });
  encryption.setAAD(associated);
  return Buffer.concat([encryption.update(plain), encryption.final(), encryption.getAuthTag()]);
}

/** `sealed` is nonce, ciphertext, tag. */
function decrypt(key: Buffer, sealed: Buffer, associated: Buffer): Buffer {
  const end = sealed.byteLength - tagBytes;
  const decryption = createDecipheriv(cipher, key, sealed.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  });
  decryption.setAAD(associated);
  decryption.setAuthTag(sealed.subarray(end));
  return Buffer.concat([decryption.update(sealed.subarray(nonceBytes, end)), decryption.final()]);
}

/** Each part is prefixed with its length, so that no two places have the same bytes. */
function aad(layer: 'key' | 'secret', header: Buffer, place: SealedPlace): Buffer {
  const version = Buffer.alloc(8);
  version.writeBigUInt64BE(BigInt(place.version));
  const parts = [`hansa seal ${layer}`, place.collection, place.key, place.column].map((text) =>
    Buffer.from(text),
  );
  return Buffer.concat(
    [...parts, version, header].flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.byteLength);
      return [length, part];
    }),
  );
}

function broken({ collection, key, column }: SealedPlace, why: string): HansaError {
  return new HansaError(
    'HANSA_SEAL_BROKEN',
    `Cannot open the sealed ${column} of ${collection}/${key}: ${why}.`,
  );
}
