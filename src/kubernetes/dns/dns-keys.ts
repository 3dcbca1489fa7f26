// The keys of the DNS part: federated Services, Services that only lose their condition, and the limits of
// clusters.

export type DnsKey =
  /** `keyOfRef` of a federated Service. */
  | { readonly type: 'names'; readonly federated: string }
  /** NAMESPACE/NAME of a Service of the target that belongs to no federated Service any more. */
  | { readonly type: 'left'; readonly service: string }
  /** Of a cluster that exceeds its limits, or did. */
  | { readonly type: 'limits'; readonly clusterID: string };

/** No name in Kubernetes has it. */
const separator = '|';

export function leftKey(service: string): string {
  return `left${separator}${service}`;
}

export function limitsKey(clusterID: string): string {
  return `limits${separator}${clusterID}`;
}

/** Total: every other text is the key of a federated Service. */
export function parseDnsKey(key: string): DnsKey {
  const [type, rest] = key.split(separator);
  if (rest !== undefined && type === 'left') return { type, service: rest };
  if (rest !== undefined && type === 'limits') return { type, clusterID: rest };
  return { type: 'names', federated: key };
}
