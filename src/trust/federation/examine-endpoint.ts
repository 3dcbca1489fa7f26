// What `hansa doctor --peer` wants to know of an endpoint: how far one gets with it, step by step. It
// is asked as the sync asks it, with the same rules, from the same machine; nothing is changed by it.
// Whoever answers may be hostile: what is kept of it is little, and cut.

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
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type PlaneResponse, type PlaneRoute, route } from '../../core/plane/route.ts';
import { askEndpoint, endpointOf, type EndpointParts, readHeld } from './ask-endpoint.ts';
import { fetchBundle, type FetchProgress } from '../client/fetch-bundle.ts';
import { type FailureClass, failureOf } from './fetch-failure.ts';
import { trustPaths } from '../paths.ts';

/** How far one got. Of redirects the last; where the bundle is static, nobody is asked. */
export interface Examination {
  readonly trustDomain: string;
  readonly source: FederationSource;
  readonly url?: string;
  /** Who must answer, where that is known by a SPIFFE ID. */
  readonly expected?: string;
  /** What the name stands for; empty where it is an address, or is not known. */
  readonly addresses: readonly string[];
  readonly connected?: { readonly address: string; readonly ms: number };
  /** After the handshake; without names where the Web PKI judged them. */
  readonly presented?: { readonly ids: readonly string[]; readonly notAfter?: string };
  readonly bundle?: {
    readonly authorities: number;
    readonly sequence?: number;
    /** Whether this site holds the same authorities. */
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

/** Without a name it examines the advertised URL of this site. */
/** One operator looks at one peer; each look may take ten seconds. */
const atOnce = 4;
/** A name may stand for many; a certificate has one SPIFFE ID. */
const mostAddresses = 8;
const mostIds = 4;

export function examineRoutes(parts: Parts): readonly PlaneRoute[] {
  // Per process: it bounds the connections of this one.
  let underWay = 0;
  const limited = async (examine: () => Promise<Examination>): Promise<PlaneResponse> => {
    if (underWay >= atOnce) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `${atOnce} endpoints are being examined already. Try again in a few seconds.`,
        { details: { retryAfterSeconds: 5 } },
      );
    }
    underWay++;
    try {
      const body = JSON.stringify(await examine());
      return { status: 200, contentType: 'application/json', body };
    } finally {
      underWay--;
    }
  };
  return [
    route({
      listener: 'api',
      method: 'POST',
      path: trustPaths.examine,
      // The right of `hansa trust refresh`, which asks the same endpoint.
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
      // The URL is the site's own: the right to read it is enough.
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
      `This site has no SPIFFEFederation ${name}. Those that it has: hansa trust status.`,
    );
  }
  const facts = store.facts.get(spiffeFederationKind.plural, name);
  return withLiveStatus(spiffeFederationKind, found, facts);
}

/** Whether this site answers at the URL that it tells its peers. */
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
