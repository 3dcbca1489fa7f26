// The route that tells commands which facts about this site clusters and their clients need. It contains
// no secret.

import { clusterKind } from '../../api/kinds/cluster.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import type { AuthInfo } from '../client/auth-info.ts';
import { authPaths } from '../paths.ts';
import { type AuthSettings, siteAudience } from '../settings.ts';

export function authInfoRoute(
  {
    trustDomain,
    authority,
    jwtIssuer,
  }: Pick<PlaneContext, 'trustDomain' | 'authority' | 'jwtIssuer'>,
  settings: AuthSettings,
): PlaneRoute {
  const { baseDomain, credentialsDir } = settings;
  return route({
    listener: 'api',
    method: 'GET',
    path: authPaths.info,
    allow: 'rights',
    rights: [{ verb: 'list', kind: clusterKind }],
    handle: () => {
      const issuer = jwtIssuer();
      const info: AuthInfo = {
        trustDomain: trustDomain.name,
        baseDomain,
        audience: siteAudience(settings, trustDomain),
        ...(credentialsDir === undefined ? {} : { credentialsDir }),
        ...(issuer === undefined ? {} : { jwtIssuer: issuer }),
        // A new value after each rotation.
        ca: authority.bundle.pem,
      };
      return { status: 200, contentType: 'application/json', body: JSON.stringify(info) };
    },
  });
}
