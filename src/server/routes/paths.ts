// The paths of the site that are not resources. Routes serve them and commands call them.
// `core/plane/path-to.ts` fills the parameters in braces.

export const sitePaths = {
  auditEvents: '/hansa/v1/audit/events',
  auditProof: '/hansa/v1/audit/proofs/{index}',
  auditCheckpoint: '/hansa/v1/audit/checkpoint',
  auditExport: '/hansa/v1/audit/export',
  tokens: '/hansa/v1/tokens',
  token: '/hansa/v1/tokens/{name}',
  userSvids: '/hansa/v1/user-svids',
} as const;
