// The paths of the auth plane on the api listener and the admin socket. Routes serve them and commands
// call them. `core/plane/path-to.ts` fills the parameters in braces.

export const authPaths = {
  info: '/hansa/v1/auth',
  credential: '/hansa/v1/clusters/{name}/credential',
  examine: '/hansa/v1/clusters/{name}/examine',
  /** The TokenReview endpoint by path, which works with every host name of the site. */
  review: '/clusters/{name}/apis/authentication.k8s.io/v1/tokenreviews',
} as const;
