// The keys of the part for ExternalEntities: federated Services, and clusters whose limits may leave out something
// else than before.

export type EntityKey =
  | { readonly type: 'service'; readonly federated: string }
  | { readonly type: 'limits'; readonly clusterID: string };

/** No key of a federated Service begins with it. */
const limits = 'limits|';

export const limitsKey = (clusterID: string): string => `${limits}${clusterID}`;

/** Total. */
export function parseEntityKey(key: string): EntityKey {
  return key.startsWith(limits)
    ? { type: 'limits', clusterID: key.slice(limits.length) }
    : { type: 'service', federated: key };
}
