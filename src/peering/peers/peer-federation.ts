// The SPIFFEFederation of a peer: what makes this site believe it. Peering keeps it through the
// store; the trust plane keeps its bundle fresh and everybody who verifies reads it.

import type { ResourceOf } from '../../api/kind.ts';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { peerLabel, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { ResourceClient } from '../../core/reconcile/resource-client.ts';
import { peeringWrites } from './peer-repository.ts';

export const federationsCollection = spiffeFederationKind.plural;

export type SpiffeFederation = ResourceOf<typeof spiffeFederationKind>;

/** Each announcement that is taken costs a record and a fetch: a peer gets one so often. */
const announceEveryMs = 1000;

export class PeerFederations {
  readonly #federations: ResourceClient<SpiffeFederation>;
  readonly #clock: Clock;
  /** By peer, when it last announced something, in monotonic time. Per process: a second replica may take one more. */
  readonly #announcedMs = new Map<string, number>();

  constructor(federations: ResourceClient<SpiffeFederation>, clock: Clock) {
    this.#federations = federations;
    this.#clock = clock;
  }

  get(name: string): Promise<SpiffeFederation | undefined> {
    return this.#federations.get(name);
  }

  /**
   * Why a new peer cannot have a federation of this name; undefined where it can. One that somebody
   * else made is left alone, and one that is being deleted is trusted by nobody.
   */
  async obstacle(name: string): Promise<string | undefined> {
    const federation = await this.#federations.get(name);
    if (federation === undefined) return undefined;
    const { deletionTimestamp, finalizers = [] } = federation.metadata;
    if (deletionTimestamp !== undefined) {
      return `the SPIFFEFederation ${name} of an earlier peer is being deleted, and is held by finalizers: ${finalizers.join(', ')}. When they are removed, the peer is enrolled`;
    }
    return isOurs(federation)
      ? undefined
      : `a SPIFFEFederation ${name} exists that is not a peer's: delete it, and the peer is enrolled`;
  }

  /** Made where it is missing, and brought into line with the peer where it is not. Idempotent. */
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
          peeringWrites,
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

  /** The peer told that it has published a newer bundle: the trust plane fetches it at once. */
  async announced(name: string, sequence: number): Promise<void> {
    const known = await this.#federations.get(name);
    if (known === undefined || !isOurs(known)) return;
    const seen = Math.max(known.spec.announcedSequence ?? 0, known.status?.sequence ?? 0);
    if (sequence <= seen) return;
    const nowMs = this.#clock.monotonic();
    // What comes too soon is told again by the next heartbeat.
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

  /** Names of the federations that peering keeps. */
  async names(): Promise<readonly string[]> {
    return (await this.#federations.list()).filter(isOurs).map(({ metadata }) => metadata.name);
  }

  /** Removes the federation of a peer that is gone. `uid` is the peer of this name now. */
  async removeOrphan(name: string, uid: string | undefined): Promise<void> {
    const known = await this.#federations.get(name);
    if (known === undefined || !isOurs(known)) return;
    const owner = known.metadata.ownerReferences?.find(({ controller }) => controller === true);
    if (uid === undefined || (owner !== undefined && owner.uid !== uid)) await this.remove(name);
  }

  /** Nothing of the peer is believed after this. */
  async remove(name: string): Promise<void> {
    this.#announcedMs.delete(name);
    const known = await this.#federations.get(name);
    if (known === undefined || !isOurs(known)) return;
    await this.#federations.delete(name, peeringWrites, { uid: known.metadata.uid });
  }
}

function isOurs(federation: SpiffeFederation): boolean {
  return federation.metadata.labels?.[peerLabel] !== undefined;
}

/** Values of labels are shorter than trust domains may be, and must not end in what those may end in. */
function labelOf(name: string): string {
  return name.slice(0, 63).replaceAll(/^[^a-z0-9]+|[^a-z0-9]+$/g, '');
}
