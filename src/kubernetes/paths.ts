// The paths of the kubernetes plane on the api listener and the admin socket. Routes serve them and commands
// call them.

export const kubernetesPaths = {
  members: '/hansa/v1/kubernetes/members',
  /** A cluster that was removed from Federation, by its ID. */
  leaving: '/hansa/v1/kubernetes/leaving/{id}',
  services: '/hansa/v1/kubernetes/services',
  /** The key of a federated Service, such as *\/shop, is one encoded segment. */
  service: '/hansa/v1/kubernetes/services/{key}',
  policies: '/hansa/v1/kubernetes/policies',
  /** The key of a federated policy, such as networkpolicies.networking.k8s.io/shop/web, is one encoded segment. */
  policy: '/hansa/v1/kubernetes/policies/{key}',
  /** The SPIRE servers that the site operates. */
  spire: '/hansa/v1/kubernetes/spire',
} as const;
