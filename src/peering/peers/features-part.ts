// The part of a heartbeat about features. Every heartbeat has the hash of the names that the sender has now.
// The names follow only while the receiver does not have them, so that they cost nothing in the steady state.

import { allNamesIn, type FeatureNames, hashOfNames, namesHash } from '../features.ts';
import { malformed, Message } from '../message-reader.ts';

export interface FeaturesPart {
  /** `hashOfNames` of the names of the sender. */
  readonly hash: string;
  /** Absent where the receiver has said that it has them. */
  readonly names?: FeatureNames;
  /** The hash of the names of the receiver that the sender has. */
  readonly has?: string;
}

export function parseFeaturesPart(source: unknown): FeaturesPart {
  const part = new Message(source);
  const hash = part.text('hash', namesHash);
  const { names } = part.optional('names', (value) => allNamesIn(new Message(value)));
  if (names !== undefined && hashOfNames(names) !== hash) {
    throw malformed('features has another hash than its names');
  }
  return {
    hash,
    ...(names && { names }),
    ...part.optional('has', () => part.text('has', namesHash)),
  };
}
