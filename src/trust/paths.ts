// The paths of the trust plane on the api listener and the admin socket. Routes serve them and commands
// call them. `core/plane/path-to.ts` fills the parameters in braces.

import { examinePath } from '../core/plane/advertised-url.ts';

export const trustPaths = {
  bundle: '/hansa/v1/trust/bundle',
  examineOwn: examinePath,
  examine: `${examinePath}/{name}`,
  refresh: '/hansa/v1/trust/refresh/{name}',
  authorities: '/hansa/v1/trust/authorities',
  rotationStep: '/hansa/v1/trust/authorities/{step}',
  mint: '/hansa/v1/svids',
  mintJwt: '/hansa/v1/jwt-svids',
  validate: '/hansa/v1/svid-validations',
  grantCheck: '/hansa/v1/grants/check',
  members: '/hansa/v1/join/members',
  joinSecret: '/hansa/v1/join/secrets/{name}',
  agentReinstate: '/hansa/v1/join/agents/{name}/reinstate',
  bot: '/hansa/v1/join/bots/{name}',
} as const;
