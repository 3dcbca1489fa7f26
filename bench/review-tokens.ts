// Signs many ServiceAccount tokens of the same length into a file, one record of fixed length a line, so
// that the load generator can start at any of them.

import { randomUUID, sign } from 'node:crypto';
import { open } from 'node:fs/promises';
import {
  type Claims,
  encode,
  type KeyPair,
  keyIdOf,
} from '../src/auth/review/test-service-account-tokens.ts';
import { account, namespace } from '../test/interop/review-cluster.ts';

export interface TokenFile {
  readonly path: string;
  readonly count: number;
  /** Of one token, which stands at the beginning of its record. */
  readonly tokenBytes: number;
  /** Of one record with its line feed: `TOKEN NN`, NN being the number of the signer. */
  readonly recordBytes: number;
  readonly samples: readonly Sample[];
}

export interface Sample {
  readonly token: string;
  readonly signer: number;
}

/** A cluster that signs tokens. */
export interface Signer {
  readonly key: KeyPair;
  readonly issuer: string;
  /** Of the ServiceAccount. */
  readonly uid: string;
}

/** Signing runs in the thread pool of Node, so this many tokens are signed at a time. */
const AT_ONCE = 64;

/** The signers take turns in a fixed, shuffled order. */
export async function writeTokens(
  path: string,
  signers: readonly Signer[],
  count: number,
): Promise<TokenFile> {
  const file = await open(path, 'w', 0o600);
  const now = Math.floor(Date.now() / 1000);
  const heads = signers.map(({ key }) => encode({ alg: 'RS256', kid: keyIdOf(key) }));
  const samples: Sample[] = [];
  let recordBytes = 0;
  let tokenBytes = 0;
  try {
    for (let first = 0; first < count; first += AT_ONCE) {
      const turns = Array.from({ length: Math.min(AT_ONCE, count - first) }, (_, index) =>
        turnOf(first + index, signers.length),
      );
      const tokens = await Promise.all(
        turns.map((turn) => signToken(signers[turn] as Signer, heads[turn] as string, now)),
      );
      tokenBytes ||= tokens[0]?.length ?? 0;
      const records = tokens.map(
        (token, index) => `${token} ${String(turns[index]).padStart(2, '0')}\n`,
      );
      recordBytes ||= records[0]?.length ?? 0;
      if (records.some((record) => record.length !== recordBytes))
        throw new Error('the tokens have different lengths');
      await file.write(records.join(''));
      if (samples.length < 1000) {
        for (const [index, token] of tokens.entries())
          samples.push({ token, signer: turns[index] as number });
      }
    }
  } finally {
    await file.close();
  }
  return { path, count, tokenBytes, recordBytes, samples };
}

/** Each signer has a turn once in a while, in an order without a pattern that a cache would like. */
const turnOf = (index: number, signers: number): number => (index * 7919) % signers;

function signToken({ key, issuer, uid }: Signer, head: string, now: number): Promise<string> {
  const claims: Claims = {
    aud: [issuer],
    exp: now + 4 * 3600,
    iat: now,
    iss: issuer,
    jti: randomUUID(),
    'kubernetes.io': { namespace, serviceaccount: { name: account, uid } },
    nbf: now,
    sub: `system:serviceaccount:${namespace}:${account}`,
  };
  const signed = `${head}.${encode(claims)}`;
  return new Promise((resolve, reject) => {
    sign('sha256', Buffer.from(signed), key.privateKey, (error, signature) => {
      if (error === null) resolve(`${signed}.${signature.toString('base64url')}`);
      else reject(error);
    });
  });
}
