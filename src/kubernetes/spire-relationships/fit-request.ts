// Keeps the request to the sidecar below the size of a ConfigMap: an API server refuses a larger one, and then no
// removal would reach the sidecar either. Pure.

import {
  type HeldRelationship,
  type Relationship,
  spireServerOrigin,
} from './parse-relationship.ts';
import { type RelationshipsDocument, requestText } from './sidecar-contract.ts';

/** A ConfigMap takes 1 MiB with its keys. */
const mostBytes = 1_000_000;
/** Of the indentation and of the names of fields. */
const entryBytes = 300;

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

export interface FittedRequest {
  readonly document: RelationshipsDocument;
  readonly problems: readonly string[];
}

/** Leaves out bundles of the first contact first, and then relationships of ClusterFederatedTrustDomains. */
export function fitRequest(document: RelationshipsDocument): FittedRequest {
  const text = requestText(document);
  if (Buffer.byteLength(text) <= mostBytes) return { document, problems: [] };
  const problems: string[] = [];
  const { relationships } = document;
  const base = { ...document, relationships: [] };
  let room = mostBytes - Buffer.byteLength(requestText(base)) - relationships.length * entryBytes;
  const first = relationships.filter(({ from }) => from === spireServerOrigin);
  const others = relationships.filter(({ from }) => from !== spireServerOrigin);
  const kept = new Map<string, Relationship>();
  const held: HeldRelationship[] = [];
  for (const { bundle: _, ...relationship } of [...first, ...others]) {
    const { trustDomain, from } = relationship;
    const bytes = bytesOf(relationship);
    if (bytes <= room) {
      room -= bytes;
      kept.set(trustDomain, relationship);
    } else {
      room -= bytesOf({ trustDomain, from });
      held.push({ trustDomain, from });
      problems.push(
        `${from}: the relationship with ${trustDomain} stays as it is, because all relationships together are too large for a ConfigMap. Remove some.`,
      );
    }
  }
  for (const { trustDomain, bundle, from } of [...first, ...others]) {
    const relationship = kept.get(trustDomain);
    if (bundle === undefined || relationship === undefined) continue;
    const bytes = bytesOf(bundle);
    if (bytes <= room) {
      room -= bytes;
      kept.set(trustDomain, { ...relationship, bundle });
    } else {
      problems.push(
        `${from}: the bundle of ${trustDomain} is not handed to SPIRE, because all relationships together are too large for a ConfigMap. Remove bundles that SPIRE has refreshed.`,
      );
    }
  }
  return {
    document: {
      ...document,
      relationships: relationships.flatMap(({ trustDomain }) => kept.get(trustDomain) ?? []),
      held: [...document.held, ...held],
    },
    problems,
  };
}
