// The keys of the member controller: federated Services, single sources of endpoints, Services whose annotation
// names no federated Service, and limits of clusters.

export type SyncKey =
  /** `keyOfRef` of a federated Service. */
  | { readonly type: 'service'; readonly federated: string }
  /** Of the slices of its copy that come from one source. */
  | { readonly type: 'slices'; readonly federated: string; readonly source: string }
  /** NAMESPACE/NAME of a Service of the target that only needs a condition, or none any more. */
  | { readonly type: 'condition'; readonly service: string }
  /** Of a cluster that exceeds its limits, or did. */
  | { readonly type: 'limits'; readonly clusterID: string };

/** No name in Kubernetes has it. */
const separator = '|';

export function slicesKey(federated: string, source: string): string {
  return `slices${separator}${federated}${separator}${source}`;
}

export function conditionKey(service: string): string {
  return `condition${separator}${service}`;
}

export function limitsKey(clusterID: string): string {
  return `limits${separator}${clusterID}`;
}

/** Total: every other text is the key of a federated Service. */
export function parseSyncKey(key: string): SyncKey {
  const [type, first = '', ...rest] = key.split(separator);
  if (type === 'slices' && rest.length > 0) {
    return { type, federated: first, source: rest.join(separator) };
  }
  if (type === 'condition') return { type, service: [first, ...rest].join(separator) };
  if (type === 'limits') return { type, clusterID: first };
  return { type: 'service', federated: key };
}
