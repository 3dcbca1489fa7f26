// Callers: users, groups and how they are named. The rest of this folder authenticates and authorizes
// them; see README.md.

export interface Caller {
  /**
   * `alice` for a person, `token:ci` for the token `ci`. Names of persons have no colon. Some routes accept
   * further callers: the SPIFFE ID of a workload, and `serviceaccount:CLUSTER:NAMESPACE:NAME`. The site itself
   * writes objects of a Kubernetes cluster as `cluster:NAME`.
   */
  readonly user: string;
  readonly groups: readonly string[];
  readonly via:
    | 'certificate'
    | 'token'
    | 'socket'
    | 'controller'
    | 'workload'
    | 'serviceaccount'
    | 'cluster'
    | 'anonymous';
  /** What authenticated the caller, for the audit log: a token's name or a certificate's serial number. */
  readonly credential?: string;
  /** Where the credential came from. Absent for callers that are neither users nor tokens of the site. */
  readonly origin?: CredentialOrigin;
  /** The id of the token that authenticated the caller, also by a certificate. Another token of its name has another. */
  readonly tokenId?: string;
}

/**
 * socket: the admin socket, or a user SVID that it issued, for whatever user. token: a token, or a user SVID that
 * was obtained with one. The SPIFFE ID of a user SVID tells them apart (`tokenSegment`), and the authority of the
 * site signs it, so no holder can change it.
 */
export type CredentialOrigin = 'socket' | 'token';

/** Every caller that presented a good credential, as in Kubernetes. */
export const authenticatedGroup = 'system:authenticated';
/** Callers without a credential. Listeners only allow them health checks. */
const unauthenticatedGroup = 'system:unauthenticated';
/** The owner of the data folder: the admin socket, and certificates for `admin` issued through it. */
export const adminsGroup = 'hansa:admins';
/** Every bearer token, and every certificate that was obtained with one. */
const tokensGroup = 'hansa:tokens';
/** The controllers inside this process. Only they write `status`. No credential maps to this group. */
export const controllersGroup = 'system:controllers';

/** Every Kubernetes cluster whose objects the site takes over. No credential maps to this group. */
const syncedClustersGroup = 'hansa:clusters';

/** The user that the owner of the data folder acts as, unless `hansa login --user` names another one. */
export const adminUser = 'admin';

export const anonymous: Caller = {
  user: 'system:anonymous',
  groups: [unauthenticatedGroup],
  via: 'anonymous',
};

const adminGroups = [adminsGroup, authenticatedGroup];
const personGroups = [authenticatedGroup];
const tokenGroups = [tokensGroup, authenticatedGroup];

export const socketOwner: Caller = {
  user: adminUser,
  groups: adminGroups,
  via: 'socket',
  origin: 'socket',
};

/**
 * A person with a user SVID. `admin` is in the group of admins because only the socket's owner obtains that name.
 * Only the admin socket issues SVIDs that name persons.
 */
export function personCaller(name: string, serialNumber: string): Caller {
  return {
    user: name,
    groups: name === adminUser ? adminGroups : personGroups,
    via: 'certificate',
    credential: serialNumber,
    origin: 'socket',
  };
}

const tokenUserPrefix = 'token:';

export function tokenUser(tokenName: string): string {
  return `${tokenUserPrefix}${tokenName}`;
}

/** Undefined for a user that is not a token. */
export function tokenNameOf(user: string): string | undefined {
  return user.startsWith(tokenUserPrefix) ? user.slice(tokenUserPrefix.length) : undefined;
}

/** A token, or a certificate obtained with it: the same user with the same rights either way. */
export function tokenCaller(
  tokenName: string,
  via: 'token' | 'certificate' = 'token',
  credential: string = tokenName,
  tokenId?: string,
): Caller {
  return {
    user: tokenUser(tokenName),
    groups: tokenGroups,
    via,
    credential,
    origin: 'token',
    ...(tokenId === undefined ? {} : { tokenId }),
  };
}

export function controllerCaller(name: string): Caller {
  return {
    user: `system:controller:${name}`,
    groups: [controllersGroup, authenticatedGroup],
    via: 'controller',
  };
}

export function clusterUser(clusterName: string): string {
  return `cluster:${clusterName}`;
}

/**
 * A Kubernetes cluster whose objects the site takes over. It is not in `system:authenticated`: it calls no API of
 * the site, and only bindings that mean clusters give it rights.
 */
export function clusterCaller(clusterName: string): Caller {
  return { user: clusterUser(clusterName), groups: [syncedClustersGroup], via: 'cluster' };
}

export function isAuthenticated(caller: Caller): boolean {
  return caller.via !== 'anonymous';
}

/** One segment of a SPIFFE ID's path (SPIFFE-ID §2.2), in lower case and short enough for a label. */
const personPattern = /^[a-z0-9](?:[-._a-z0-9]{0,61}[a-z0-9])?$/;
export const personNameRule =
  'at most 63 lower case letters, digits, ".", "-" and "_", with a letter or digit at both ends, and not beginning with "token."';

/** A DNS label (RFC 1123 §2.1), because the name becomes part of the name of a RoleBinding. */
const tokenPattern = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
export const tokenNameRule =
  'at most 63 lower case letters, digits and "-", with a letter or digit at both ends';

export function isTokenName(name: string): boolean {
  return tokenPattern.test(name);
}

export function isPersonName(name: string): boolean {
  return personPattern.test(name) && !name.startsWith(tokenSegmentPrefix);
}

const tokenSegmentPrefix = 'token.';
const tokenSegmentPattern = /^token\.(.+)\.([0-9a-f]{16})$/;

/**
 * The last segment of the SPIFFE ID in a certificate that was obtained with a token. It carries
 * the token's own id, so that revoking the token also revokes the certificate, and a later
 * token of the same name does not make it valid again.
 */
export function tokenSegment(name: string, id: string): string {
  return `${tokenSegmentPrefix}${name}.${id}`;
}

export function parseTokenSegment(segment: string): { name: string; id: string } | undefined {
  const match = tokenSegmentPattern.exec(segment);
  return match?.[1] !== undefined && match[2] !== undefined && isTokenName(match[1])
    ? { name: match[1], id: match[2] }
    : undefined;
}
