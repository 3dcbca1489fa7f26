// The paths of the auth plane on the api listener and the admin socket. Routes serve them and commands
// call them. `core/plane/path-to.ts` fills the parameters in braces.

import { credentialPath } from '../core/kube/registration/set-credential.ts';

export const authPaths = {
  info: '/hansa/v1/auth',
  credential: credentialPath,
  examine: '/hansa/v1/clusters/{name}/examine',
  /** The TokenReview endpoint by path, which works with every host name of the site. */
  review: '/clusters/{name}/apis/authentication.k8s.io/v1/tokenreviews',
} as const;
