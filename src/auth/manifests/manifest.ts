// The namespace of the Services of this plane. Pure.

/** The namespace of the Services of `auth.baseDomain`: `kube-fed.svc.cluster.local` is in kube-fed. */
export function namespaceOf(baseDomain: string): string | undefined {
  return /^([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)\.svc(?:\.|$)/.exec(baseDomain)?.[1];
}
