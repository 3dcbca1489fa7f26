// Lists every route of a site with who may call it, from the declarations of the routes: for
// docs/reference, and for the test that calls each route.

import type {
  ApiAccess,
  ApiRouteOptions,
  FederationAccess,
  NeededGrant,
} from '../../core/plane/route.ts';
import type { Route } from '../http/routes.ts';
import type { PlaneHost } from '../plane-host.ts';

export interface RouteRow {
  readonly listener: 'api' | 'federation' | 'web' | 'metrics' | 'admin socket';
  /** The HTTP method, or gRPC. */
  readonly method: string;
  readonly path: string;
  readonly access: (ApiAccess & Pick<ApiRouteOptions, 'authenticator'>) | FederationAccess;
}

/** Sorted by listener and path. */
export function routeRows(api: readonly Route[], planes: PlaneHost): readonly RouteRow[] {
  const metrics = ['/healthz', '/livez', '/metrics', '/readyz'];
  return [
    ...api.map((route) => ({ listener: 'api', access: route, ...named(route) }) as const),
    ...[...planes.federationRoutes, ...planes.webRoutes].map((route) => ({
      listener: route.listener,
      access: route,
      ...named(route),
    })),
    ...planes.rpcs.map((rpc) => ({
      listener: 'federation' as const,
      access: rpc,
      method: 'gRPC',
      path: rpc.path,
    })),
    ...planes.adminCalls.map(({ path }) => ({
      listener: 'admin socket' as const,
      access: socketAccess,
      method: 'gRPC',
      path,
    })),
    ...metrics.map((path) => ({
      listener: 'metrics' as const,
      access: { allow: 'public' } as const,
      method: 'GET',
      path,
    })),
  ].toSorted(
    (a, b) =>
      a.listener.localeCompare(b.listener) ||
      a.path.localeCompare(b.path) ||
      a.method.localeCompare(b.method),
  );
}

/** Only the owner can open the socket, and it rejects tokens. */
const socketAccess: ApiAccess = {
  allow: 'owner',
  refusal: () => {
    throw new Error('no one else can open the admin socket');
  },
};

function named({ method, path }: { readonly method: string; readonly path: string }) {
  return { method, path };
}

/** Describes who may call. */
export function whoMayCall(access: RouteRow['access']): string {
  const who = byDeclaration(access);
  const { authenticator } = access as ApiRouteOptions;
  return authenticator === undefined ? who : `${who}; also ${authenticator.who}`;
}

function byDeclaration(access: RouteRow['access']): string {
  switch (access.allow) {
    case 'public':
      return 'everyone';
    case 'certificate':
      return 'everyone who presents a certificate';
    case 'peer':
      return access.scope === undefined
        ? 'live peers'
        : `live peers with a grant of the scope ${access.scope}${grantedWhat(access)}`;
    case 'agent':
      return 'agents of this site';
    case 'authenticated':
      return 'every authenticated caller';
    case 'credential':
      return `callers that authenticate by ${access.via.join(' or ')}`;
    case 'owner':
      return 'owners of the site';
    case 'path':
      return 'callers who may `get` the path';
    case 'rights':
      return access.rights
        .map(({ verb, kind, subresource, nameFrom, name, nameOf, only }) => {
          const what = subresource === undefined ? kind.kind : `${kind.kind}/${subresource}`;
          const which = nameOf?.shown ?? (nameFrom === undefined ? (name ?? '') : `{${nameFrom}}`);
          const right = `\`${[verb, what, which].filter((word) => word !== '').join(' ')}\``;
          return only === undefined ? right : `${right} (${only.when})`;
        })
        .join(' and ');
  }
}

function grantedWhat({ target, identity }: NeededGrant): string {
  const what = target === undefined ? '' : ` for the ${target.type} {${target.nameFrom}}`;
  return `${what} to ${identity === 'any' ? 'any of their identities' : 'their site'}`;
}
