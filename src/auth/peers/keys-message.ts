// The answer of a site to a peer that asks for the keys of a cluster: its form, its bounds and a strict parser. It
// contains public keys only.

import type { JsonWebKey } from 'node:crypto';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { jwkOf, maxJwksBytes, maxKeys } from '../keys/jwks.ts';
import type { KeySet } from '../keys/cluster-keys.ts';

export const clusterKeysPath = '/hansa/federation/v1/clusters/{cluster}/keys';

/** The key set, and the names around it. */
export const maxKeysMessageBytes = maxJwksBytes + 4096;
const maxValues = maxKeys * 32 + 64;
/** A site uses keys for a day. An older age is no reason for a larger number. */
const oldestSeconds = 86_400;
const forms = {
  cluster: /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/,
  /** An issuer is a URL or a name, and appears in messages. */
  issuer: /^[!-~]{1,2048}$/,
} as const;

export interface KeysMessage {
  /** Its name at the site that answers. */
  readonly cluster: string;
  readonly issuer: string;
  /** Since the site that answers fetched the keys. A time would depend on two clocks. */
  readonly ageSeconds: number;
  readonly keys: readonly JsonWebKey[];
}

export function keysMessage(
  cluster: { readonly name: string; readonly issuer: string },
  { keys, fetchedAtMs }: Pick<KeySet, 'keys' | 'fetchedAtMs'>,
  nowMs: number,
): KeysMessage {
  const ageSeconds = Math.ceil(Math.max(0, nowMs - fetchedAtMs) / 1000);
  return {
    cluster: cluster.name,
    issuer: cluster.issuer,
    ageSeconds: Math.min(ageSeconds, oldestSeconds),
    keys: keys.map(jwkOf),
  };
}

/** All but the keys, which the reader of key sets checks. Throws TypeError. */
export function readKeysMessage(body: Uint8Array): Omit<KeysMessage, 'keys'> {
  const message = objectIn(body);
  const { ageSeconds } = message;
  if (
    typeof ageSeconds !== 'number' ||
    !Number.isInteger(ageSeconds) ||
    ageSeconds < 0 ||
    ageSeconds > oldestSeconds
  ) {
    throw new TypeError('its ageSeconds is no number of seconds in a day');
  }
  return {
    cluster: text(message, 'cluster'),
    issuer: text(message, 'issuer'),
    ageSeconds,
  };
}

function objectIn(body: Uint8Array): JsonRecord {
  let parsed: unknown;
  try {
    parsed = parseBoundedJson(body, maxValues);
  } catch {
    throw new TypeError('it is not JSON, or has too many values');
  }
  if (!isRecord(parsed)) throw new TypeError('it is not an object');
  return parsed;
}

function text(message: JsonRecord, field: keyof typeof forms): string {
  const value = message[field];
  if (typeof value !== 'string' || !forms[field].test(value)) {
    throw new TypeError(`its ${field} is missing or malformed`);
  }
  return value;
}
