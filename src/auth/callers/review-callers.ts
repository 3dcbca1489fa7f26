// Authenticates the callers that only the review routes accept, in addition to users and tokens of the
// site: SVIDs of workloads, ServiceAccount tokens of registered clusters, and local programs.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Caller } from '../../core/access/identity.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { PresentedCredential, RouteAuthenticator } from '../../core/plane/route.ts';
import { isLocalProgram, localProgram } from './local-programs.ts';
import type { ServiceAccountCallers } from './service-account-callers.ts';

export interface ReviewCallersOptions {
  readonly trustDomain: TrustDomain;
  /** Whether programs on this machine need no credential. */
  readonly anonymous: boolean;
  readonly serviceAccounts: Pick<ServiceAccountCallers, 'find'>;
}

/** Every workload of the site that calls with its SVID. */
export const workloadsGroup = 'hansa:workloads';
const workloadGroups = [workloadsGroup, 'system:authenticated'];

export class ReviewCallers implements RouteAuthenticator {
  readonly who =
    'workloads of this site, ServiceAccounts of registered clusters, and with `auth.anonymous` programs on this machine';
  readonly #options: ReviewCallersOptions;
  /** The same caller for the same SVID, so that the authorizer finds its cached rights. */
  readonly #bySvid = new WeakMap<ValidatedSvid, Caller>();

  constructor(options: ReviewCallersOptions) {
    this.#options = options;
  }

  authenticate(presented: PresentedCredential): Caller | undefined | Promise<Caller | undefined> {
    const workload = presented.svid && this.#workload(presented.svid);
    if (workload !== undefined) return workload;
    const { authorization } = presented.headers;
    if (authorization !== undefined) {
      const token = bearerToken(authorization);
      if (token === undefined) return undefined;
      return this.#options.serviceAccounts.find(token, presented);
    }
    return this.#options.anonymous && isLocalProgram(presented) ? localProgram : undefined;
  }

  /** Below `/hansa` are the site, its users, agents and bots, not workloads. */
  #workload(svid: ValidatedSvid): Caller | undefined {
    if (!svid.id.memberOf(this.#options.trustDomain) || svid.id.isReserved) return undefined;
    const known = this.#bySvid.get(svid);
    if (known !== undefined) return known;
    const caller: Caller = {
      user: svid.id.toString(),
      groups: workloadGroups,
      via: 'workload',
      credential: svid.serialHex,
    };
    this.#bySvid.set(svid, caller);
    return caller;
  }
}

/** Longer than any ServiceAccount token. */
const maxHeaderLength = 16 * 1024;

/** RFC 6750 §2.1. Undefined where the header has no token with the three parts of a JWT. */
function bearerToken(header: string | readonly string[]): string | undefined {
  if (typeof header !== 'string' || header.length > maxHeaderLength) return undefined;
  return /^bearer +([-\w]+\.[-\w]+\.[-\w]+) *$/i.exec(header)?.[1];
}
