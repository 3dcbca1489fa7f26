// The paths of the peering plane on the api listener and the admin socket. Routes serve them and
// commands call them. `core/plane/path-to.ts` fills the parameters in braces.

export const peeringPaths = {
  peers: '/hansa/v1/peering/peers',
  catalog: '/hansa/v1/peering/peers/{name}/catalog',
  preview: '/hansa/v1/peering/preview',
  accept: '/hansa/v1/peering/accept',
  confirm: '/hansa/v1/peering/confirm/{name}',
  retry: '/hansa/v1/peering/retry/{name}',
  reenrol: '/hansa/v1/peering/reenrol/{name}',
  revoke: '/hansa/v1/peering/revoke/{name}',
  invite: '/hansa/v1/peering/invite',
  invitations: '/hansa/v1/peering/invitations',
  invitation: '/hansa/v1/peering/invitations/{id}',
  witness: '/hansa/v1/peering/witness',
  witnessAcknowledge: '/hansa/v1/peering/witness/{name}/acknowledge',
  witnessConfirm: '/hansa/v1/peering/witness/{name}/confirm',
} as const;
