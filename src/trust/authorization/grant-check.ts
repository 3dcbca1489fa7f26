// The route behind `hansa grant check`: whether the site would admit a caller to an offer, a cluster or
// a service now. For an offer it calls the decision of ext-authz.ts as the workload that serves the
// offer, for the others that of grants. It changes and records nothing.

import { isIP } from 'node:net';
import {
  decideGrant,
  type GrantMiss,
  type GrantNeed,
  type GrantTarget,
  scopeOfMethod,
} from '../../api/grants.ts';
import {
  federationGrantKind,
  type GrantScope,
  type GrantTargetType,
  grantScopes,
  grantTargetFields,
} from '../../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { type AccessDecision, coveredBy, decideAccess } from './ext-authz.ts';
import type { StoreFederationState } from './federation-state.ts';
import type { Asker } from './offer-callers.ts';
import { trustPaths } from '../paths.ts';
import { usableEntry } from '../workload/entries/matching-entries.ts';

/** What the API answers. */
export interface GrantCheck {
  readonly allowed: boolean;
  readonly from: string;
  /** What the question is about: exactly one of these. */
  readonly offer?: string;
  readonly cluster?: string;
  readonly service?: string;
  /** Absent for a connection without methods. */
  readonly method?: string;
  /** Absent where some address was asked for. */
  readonly source?: string;
  /** Which scope the call needs; any for a connection without methods. */
  readonly scope: GrantScope | 'any';
  /** The grant that covers it, or that came closest. */
  readonly grant?: string;
  readonly reason: string;
  /** If no grant covers it: the condition or axis that failed in the closest grant. */
  readonly miss?: GrantMiss;
  /** What an operator can do about a denial. */
  readonly remedy?: string;
}

interface Parts {
  readonly store: Pick<Store, 'list'>;
  readonly federationState: StoreFederationState;
  readonly bundles: BundleSource;
  readonly clock: Clock;
}

const entriesReader = kindReader(workloadEntryKind);
const targetTypes = Object.keys(grantTargetFields) as readonly GrantTargetType[];
const parameters: readonly string[] = ['from', ...targetTypes, 'method', 'scope', 'source'];
/** RFC 9110 section 9.1: a method is a token. No registered method is as long as this. */
const methodToken = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;

export function grantCheckRoute(parts: Parts): PlaneRoute {
  return route({
    listener: 'api',
    method: 'GET',
    path: trustPaths.grantCheck,
    // The answer tells what grants, peers, offers and entries say: who may read them may ask.
    allow: 'rights',
    rights: [
      { verb: 'list', kind: federationGrantKind },
      { verb: 'list', kind: federationPeerKind },
      { verb: 'list', kind: serviceOfferKind },
      { verb: 'list', kind: workloadEntryKind },
    ],
    handle: (request) => {
      const body = JSON.stringify(checkGrant(parts, questionOf(request.query)));
      return { status: 200, contentType: 'application/json', body };
    },
  });
}

interface Question {
  readonly from: SpiffeId;
  readonly target: GrantTarget;
  readonly method: string | undefined;
  /** For clusters and services, which have no methods. */
  readonly scope: GrantScope | undefined;
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
  const targets = targetTypes.flatMap((type) => {
    const name = given(type) ?? '';
    return name === '' ? [] : [{ type, name }];
  });
  const [target] = targets;
  if (target === undefined || targets.length > 1) {
    return refuse(`it needs exactly one of ${targetTypes.join(', ')}`);
  }
  const scope = grantScopes.find((known) => known === given('scope'));
  if (given('scope') !== undefined && scope === undefined) {
    refuse(`scope is not one of ${grantScopes.join(', ')}`);
  }
  if (scope !== undefined && method !== undefined) refuse('method and scope exclude each other');
  return { from: SpiffeId.parse(given('from') ?? ''), target, method, scope, source };
}

export function checkGrant(parts: Parts, question: Question): GrantCheck {
  const { from, target, method, source } = question;
  const need = needOf(question);
  const decision = decide(parts, question, need);
  const scope =
    need === 'connect' ? 'any' : 'scope' in need ? need.scope : scopeOfMethod(need.method);
  return {
    allowed: decision.allowed,
    from: from.toString(),
    [target.type]: target.name,
    ...(method === undefined ? {} : { method }),
    ...(source === undefined ? {} : { source }),
    scope,
    ...(decision.grant === undefined ? {} : { grant: decision.grant }),
    ...(decision.allowed
      ? { reason: decision.reason }
      : {
          reason: decision.reason,
          ...(decision.miss === undefined ? {} : { miss: decision.miss }),
          remedy: remedyOf(decision, from, target, scope === 'any' ? 'read' : scope),
        }),
  };
}

/** A call about a cluster or a service reads unless the question says otherwise. */
function needOf({ target, method, scope }: Question): GrantNeed {
  if (method !== undefined) return { method };
  if (scope !== undefined) return { scope };
  return target.type === 'offer' ? 'connect' : { scope: 'read' };
}

function decide(
  { store, federationState, bundles, clock }: Parts,
  { from, target, method, source }: Question,
  need: GrantNeed,
): AccessDecision {
  const { current } = federationState;
  const nowMs = clock.now();
  // A scope instead of a method is not a question that ext_authz asks.
  if (target.type === 'offer' && (need === 'connect' || 'method' in need)) {
    const server = current.offers.get(target.name)?.spec.spiffeID;
    return decideAccess(
      {
        principal: from.toString(),
        certificate: '',
        sourceAddress: source,
        method,
        offer: target.name,
      },
      {
        askers: server === undefined ? [] : askersOf(store, server),
        federationState: current,
        bundles,
        nowMs,
      },
    );
  }
  const peer = from.trustDomain.name;
  if (bundles.bundleFor(from.trustDomain) === undefined) {
    const reason = `the site trusts no bundle of ${peer} now`;
    return { allowed: false, kind: 'caller', reason, id: from };
  }
  const decision = decideGrant(
    { peer, spiffeID: from.toString(), target, sourceAddress: source, need, nowMs },
    current.peers.get(peer),
    current.grantsByPeer.get(peer) ?? [],
  );
  if (decision.covered) return { allowed: true, id: from, ...coveredBy(decision.grant) };
  const { covered: _denied, ...why } = decision;
  return { allowed: false, kind: 'grant', id: from, ...why };
}

/**
 * The entries of the workload that serves an offer: those that give its identity. Without one, as if it
 * federated with no trust domain. The schema accepts a few invalid SPIFFE IDs: no workload serves such an offer.
 */
function askersOf(store: Pick<Store, 'list'>, text: string): readonly Asker[] {
  try {
    const id = SpiffeId.parse(text);
    const entries = store
      .list(entriesReader.collection)
      .entries.map((entry) => entriesReader.once(entry))
      .filter(
        ({ metadata, spec }) => metadata.deletionTimestamp === undefined && spec.spiffeID === text,
      )
      .flatMap((entry) => {
        const found = usableEntry(entry, id.trustDomain, []);
        return 'entry' in found ? [found.entry] : [];
      });
    return entries.length > 0
      ? entries
      : [{ id, federatesWith: [], federatesWithSelector: undefined }];
  } catch (caught) {
    if (caught instanceof HansaError) return [];
    throw caught;
  }
}

function remedyOf(
  { kind, miss, grant = 'NAME' }: Extract<AccessDecision, { allowed: false }>,
  from: SpiffeId,
  target: GrantTarget,
  scope: GrantScope,
): string {
  const peer = from.trustDomain.name;
  if (kind === 'offer') return 'List the offers of this site with: hansa get serviceoffers';
  if (kind === 'entry') {
    return `If ${peer} is to be a peer, see hansa peer list. Otherwise add it to spec.federatesWith of a WorkloadEntry of the workload that serves ${target.name}.`;
  }
  if (kind === 'callers') {
    return `To allow it, add it to spec.callers.ids of the ServiceOffer ${target.name}: hansa explain serviceoffer.spec.callers`;
  }
  if (kind === 'asker') return `Correct spec.spiffeID of the ServiceOffer ${target.name}.`;
  if (kind !== 'grant' || miss === undefined) {
    return `See the trust domains of this site with hansa trust status, and the peer with hansa peer show ${peer}`;
  }
  const again = `Repeat hansa grant create ${grant} with its other flags and`;
  const remedies: Readonly<Record<GrantMiss, string>> = {
    peer: `See the peers of this site with hansa peer list, and this one with hansa peer show ${peer}`,
    none: `To grant it: hansa grant create NAME --peer ${peer} --${target.type} ${target.name} --identity ${from.toString()} --any-network --any-address --scope ${scope}`,
    expired: `${again} a new --ttl or --expires-at.`,
    'trust-domain': `Only identities of ${peer} can use a grant for it.`,
    identity: `${again} --identity ${from.toString()} in addition to its identities.`,
    network: `${again} --any-network.`,
    source: `${again} --from with a range that contains the address, or --any-address.`,
    scope: `${again} --scope ${scope} in addition to its scopes.`,
  };
  return remedies[miss];
}
