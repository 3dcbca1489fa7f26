// The ConfigMaps of the contract between controller and sidecar, at the API server. The controller creates them.

import type { Clock, Random } from '../../core/clock/clock.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { Reflector } from '../../core/kube/reflector/reflector.ts';
import type { Log } from '../../core/log/log.ts';
import {
  keptMapName,
  parseStatusDocument,
  relationshipsKey,
  relationshipsMapName,
  type StatusDocument,
  statusKey,
  statusMapName,
} from '../spire-relationships/sidecar-contract.ts';
import { type ReadRelationships, readRelationships } from './read-relationships.ts';
import { type Exclusions, exclusionsText, readExclusions } from './excluded-entries.ts';
import type { SidecarMaps } from './sidecar.ts';
import {
  readRecords,
  recordKey,
  type SidecarRecord,
  type SidecarRecords,
} from './sidecar-record.ts';

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

export interface KubeMapsOptions {
  readonly kube: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** The request may have changed. */
  readonly changed: () => void;
}

/** Beside the records, whose keys are hashes. */
const exclusionsKey = 'excluded-entries.json';

export class KubeMaps implements SidecarMaps {
  readonly #options: KubeMapsOptions;
  readonly #reflector: Reflector<ConfigMap>;
  readonly #release: () => void;
  readonly #silence: () => void;
  #records: Map<string, SidecarRecord>;
  /** What the ConfigMap has. The records of this process are newer while it cannot be written. */
  readonly #stored: Map<string, SidecarRecord>;
  #exclusions: Exclusions;
  #report: StatusDocument | undefined;
  #read: { readonly text: unknown; readonly result: ReadRelationships } | undefined;

  /** Resolves when the sidecar's own ConfigMaps could be read. Rejects as KubeClient.get does. */
  static async open(options: KubeMapsOptions): Promise<KubeMaps> {
    const { kube, namespace } = options;
    const map = (name: string): Promise<ConfigMap> =>
      kube.get<ConfigMap>(kubePath`/api/v1/namespaces/${namespace}/configmaps/${name}`);
    const kept = await map(keptMapName);
    const status = await map(statusMapName);
    return new KubeMaps(
      options,
      readRecords(kept.data),
      readExclusions(kept.data?.[exclusionsKey]),
      parseStatusDocument(status.data?.[statusKey]),
    );
  }

  private constructor(
    options: KubeMapsOptions,
    records: SidecarRecords,
    exclusions: Exclusions,
    report: StatusDocument | undefined,
  ) {
    this.#options = options;
    this.#records = new Map(records);
    this.#stored = new Map(records);
    this.#exclusions = exclusions;
    this.#report = report;
    const { kube, namespace, clock, random, log } = options;
    this.#reflector = new Reflector<ConfigMap>({
      client: kube,
      cluster: 'own',
      path: kubePath`/api/v1/namespaces/${namespace}/configmaps`,
      // RBAC allows a list and a watch of one name only with this selector.
      fieldSelector: `metadata.name=${relationshipsMapName}`,
      clock,
      random,
      log,
    });
    this.#silence = this.#reflector.onChange(() => options.changed());
    this.#release = this.#reflector.acquire();
    void this.#reflector.synced().then(() => options.changed());
  }

  request(): ReadRelationships | undefined {
    if (!this.#reflector.isSynced) return undefined;
    const { namespace } = this.#options;
    const map = this.#reflector.byKey(`${namespace}/${relationshipsMapName}`);
    if (map === undefined) return { problem: `there is no ConfigMap ${relationshipsMapName}` };
    const text = map.data?.[relationshipsKey];
    if (this.#read === undefined || this.#read.text !== text) {
      this.#read = { text, result: readRelationships(text) };
    }
    return this.#read.result;
  }

  records(): SidecarRecords {
    return this.#records;
  }

  async save(record: SidecarRecord): Promise<void> {
    this.#records.set(record.trustDomain, record);
    const before = this.#stored.get(record.trustDomain);
    if (before !== undefined && JSON.stringify(before) === JSON.stringify(record)) return;
    try {
      await this.#patch(keptMapName, recordKey(record.trustDomain), record);
    } catch (error) {
      // The ConfigMap is full. To remove trust is more important than to restore it without a new bootstrap.
      if (!isFull(error) || record.bundle === undefined) throw error;
      const { bundle: _bundle, entries: _entries, ...rest } = record;
      this.#options.log.warn('cannot keep the bundle of a removed relationship', {
        trustDomain: record.trustDomain,
        error,
      });
      await this.#patch(keptMapName, recordKey(record.trustDomain), rest);
    }
    this.#stored.set(record.trustDomain, record);
  }

  exclusions(): Exclusions {
    return this.#exclusions;
  }

  async saveExclusions(exclusions: Exclusions): Promise<void> {
    const text = exclusionsText(exclusions);
    if (text === exclusionsText(this.#exclusions)) return;
    try {
      await this.#patchText(keptMapName, exclusionsKey, text);
    } catch (error) {
      if (!isFull(error)) throw error;
      this.#options.log.warn('cannot record entries that may not federate', { error });
    }
    this.#exclusions = exclusions;
  }

  report(): StatusDocument | undefined {
    return this.#report;
  }

  async saveReport(report: StatusDocument): Promise<void> {
    await this.#patch(statusMapName, statusKey, report);
    this.#report = report;
  }

  close(): void {
    this.#silence();
    this.#release();
  }

  #patch(name: string, key: string, value: unknown): Promise<void> {
    return this.#patchText(name, key, JSON.stringify(value));
  }

  async #patchText(name: string, key: string, text: string): Promise<void> {
    const { kube, namespace } = this.#options;
    const path = kubePath`/api/v1/namespaces/${namespace}/configmaps/${name}`;
    await kube.patch(path, { data: { [key]: text } });
  }
}

const isFull = (error: unknown): boolean =>
  error instanceof KubeStatusError && [413, 422].includes(error.status);
