// The fields of the spec of a Service that a copy leaves at the defaults of the API server. With those that
// compile-copy.ts compiles, they are all fields that Kubernetes 1.27 to 1.36 serves for a Service. A field
// that a later version adds stays as it is.

/**
 * Undefined: a Service of type ClusterIP has no such field. The server allocates clusterIP, clusterIPs and
 * ipFamilies, so these are not here.
 */
const defaults = {
  sessionAffinity: 'None',
  sessionAffinityConfig: undefined,
  internalTrafficPolicy: 'Cluster',
  externalTrafficPolicy: undefined,
  trafficDistribution: undefined,
  publishNotReadyAddresses: false,
  externalIPs: undefined,
  externalName: undefined,
  healthCheckNodePort: undefined,
  allocateLoadBalancerNodePorts: undefined,
  loadBalancerIP: undefined,
  loadBalancerClass: undefined,
  loadBalancerSourceRanges: undefined,
} as const;

const fields = Object.entries(defaults) as readonly (readonly [DefaultField, unknown])[];

export type DefaultField = keyof typeof defaults;

/** The fields that somebody changed. */
export function changedFields(spec: Readonly<Record<string, unknown>>): readonly DefaultField[] {
  return fields
    .filter(([name, usual]) => spec[name] !== usual && !isEmpty(spec[name]))
    .map(([name]) => name);
}

/** The API server leaves such values out, or sends them in place of none. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '' || value === 0) return true;
  return Array.isArray(value) && value.length === 0;
}
