// Checks callers against the declarations of routes and streams. The server runs these checks
// before a handler runs.

import type { Authorizer } from '../access/authorizer.ts';
import { forbidden, forbiddenPath, unauthorized } from '../access/denial.ts';
import { adminsGroup, type Caller, isAuthenticated } from '../access/identity.ts';
import { HansaError } from '../errors/error.ts';
import type {
  AgentDirectory,
  ApiAccess,
  FederationAccess,
  JoinedAgent,
  LivePeer,
  PeerDirectory,
  Refused,
  Right,
  RouteTarget,
} from './route.ts';

/** Throws if the caller may not call the route. Quick and without I/O. */
export type ApiCheck = (caller: Caller, target: RouteTarget) => void;

export function apiCheck(
  access: ApiAccess,
  authorizer: Pick<Authorizer, 'authorize' | 'authorizePath'>,
): ApiCheck {
  switch (access.allow) {
    case 'public':
      return () => undefined;
    case 'authenticated':
      return (caller) => {
        if (!isAuthenticated(caller)) throw unauthorized('anonymous');
      };
    case 'credential':
      return (caller) => {
        if (!access.via.includes(caller.via)) throw access.refusal(caller);
      };
    case 'rights':
      return (caller, target) => {
        for (const right of access.rights) checkRight(authorizer, caller, right, target);
      };
    case 'path':
      return (caller, { path }) => {
        if (authorizer.authorizePath(caller, 'get', path).allowed) return;
        throw forbiddenPath(caller, 'get', path);
      };
    case 'owner':
      return (caller) => {
        if (!caller.groups.includes(adminsGroup)) throw access.refusal(caller);
      };
  }
}

function checkRight(
  authorizer: Pick<Authorizer, 'authorize'>,
  caller: Caller,
  { verb, kind, subresource, nameFrom, name, nameOf, only }: Right,
  target: RouteTarget,
): void {
  if (only?.needed(target.params) === false) return;
  const object =
    nameOf?.request(target) ?? (nameFrom === undefined ? name : target.params[nameFrom]);
  const { plural } = kind;
  // The usual case first: this runs for each request.
  const asked =
    subresource !== undefined && object !== undefined
      ? { verb, plural, subresource, name: object }
      : {
          verb,
          plural,
          ...(subresource === undefined ? {} : { subresource }),
          ...(object === undefined ? {} : { name: object }),
        };
  if (!authorizer.authorize(caller, asked).allowed) throw forbidden(caller, asked);
}

/** The directories of peers and agents; absent where no plane provides them. */
export interface Directories {
  readonly peers?: PeerDirectory | undefined;
  readonly agents?: AgentDirectory | undefined;
}

/** The verified peer or agent. */
export interface Admitted {
  readonly peer?: LivePeer;
  readonly agent?: JoinedAgent;
}

/** Throws if the caller may not call the route. Otherwise returns the verified peer or agent. */
export type FederationCheck = (request: Refused) => Admitted;

const admitted: Admitted = {};

/** Undefined for public routes, which need no check. */
export function federationCheck(
  access: FederationAccess,
  directories: Directories,
): FederationCheck | undefined {
  switch (access.allow) {
    case 'public':
      return undefined;
    case 'certificate':
      return (request) => {
        if (request.peerChain.length > 0) return admitted;
        throw refuse(directories, request, 'no certificate was presented');
      };
    case 'peer':
      return (request) => ({ peer: peerOf(access, directories, request) });
    case 'agent':
      return (request) => {
        const { agents } = directories;
        const found = agents?.find(request.svid) ?? 'this site has no agents';
        if (typeof found !== 'string' && !isOutdated(found, request)) return { agent: found };
        const reason =
          typeof found === 'string'
            ? found
            : `agent ${found.name} has renewed this SVID, so use the newer one`;
        throw (
          agents?.refuse(request, reason) ??
          new HansaError('HANSA_FORBIDDEN', `Only agents of this site may call: ${reason}.`)
        );
      };
  }
}

/** A stolen SVID that the agent has renewed cannot open a stream beside that of the agent. */
function isOutdated({ superseded }: JoinedAgent, { wasAdmitted }: Refused): boolean {
  return superseded === true && wasAdmitted !== true;
}

function peerOf(
  { scope, target, identity }: Extract<FederationAccess, { allow: 'peer' }>,
  directories: Directories,
  request: Refused,
): LivePeer {
  const found = directories.peers?.find(request.svid) ?? 'this site has no peers';
  if (typeof found === 'string') throw refuse(directories, request, found);
  const { peers } = directories;
  if (scope === undefined || peers === undefined) return found;
  const name = target && request.params?.[target.nameFrom];
  // An object without a name matches no grant.
  const named = target === undefined ? {} : { target: { type: target.type, name: name ?? '' } };
  const need = { scope, ...named, ...(identity === undefined ? {} : { identity }) };
  const missing = peers.lacks(found, need, request.address);
  if (missing !== undefined) throw peers.deny(request, found, missing);
  return found;
}

function refuse({ peers }: Directories, request: Refused, reason: string): HansaError {
  return (
    peers?.refuse(request, reason) ??
    new HansaError('HANSA_FORBIDDEN', 'The caller is not a peer of this site.')
  );
}
