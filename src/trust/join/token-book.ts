// A cache of the JoinTokens for the join service, with parsed rules and the digest of the secret.

import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { kindReader, recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { type AllowRule, parseAllowRule } from './allow-rules.ts';

export const tokensCollection = joinTokenKind.plural;
/** By token name. It contains only digests of secrets. */
export const secretsCollection = 'trust.join-secrets';

export interface SecretRecord {
  /** The uid of its token: a later token of the same name has another secret. */
  readonly uid: string;
  /** SHA-256 of the secret's public key, in hex. */
  readonly digest: string;
  readonly createdAtMs: number;
}

export interface UsableToken {
  readonly name: string;
  readonly uid: string;
  readonly method: 'spiffe' | 'secret';
  readonly roles: readonly string[];
  readonly botName: string | undefined;
  readonly expiresAtMs: number;
  readonly rules: readonly AllowRule[];
}

const secretsReader = recordReader<SecretRecord>(secretsCollection);
const usableTokens = kindReader(joinTokenKind).derive(usable);

export class TokenBook {
  readonly #store: Pick<Store, 'get'>;

  constructor(store: Pick<Store, 'get'>) {
    this.#store = store;
  }

  /** Undefined if there is none, or if it is being deleted. */
  token(name: string): UsableToken | undefined {
    return usableTokens.get(this.#store, name);
  }

  /** Undefined if the token has no secret. */
  secret(name: string): SecretRecord | undefined {
    const record = secretsReader.get(this.#store, name);
    return record !== undefined && record.uid === this.token(name)?.uid ? record : undefined;
  }
}

function usable({ metadata, spec }: JoinToken): UsableToken | undefined {
  if (metadata.deletionTimestamp !== undefined) return undefined;
  return {
    name: metadata.name,
    uid: metadata.uid,
    method: spec.method,
    roles: spec.roles,
    botName: spec.botName,
    expiresAtMs:
      spec.expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(spec.expiresAt),
    rules: (spec.spiffe?.allow ?? []).map(({ spiffeID }) => parseAllowRule(spiffeID)),
  };
}
