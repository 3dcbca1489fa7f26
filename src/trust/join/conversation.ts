// What all methods of the join service have in common: the messages of one conversation, the key to
// certify, and the response.

import type { HansaError } from '../../core/errors/error.ts';
import type { IssuedSvid } from '../../core/identity/authority/authority.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { PublicKey } from '../../core/identity/x509/keys.ts';
import { brokenRule } from '../../core/identity/x509/rules.ts';
import type { Refusal } from './judge-join.ts';
import type { Member } from './members.ts';
import type { Verify } from '../../core/identity/x509/verify-queue.ts';
import type { Conversation } from './transcript.ts';
import type { GivenCerts } from './wire.ts';

/** All messages of the client in one conversation. */
export interface Said<O> {
  readonly opening: O;
  readonly conversation: Omit<Conversation, 'credential'>;
  readonly signature: Uint8Array;
  readonly address: string | undefined;
  /** Runs off the main thread, in turn with other source addresses. */
  readonly verify: Verify;
  /** Called after the caller has proven its identity. */
  readonly proven: () => void;
}

export function readKey(spki: Uint8Array): {
  readonly key: PublicKey | undefined;
  readonly refusals: readonly Refusal[];
} {
  try {
    return { key: PublicKey.parse(spki), refusals: [] };
  } catch (caught) {
    if (brokenRule(caught) === undefined) throw caught;
    const { message } = caught as HansaError;
    return { key: undefined, refusals: [{ reason: 'bad-key', message }] };
  }
}

export function certsOf(
  issued: IssuedSvid,
  instance: string,
  { generation }: Member,
  { authorities }: Bundle,
  reattestWithinMs: number,
): GivenCerts {
  return {
    spiffeId: issued.id.toString(),
    chain: issued.chain,
    bundle: authorities.map(({ der }) => der),
    instance,
    generation: BigInt(generation),
    reattestSeconds: Math.floor(reattestWithinMs / 1000),
  };
}
