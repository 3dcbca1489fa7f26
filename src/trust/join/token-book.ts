// A cache of the JoinTokens for the join service, with parsed rules and the digest of the secret.

import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { kindReader, recordReader } from '../../core/store/reader.ts';
import type { Commit, Store } from '../../core/store/store.ts';
import { type AllowRule, parseAllowRule } from './allow-rules.ts';

export const tokensCollection = joinTokenKind.plural;
/** By token name. It contains only digests of secrets. */
export const secretsCollection = 'trust.join-secrets';

export interface SecretRecord {
  /** The uid of its token: a later token of the same name has another secret. */
  readonly uid: string;
  /** SHA-256 of the secret's public key, in hex. */
  readonly digest: string;
  /** The roles of the token when the secret was created. It admits in no other role. */
  readonly roles: readonly string[];
  readonly createdAtMs: number;
}

/** By token name: who used a single-use token. */
export const usesCollection = 'trust.join-uses';

export interface TokenUse {
  /** The uid of its token: a later token of the same name is unused. */
  readonly uid: string;
  /** The record of the member that joined: agent/NAME, or bot/NAME/ID. */
  readonly instance: string;
  readonly atMs: number;
}

export interface UsableToken {
  readonly name: string;
  readonly uid: string;
  readonly method: 'spiffe' | 'secret';
  readonly roles: readonly string[];
  readonly botName: string | undefined;
  /** The only agent that may join; undefined: any name. */
  readonly agentName: string | undefined;
  readonly singleUse: boolean;
  /** Of agents that join. */
  readonly labels: Readonly<Record<string, string>> | undefined;
  readonly expiresAtMs: number;
  readonly rules: readonly AllowRule[];
}

const secretsReader = recordReader<SecretRecord>(secretsCollection);
const usesReader = recordReader<TokenUse>(usesCollection);
const usableTokens = kindReader(joinTokenKind).derive(usable);

type UseCommit = Required<Pick<Commit, 'expect' | 'put'>>;

export class TokenBook {
  readonly #store: Pick<Store, 'get' | 'list'>;

  constructor(store: Pick<Store, 'get' | 'list'>) {
    this.#store = store;
  }

  /** Undefined if there is none, or if it is being deleted. */
  token(name: string): UsableToken | undefined {
    return usableTokens.get(this.#store, name);
  }

  /** The name of a token with which machines may join with an SVID of the trust domain. O(tokens). */
  admitsMachinesOf(trustDomain: string): string | undefined {
    const { entries } = this.#store.list(tokensCollection);
    return entries
      .map((entry) => usableTokens.of(entry))
      .find(
        (token) =>
          token?.roles.includes('agent') === true &&
          token.rules.some((rule) => rule.trustDomain === trustDomain),
      )?.name;
  }

  /** Undefined if the token has no secret, or got another role after the secret was created. */
  secret(name: string): SecretRecord | undefined {
    const record = secretsReader.get(this.#store, name);
    const token = this.token(name);
    if (record === undefined || record.uid !== token?.uid) return undefined;
    return token.roles.every((role) => record.roles.includes(role)) ? record : undefined;
  }

  /** Who used a single-use token; undefined if it is unused, or admits any number of members. */
  use({
    name,
    uid,
    singleUse,
  }: Pick<UsableToken, 'name' | 'uid' | 'singleUse'>): TokenUse | undefined {
    const use = singleUse ? usesReader.get(this.#store, name) : undefined;
    return use?.uid === uid ? use : undefined;
  }

  /**
   * Prepares to use the token up, as it is now. The returned part of a commit fails if another client used
   * the token meanwhile.
   */
  usingUp({ name, uid, singleUse }: UsableToken): (instance: string, atMs: number) => UseCommit {
    if (!singleUse) return () => ({ expect: [], put: [] });
    const collection = usesCollection;
    const at = this.#store.get(collection, name)?.revision ?? 'absent';
    return (instance, atMs) => {
      const bytes = Buffer.from(JSON.stringify({ uid, instance, atMs } satisfies TokenUse));
      return {
        expect: [{ collection, name, at }],
        put: [{ collection, name, encode: () => bytes }],
      };
    };
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
    agentName: spec.agentName,
    singleUse: spec.singleUse === true,
    labels: spec.labels,
    expiresAtMs:
      spec.expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(spec.expiresAt),
    rules: (spec.spiffe?.allow ?? []).map(({ spiffeID }) => parseAllowRule(spiffeID)),
  };
}
