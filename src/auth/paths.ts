// The paths of the auth plane on the api listener and the admin socket. Routes serve them and commands
// call them. `core/plane/path-to.ts` fills the parameters in braces.

export const authPaths = {
  info: '/hansa/v1/auth',
  credential: '/hansa/v1/clusters/{name}/credential',
} as const;
