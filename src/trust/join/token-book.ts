// The tokens of the store as a join sees them: with its rules parsed and the digest of its secret,
// answered from memory.

import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { kindReader, recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { type AllowRule, parseAllowRule } from './allow-rules.ts';

export const tokensCollection = joinTokenKind.plural;
/** By the name of the token. Of a secret only a digest is here. */
export const secretsCollection = 'trust.join-secrets';

export interface SecretRecord {
  /** The token that it was made for: a later one of the same name has another secret. */
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

  /** Undefined where there is none, or where it is being deleted. */
  token(name: string): UsableToken | undefined {
    return usableTokens.get(this.#store, name);
  }

  /** Undefined where the token of this name has none. */
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
