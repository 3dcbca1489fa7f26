// The SPIFFEFederation of a peer, which makes this site trust it. Peering creates and deletes it in
// the store, and the trust plane keeps its bundle fresh.

import type { ResourceOf } from '../../api/kind.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { peerLabel, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import { keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import type { ResourceClient } from '../../core/reconcile/resource-client.ts';
import type { Expectation } from '../../core/store/store.ts';
import { peeringWrites } from './peer-repository.ts';

export const federationsCollection = spiffeFederationKind.plural;

export type SpiffeFederation = ResourceOf<typeof spiffeFederationKind>;

/** Minimum time between announcements of one peer. Each costs a write and a fetch. */
const announceEveryMs = 1000;

export class PeerFederations {
  readonly #federations: ResourceClient<SpiffeFederation>;
  readonly #clock: Clock;
  /** The last announcement of each peer, in monotonic time. Per process: a second replica may accept one more. */
  readonly #announcedMs = new Map<string, number>();

  constructor(federations: ResourceClient<SpiffeFederation>, clock: Clock) {
    this.#federations = federations;
    this.#clock = clock;
  }

  get(name: string): Promise<SpiffeFederation | undefined> {
    return this.#federations.get(name);
  }

  /**
   * Why the site cannot create a federation of this name for a new peer, or undefined. Peering does
   * not change a federation that a user created, and the site does not trust one that is being deleted.
   */
  async obstacle(name: string): Promise<string | undefined> {
    const federation = await this.#federations.get(name);
    if (federation === undefined) return undefined;
    const { deletionTimestamp, finalizers = [] } = federation.metadata;
    if (deletionTimestamp !== undefined) {
      return `finalizers block the deletion of the SPIFFEFederation ${name} of an earlier peer: ${finalizers.join(', ')}. The site enrolls the peer when they are removed`;
    }
    return isOurs(federation)
      ? undefined
      : `the SPIFFEFederation ${name} exists, but not for this peer. The site enrolls the peer when it is deleted`;
  }

  /**
   * SHA-256, in hex, of the public keys in the bundles that this site has of the peer. `current`: of the
   * bundle that it uses now. `all`: also of the one that it started from.
   */
  async keysOf(peer: string): Promise<{
    readonly current: readonly string[];
    readonly all: readonly string[];
  }> {
    const { spec, status } = (await this.#federations.get(peer)) ?? {};
    const bootstrap = spec?.bundleSource.httpsSpiffe?.bundleBootstrap;
    const current = keysIn(peer, status?.bundle ?? bootstrap);
    return { current, all: [...current, ...keysIn(peer, bootstrap)] };
  }

  /**
   * Creates the federation, or updates it to match the peer. Idempotent. Creates it only while the peer is
   * as given: otherwise a peer that re-enrols in the meantime would get a federation with its lost keys.
   * Then it rejects with HANSA_CONFLICT.
   */
  async keep(
    peer: FederationPeer,
    bootstrap: string | undefined,
    quarantined: boolean,
  ): Promise<void> {
    const { name } = peer.metadata;
    await this.removeOrphan(name, peer.metadata.uid);
    const known = await this.#federations.get(name);
    if (known === undefined) {
      if (bootstrap === undefined) return;
      try {
        await this.#federations.create(
          {
            name,
            spec: {
              bundleSource: {
                httpsSpiffe: {
                  bundleEndpointURL: peer.spec.url,
                  endpointSpiffeID: `spiffe://${name}/hansa/site`,
                  bundleBootstrap: bootstrap,
                },
              },
              staleAfterSeconds: 3600,
              quarantined,
            },
            labels: { [peerLabel]: labelOf(name) },
            owner: peer,
          },
          { ...peeringWrites, expect: [unchanged(peer)] },
        );
      } catch (error) {
        if (!hasCode(error, 'HANSA_ALREADY_EXISTS')) throw error;
      }
      return;
    }
    if (!isOurs(known)) return;
    await this.#federations.patchSpec(
      name,
      (current) => {
        const { httpsSpiffe } = current.spec.bundleSource;
        return {
          ...current.spec,
          quarantined,
          bundleSource:
            httpsSpiffe === undefined
              ? current.spec.bundleSource
              : { httpsSpiffe: { ...httpsSpiffe, bundleEndpointURL: peer.spec.url } },
        };
      },
      peeringWrites,
    );
  }

  /** Handles an announcement: the trust plane fetches the newer bundle at once. */
  async announced(name: string, sequence: number): Promise<void> {
    const known = await this.#federations.get(name);
    if (known === undefined || !isOurs(known)) return;
    const seen = Math.max(known.spec.announcedSequence ?? 0, known.status?.sequence ?? 0);
    if (sequence <= seen) return;
    const nowMs = this.#clock.monotonic();
    // Ignored if too soon: the next heartbeat repeats the sequence.
    if (nowMs - (this.#announcedMs.get(name) ?? -announceEveryMs) < announceEveryMs) return;
    this.#announcedMs.set(name, nowMs);
    await this.#federations.patchSpec(
      name,
      (current) => ({
        ...current.spec,
        announcedSequence: Math.max(current.spec.announcedSequence ?? 0, sequence),
      }),
      peeringWrites,
    );
  }

  /** Names of the federations that peering manages. */
  async names(): Promise<readonly string[]> {
    return (await this.#federations.list()).filter(isOurs).map(({ metadata }) => metadata.name);
  }

  /** Removes the federation of a peer that no longer exists. `uid` is the current peer of this name. */
  async removeOrphan(name: string, uid: string | undefined): Promise<void> {
    const known = await this.#federations.get(name);
    if (known === undefined || !isOurs(known)) return;
    const owner = known.metadata.ownerReferences?.find(({ controller }) => controller === true);
    if (uid === undefined || (owner !== undefined && owner.uid !== uid)) await this.remove(name);
  }

  /** After this, the site does not trust the peer. `unless` is asked after the federation was read. */
  async remove(name: string, unless?: () => Promise<boolean>): Promise<void> {
    const known = await this.#federations.get(name);
    if (known === undefined || !isOurs(known) || (await unless?.()) === true) return;
    this.#announcedMs.delete(name);
    await this.#federations.delete(name, peeringWrites, { uid: known.metadata.uid });
  }
}

function keysIn(name: string, document: string | undefined): readonly string[] {
  if (document === undefined) return [];
  try {
    const { bundle } = parseSpiffeBundle(document, TrustDomain.parse(name), 'x509');
    return keyDigests(bundle).map((key) => key.toString('hex'));
  } catch {
    return [];
  }
}

function unchanged({ metadata }: FederationPeer): Expectation {
  const at = Number(metadata.resourceVersion);
  return { collection: federationPeerKind.plural, name: metadata.name, at };
}

function isOurs(federation: SpiffeFederation): boolean {
  return federation.metadata.labels?.[peerLabel] !== undefined;
}

/** A label value has a lower maximum length than a trust domain, and a stricter last character. */
function labelOf(name: string): string {
  return name.slice(0, 63).replaceAll(/^[^a-z0-9]+|[^a-z0-9]+$/g, '');
}
