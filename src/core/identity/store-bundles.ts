// Whom this site believes, as the store has it: its own authorities, and the bundle of every
// SPIFFEFederation that is not quarantined. Asked on every request, so what an entry means is
// computed once for each entry; deleting or quarantining a federation shows at the next question.

import type { TrustDomain } from '../../api/trust-domain.ts';
import type { Entry, Store } from '../store/store.ts';
import type { Bundle, BundleSource } from './bundle.ts';
import { parseSpiffeBundle } from './spiffe-bundle.ts';

/** The collection of the kind SPIFFEFederation. */
export const federationsCollection = 'spiffefederations';

/** What is read of a SPIFFEFederation here. */
export interface FederationLike {
  readonly metadata?: { readonly deletionTimestamp?: string };
  readonly spec?: {
    readonly quarantined?: boolean;
    readonly bundleSource?: {
      readonly httpsSpiffe?: { readonly bundleBootstrap?: string };
      readonly static?: { readonly bundle?: string };
    };
  };
  readonly status?: { readonly bundle?: string; readonly source?: string };
}

/**
 * The document that stands for a federation: what was last accepted, and until then what its
 * operator gave. With another kind of source, what came from the one before stands for nothing.
 */
export function heldDocument({ spec, status }: FederationLike): string | undefined {
  const { httpsSpiffe, static: fixed } = spec?.bundleSource ?? {};
  const source = fixed === undefined ? 'https_spiffe' : 'static';
  const accepted = (status?.source ?? source) === source ? status?.bundle : undefined;
  return accepted ?? httpsSpiffe?.bundleBootstrap ?? fixed?.bundle;
}

/**
 * By key and not by certificate, or by the kind of authority: a certificate can be made anew around
 * the same key. With `x509`, keys of JWT authorities count for nothing: nobody shows by a connection
 * that he holds those.
 */
export function sharesAuthority(
  bundle: Bundle,
  own: Bundle,
  kinds: 'all' | 'x509' = 'all',
): boolean {
  const keys = new Set(keysOf(own, kinds));
  return keysOf(bundle, kinds).some((key) => keys.has(key));
}

function keysOf({ authorities, jwtAuthorities }: Bundle, kinds: 'all' | 'x509'): readonly string[] {
  const keys = authorities.map(({ spki }) => spki.toString('latin1'));
  if (kinds === 'x509') return keys;
  for (const { publicKey } of jwtAuthorities.values()) {
    keys.push(publicKey.export({ format: 'der', type: 'spki' }).toString('latin1'));
  }
  return keys;
}

interface Known {
  readonly entry: Entry;
  readonly document: string | undefined;
  readonly bundle: Bundle | undefined;
}

export class StoreBundles implements BundleSource {
  readonly #store: Pick<Store, 'get'>;
  readonly #own: { readonly bundle: Bundle };
  /** As many as there are federations: one that is gone is forgotten when it is asked for. */
  readonly #known = new Map<string, Known>();

  constructor(store: Pick<Store, 'get'>, own: { readonly bundle: Bundle }) {
    this.#store = store;
    this.#own = own;
  }

  bundleFor(trustDomain: TrustDomain): Bundle | undefined {
    const own = this.#own.bundle;
    if (trustDomain.equals(own.trustDomain)) return own;
    const { name } = trustDomain;
    const entry = this.#store.get(federationsCollection, name);
    const known = this.#known.get(name);
    if (entry === undefined) {
      if (known !== undefined) this.#known.delete(name);
      return undefined;
    }
    if (known?.entry === entry) return known.bundle;
    const document = believedDocument(entry);
    // A status that only tells another time leaves the bundle the same, and its hash with it.
    const bundle =
      known !== undefined && known.document === document
        ? known.bundle
        : this.#parse(document, trustDomain);
    this.#known.set(name, { entry, document, bundle });
    return bundle;
  }

  #parse(document: string | undefined, trustDomain: TrustDomain): Bundle | undefined {
    if (document === undefined) return undefined;
    try {
      const { bundle } = parseSpiffeBundle(document, trustDomain);
      // Whoever holds one of our keys under another name could speak for that name.
      return sharesAuthority(bundle, this.#own.bundle) ? undefined : bundle;
    } catch {
      // The federation's own status tells why.
      return undefined;
    }
  }
}

function believedDocument(entry: Entry): string | undefined {
  const federation = JSON.parse(entry.value.toString('utf8')) as FederationLike;
  if (federation.spec?.quarantined === true) return undefined;
  if (federation.metadata?.deletionTimestamp !== undefined) return undefined;
  return heldDocument(federation);
}
