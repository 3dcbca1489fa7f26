// Reads JSON bodies of routes that are not resources, such as /hansa/v1/tokens. The bodies are small
// and flat, and unknown fields are errors.

import { createPublicKey } from 'node:crypto';
import { HansaError } from '../errors/error.ts';
import { PublicKey } from '../identity/x509/keys.ts';

export function readFields(
  body: unknown,
  known: readonly string[],
): Readonly<Record<string, unknown>> {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new HansaError('HANSA_BAD_REQUEST', 'The body must be a JSON object.');
  for (const key of Object.keys(body))
    if (!known.includes(key))
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `Unknown field ${JSON.stringify(key.slice(0, 64))}. Expected one of ${known.join(', ')}.`,
      );
  return body as Readonly<Record<string, unknown>>;
}

export function invalidField(field: string, value: unknown, rule: string): HansaError {
  const shown = value === undefined ? '' : ` ${JSON.stringify(value).slice(0, 128)}:`;
  const message = `Invalid value:${shown} must be ${rule}`;
  return new HansaError('HANSA_INVALID', `${field}: ${message}`, {
    details: { causes: [{ reason: 'FieldValueInvalid', message, field }] },
  });
}

export function readString(
  fields: Readonly<Record<string, unknown>>,
  field: string,
  accepts: (value: string) => boolean,
  rule: string,
): string {
  const value = fields[field];
  if (typeof value !== 'string' || !accepts(value)) throw invalidField(field, value, rule);
  return value;
}

/** Undefined where the field is absent. */
export function readSeconds(
  fields: Readonly<Record<string, unknown>>,
  field: string,
  least: number,
  most: number,
): number | undefined {
  const value = fields[field];
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most)
    throw invalidField(field, value, `a whole number of seconds from ${least} to ${most}`);
  return value;
}

/** An RSA key of 4,096 bits has 800 characters in PEM. */
const maxKeyCharacters = 2048;

/** The field `publicKey`: a SubjectPublicKeyInfo in PEM. Throws as `invalidField` says. */
export function readPublicKey(fields: Readonly<Record<string, unknown>>): PublicKey {
  const { publicKey: text } = fields;
  if (
    typeof text === 'string' &&
    text.length <= maxKeyCharacters &&
    text.startsWith('-----BEGIN PUBLIC KEY-----')
  ) {
    try {
      return PublicKey.of(createPublicKey({ key: text, format: 'pem', type: 'spki' }));
    } catch {
      // Falls through to the same error, without a cause, which could quote the key.
    }
  }
  // Do not echo the value: a client may have sent a private key by mistake.
  throw invalidField(
    'publicKey',
    undefined,
    'a public key in PEM (BEGIN PUBLIC KEY) of a type that SVIDs may use, such as P-256',
  );
}
