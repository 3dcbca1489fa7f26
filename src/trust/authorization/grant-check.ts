// The route behind `hansa grant check`: whether ext_authz would admit a caller to an offer now. It calls
// the decision of ext-authz.ts as the workload that serves the offer. It changes and records nothing.

import { isIP } from 'node:net';
import { type GrantMiss, scopeOfMethod } from '../../api/grants.ts';
import { federationGrantKind, type GrantScope } from '../../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import { type AccessDecision, decideAccess } from './ext-authz.ts';
import type { StoreFederationState } from './federation-state.ts';
import { trustPaths } from '../paths.ts';

/** What the API answers. */
export interface GrantCheck {
  readonly allowed: boolean;
  readonly from: string;
  readonly offer: string;
  /** Absent for a connection without methods. */
  readonly method?: string;
  /** Absent where some address was asked for. */
  readonly source?: string;
  /** Which scope the method needs; any where there is no method. */
  readonly scope: GrantScope | 'any';
  /** The grant that covers it, or that came closest. */
  readonly grant?: string;
  readonly reason: string;
  /** What an operator can do about a denial. */
  readonly remedy?: string;
}

interface Parts {
  readonly federationState: StoreFederationState;
  readonly bundles: BundleSource;
  readonly clock: Clock;
}

const parameters: readonly string[] = ['from', 'offer', 'method', 'source'];
/** RFC 9110 section 9.1: a method is a token. No registered method is as long as this. */
const methodToken = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;

export function grantCheckRoute(parts: Parts): PlaneRoute {
  return route({
    listener: 'api',
    method: 'GET',
    path: trustPaths.grantCheck,
    // The answer tells what grants, peers and offers say: who may read them may ask.
    allow: 'rights',
    rights: [
      { verb: 'list', kind: federationGrantKind },
      { verb: 'list', kind: federationPeerKind },
      { verb: 'list', kind: serviceOfferKind },
    ],
    handle: (request) => {
      const body = JSON.stringify(checkGrant(parts, questionOf(request.query)));
      return { status: 200, contentType: 'application/json', body };
    },
  });
}

interface Question {
  readonly from: SpiffeId;
  readonly offer: string;
  readonly method: string | undefined;
  readonly source: string | undefined;
}

function questionOf(query: URLSearchParams): Question {
  const refuse = (why: string): never => {
    throw new HansaError('HANSA_BAD_REQUEST', `Cannot check the grant: ${why}.`);
  };
  for (const name of query.keys()) {
    if (!parameters.includes(name)) {
      refuse(
        `there is no parameter ${JSON.stringify(excerpt(name))}, only ${parameters.join(', ')}`,
      );
    }
    if (query.getAll(name).length > 1) refuse(`${name} is set more than once`);
  }
  const given = (name: string): string | undefined => query.get(name) ?? undefined;
  const method = given('method');
  const source = given('source');
  if (method !== undefined && !methodToken.test(method)) {
    refuse(`method is ${JSON.stringify(excerpt(method))}, which is not an HTTP method`);
  }
  if (source !== undefined && isIP(source) === 0) {
    refuse(`source is ${JSON.stringify(excerpt(source))}, which is not an IP address`);
  }
  const offer = given('offer') ?? '';
  if (offer === '') refuse('offer is missing');
  return { from: SpiffeId.parse(given('from') ?? ''), offer, method, source };
}

export function checkGrant(
  { federationState, bundles, clock }: Parts,
  { from, offer, method, source }: Question,
): GrantCheck {
  const { current } = federationState;
  const server = current.offers.get(offer)?.spec.spiffeID;
  const decision = decideAccess(
    { principal: from.toString(), certificate: '', sourceAddress: source, method, offer },
    {
      askers: server === undefined ? [] : parsedIds(server),
      federationState: current,
      bundles,
      nowMs: clock.now(),
    },
  );
  const scope = method === undefined ? 'any' : scopeOfMethod(method);
  return {
    allowed: decision.allowed,
    from: from.toString(),
    offer,
    ...(method === undefined ? {} : { method }),
    ...(source === undefined ? {} : { source }),
    scope,
    ...(decision.grant === undefined ? {} : { grant: decision.grant }),
    ...(decision.allowed
      ? { reason: `grant ${decision.grant} covers it` }
      : {
          reason: decision.reason,
          remedy: remedyOf(decision, from, offer, scope === 'any' ? 'read' : scope),
        }),
  };
}

/** The schema accepts a few invalid SPIFFE IDs: no workload serves such an offer. */
function parsedIds(text: string): readonly SpiffeId[] {
  try {
    return [SpiffeId.parse(text)];
  } catch (caught) {
    if (caught instanceof HansaError) return [];
    throw caught;
  }
}

function remedyOf(
  { kind, miss, grant = 'NAME' }: Extract<AccessDecision, { allowed: false }>,
  from: SpiffeId,
  offer: string,
  scope: GrantScope,
): string {
  const peer = from.trustDomain.name;
  if (kind === 'offer') return 'List the offers of this site with: hansa get serviceoffers';
  if (kind === 'asker') return `Correct spec.spiffeID of the ServiceOffer ${offer}.`;
  if (kind !== 'grant' || miss === undefined) {
    return `See the trust domains of this site with hansa trust status, and the peer with hansa peer show ${peer}`;
  }
  const again = `Repeat hansa grant create ${grant} with its other flags and`;
  const remedies: Readonly<Record<GrantMiss, string>> = {
    peer: `See the peers of this site with hansa peer list, and this one with hansa peer show ${peer}`,
    none: `To grant it: hansa grant create NAME --peer ${peer} --offer ${offer} --identity ${from.toString()} --any-network --any-address --scope ${scope}`,
    expired: `${again} a new --ttl or --expires-at.`,
    'trust-domain': `Only identities of ${peer} can use a grant for it.`,
    identity: `${again} --identity ${from.toString()} in addition to its identities.`,
    network: `${again} --any-network.`,
    source: `${again} --from with a range that contains the address, or --any-address.`,
    scope: `${again} --scope ${scope} in addition to its scopes.`,
  };
  return remedies[miss];
}
