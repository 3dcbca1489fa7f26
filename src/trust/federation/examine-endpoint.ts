// The route behind `hansa doctor --peer`: fetches a bundle as the federation controller does, and
// reports each step. It changes nothing. The endpoint may be hostile, so the report keeps little of its
// response, and truncates it.

import { siteKind } from '../../api/kinds/site.ts';
import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import { timestamp } from '../../api/object.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type FederationSource, sourceOf } from '../../api/bundle-life.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { brokenRule, type Rule } from '../../core/identity/x509/rules.ts';
import { heldDocument } from './federated-bundles.ts';
import { fewAtOnce } from '../../core/limits/few-at-once.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type PlaneResponse, type PlaneRoute, route } from '../../core/plane/route.ts';
import { askEndpoint, endpointOf, type EndpointParts, readHeld } from './ask-endpoint.ts';
import { fetchBundle, type FetchProgress } from '../client/fetch-bundle.ts';
import { type FailureClass, failureOf } from './fetch-failure.ts';
import { trustPaths } from '../paths.ts';

/** The steps that succeeded, for the last redirect. A static bundle has no URL and no steps. */
export interface Examination {
  readonly trustDomain: string;
  readonly source: FederationSource;
  readonly url?: string;
  /** The expected SPIFFE ID of the endpoint, if there is one. */
  readonly expected?: string;
  /** The resolved addresses; empty if the host is an address, or if it cannot be resolved. */
  readonly addresses: readonly string[];
  readonly connected?: { readonly address: string; readonly ms: number };
  /** Set after the handshake. It has no IDs if the Web PKI verified the certificate. */
  readonly presented?: { readonly ids: readonly string[]; readonly notAfter?: string };
  readonly bundle?: {
    readonly authorities: number;
    readonly sequence?: number;
    /** Whether the held bundle has the same authorities. */
    readonly isHeld: boolean;
  };
  readonly failure?: {
    readonly class: FailureClass;
    readonly rule?: Rule;
    readonly message: string;
  };
}

type Parts = Pick<
  PlaneContext,
  | 'store'
  | 'clock'
  | 'transport'
  | 'heldBundles'
  | 'authority'
  | 'resources'
  | 'trustDomain'
  | 'advertiseURL'
>;

/** An operator examines one peer at a time, for up to ten seconds. */
const atOnce = 4;
/** A name may resolve to many addresses; a certificate has one SPIFFE ID. */
const mostAddresses = 8;
const mostIds = 4;

export function examineRoutes(parts: Parts): readonly PlaneRoute[] {
  const few = fewAtOnce(atOnce, `examining ${atOnce} endpoints`);
  const limited = async (examine: () => Promise<Examination>): Promise<PlaneResponse> => {
    const body = JSON.stringify(await few(examine));
    return { status: 200, contentType: 'application/json', body };
  };
  return [
    route({
      listener: 'api',
      method: 'POST',
      path: trustPaths.examine,
      // The same right as `hansa trust refresh`, which calls the same endpoint.
      allow: 'rights',
      rights: [{ verb: 'update', kind: spiffeFederationKind, nameFrom: 'name' }],
      handle: async ({ params: { name } }) => {
        const federation = await find(parts, name);
        return limited(() => examineEndpoint(parts, federation));
      },
    }),
    route({
      listener: 'api',
      method: 'POST',
      path: trustPaths.examineOwn,
      // The URL belongs to this site, so the right to read the Site is enough.
      allow: 'rights',
      rights: [{ verb: 'get', kind: siteKind, name: siteKind.singleton as string }],
      handle: () => limited(() => examineAdvertised(parts)),
    }),
  ];
}

async function find({ store, resources }: Parts, name: string): Promise<SPIFFEFederation> {
  const found = await resources<SPIFFEFederation>(spiffeFederationKind).get(name);
  if (found === undefined) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `This site has no SPIFFEFederation ${name}. List them with: hansa trust status`,
    );
  }
  const facts = store.facts.get(spiffeFederationKind.plural, name);
  return withLiveStatus(spiffeFederationKind, found, facts);
}

/** Whether this site answers at the URL that it advertises to its peers. */
async function examineAdvertised(parts: Parts): Promise<Examination> {
  const { trustDomain, heldBundles: bundles, clock, transport } = parts;
  const endpoint = SpiffeId.parse(`${trustDomain.id}/hansa/site`);
  const url = new URL(parts.advertiseURL());
  const told: Told = {
    trustDomain: trustDomain.name,
    source: 'https_spiffe',
    url: url.href,
    expected: endpoint.toString(),
    addresses: [],
  };
  return upToFailure(told, undefined, async () => {
    await fetchBundle({
      url,
      profile: { kind: 'https_spiffe', endpoint, bundles },
      validator: undefined,
      transport,
      clock,
      signal: new AbortController().signal,
      progress: progressInto(told, clock),
    });
  });
}

type Told = { -readonly [K in keyof Examination]: Examination[K] };

export async function examineEndpoint(
  parts: EndpointParts,
  federation: SPIFFEFederation,
): Promise<Examination> {
  const { clock } = parts;
  const { name } = federation.metadata;
  const told: Told = { trustDomain: name, source: sourceOf(federation), addresses: [] };
  const url = endpointOf(federation);
  if (url === undefined) return told;
  told.url = url.href;
  const { httpsSpiffe } = federation.spec.bundleSource;
  if (httpsSpiffe?.endpointSpiffeID !== undefined) told.expected = httpsSpiffe.endpointSpiffeID;
  return upToFailure(told, name, async () => {
    const { accepted } = await askEndpoint(parts, federation, {
      validator: undefined,
      acceptRollback: false,
      signal: new AbortController().signal,
      progress: progressInto(told, clock),
    });
    const { bundle, sequence } = accepted;
    told.bundle = {
      authorities: bundle.authorities.length + bundle.jwtAuthorities.size,
      ...(sequence === undefined ? {} : { sequence }),
      isHeld: readHeld(federation, heldDocument(federation))?.bundle.hash === bundle.hash,
    };
  });
}

async function upToFailure(
  told: Told,
  other: string | undefined,
  ask: () => Promise<void>,
): Promise<Examination> {
  try {
    await ask();
  } catch (caught) {
    const failure = failureOf(caught, other);
    if (failure.class === 'internal') throw caught;
    const rule = brokenRule(caught);
    told.failure = {
      class: failure.class,
      ...(rule === undefined ? {} : { rule }),
      message: failure.message,
    };
  }
  return told;
}

function progressInto(told: Told, clock: Clock): FetchProgress {
  let since = clock.monotonic();
  return {
    asks: (next) => {
      told.url = next.href;
      told.addresses = [];
      delete told.connected;
      delete told.presented;
      since = clock.monotonic();
    },
    resolved: (address) => {
      told.addresses = [...new Set([...told.addresses, address])].slice(0, mostAddresses);
      since = clock.monotonic();
    },
    connected: (address) => {
      told.connected = { address, ms: Math.max(clock.monotonic() - since, 0) };
    },
    presented: (chain) => {
      told.presented = presentedBy(chain);
    },
  };
}

function presentedBy([leaf]: readonly Certificate[]): NonNullable<Examination['presented']> {
  if (leaf === undefined) return { ids: [] };
  const uris = leaf.extensions.subjectAlternativeName?.uris ?? [];
  return {
    ids: uris.slice(0, mostIds).map((uri) => uri.slice(0, 256)),
    notAfter: timestamp(leaf.notAfterMs),
  };
}
