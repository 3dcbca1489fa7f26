// The credentials of all registered clusters: one source for each version of a Cluster.

import type { Cluster } from '../../../api/kinds/cluster.ts';
import type { Clock } from '../../clock/clock.ts';
import type { Sealer } from '../../store/sealing/sealer.ts';
import type { Store } from '../../store/store.ts';
import { CredentialFiles } from './credential-files.ts';
import { ClusterCredentialSource, type SourceParts } from './credential-source.ts';
import { SiteTokens, type SiteTokenParts } from './site-tokens.ts';
import { StoredCredentials } from './stored-credentials.ts';

export interface ClusterCredentialsOptions extends Omit<SiteTokenParts, 'clock'> {
  readonly store: Pick<Store, 'get' | 'commit'>;
  readonly sealer: Sealer;
  readonly clock: Clock;
  /** The setting auth.credentialsDir. */
  readonly folder: string | undefined;
  /** The setting auth.inClusterDir, and KUBERNETES_SERVICE_HOST. */
  readonly inCluster: { readonly folder: string; readonly host: string | undefined };
}

export class ClusterCredentials {
  readonly stored: StoredCredentials;
  readonly #parts: SourceParts;
  readonly #sources = new Map<
    string,
    { readonly uid: string; readonly generation: number; readonly source: ClusterCredentialSource }
  >();
  readonly #listeners = new Set<(cluster: string) => void>();

  constructor(options: ClusterCredentialsOptions) {
    const { store, sealer, clock, folder } = options;
    const { inCluster } = options;
    this.stored = new StoredCredentials(store, sealer);
    this.#parts = {
      clock,
      files: new CredentialFiles(folder, clock),
      stored: this.stored,
      siteTokens: new SiteTokens(options),
      inCluster: { files: new CredentialFiles(inCluster.folder, clock), host: inCluster.host },
      onRefused: (cluster) => {
        for (const listener of this.#listeners) listener(cluster);
      },
    };
  }

  /** The same one for the same version of the Cluster. */
  sourceOf({ metadata, spec }: Cluster): ClusterCredentialSource {
    const { name, uid, generation } = metadata;
    const known = this.#sources.get(name);
    if (known?.uid === uid && known.generation === generation) return known.source;
    const source = new ClusterCredentialSource({ metadata, spec }, this.#parts);
    this.#sources.set(name, { uid, generation, source });
    return source;
  }

  /** PEM of the authorities that sign the API server; undefined: the public ones. Read again after a change. */
  caOf(cluster: Cluster): string | undefined | Promise<string | undefined> {
    return this.sourceOf(cluster).authorities();
  }

  /** Drops what is kept about clusters that are not registered. Every replica calls it after a change. */
  retain(isRegistered: (cluster: string) => boolean): void {
    for (const name of this.#sources.keys()) if (!isRegistered(name)) this.#sources.delete(name);
  }

  /** Calls `listener` with the name of a cluster whose API server rejects its credential. Returns how to stop. */
  onRefused(listener: (cluster: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
