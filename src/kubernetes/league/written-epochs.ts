// The epochs of the objects that leaders wrote into a member.

import { policyRecordKind } from '../../api/kinds/policy-record.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError, unreachable } from '../../core/kube/kube-errors.ts';
import { readListPage } from '../../core/kube/list-page.ts';
import type { WorkTime } from '../../core/limits/turns.ts';
import type { Reflector } from '../../core/kube/reflector/reflector.ts';
import { allEntities, isOwnEntity } from '../entities/compile-external-entities.ts';
import { mostRemembered } from '../fencing/epochs.ts';
import { epochOf } from '../fencing/fenced-writer.ts';
import { recordIn } from '../members/field-values.ts';
import { metaIn } from '../members/read-meta.ts';
import type { Member } from '../members/member.ts';
import { isImportService, isOwnImport } from '../mcs/import-marks.ts';
import { importsPath } from '../mcs/mcs-objects.ts';
import { managedByLabel, managers } from '../names.ts';
import type { ObjectMeta, Service } from '../objects.ts';
import { recordsPath } from '../policies/policy-records.ts';
import { isCopy } from '../services/compile-copy.ts';
import { isVmService } from '../vms/vm-marks.ts';

type Name = 'services' | 'slices' | 'policyRecords' | 'serviceImports' | 'externalEntities';

export type WrittenObjects = {
  readonly [name in Name]: Pick<Member[name], 'objects' | 'onChange'>;
};

interface Written {
  readonly metadata: ObjectMeta;
}

/** One collection of a member that sites write into. */
interface WrittenCollection {
  readonly kind: string;
  objects(): Iterable<Written>;
  onChange(listener: (old: Written | undefined, now: Written | undefined) => void): () => void;
}

/** A policy is not among them: each one that a site writes has a record, and only sites write records. */
function collectionsOf(member: WrittenObjects): readonly WrittenCollection[] {
  const { services, slices, policyRecords, serviceImports, externalEntities } = member;
  return [
    collectionOf('Service', services, isWrittenService),
    collectionOf('EndpointSlice', slices, isOurs),
    collectionOf(policyRecordKind.kind, policyRecords, () => true),
    collectionOf('ServiceImport', serviceImports, isOwnImport),
    collectionOf('ExternalEntity', externalEntities, isOwnEntity),
  ];
}

function collectionOf<T extends Written & KubeObject>(
  kind: string,
  cached: Pick<Reflector<T>, 'objects' | 'onChange'>,
  isWritten: (object: T) => boolean,
): WrittenCollection {
  return {
    kind,
    *objects() {
      for (const object of cached.objects()) if (isWritten(object)) yield object;
    },
    onChange: (listener) =>
      cached.onChange(({ old, new: now }) =>
        listener(old, now !== undefined && isWritten(now) ? now : undefined),
      ),
  };
}

/** The cached ones. */
export function* writtenObjects(member: WrittenObjects): Generator<Written, void> {
  for (const collection of collectionsOf(member)) yield* collection.objects();
}

const isWrittenService = (service: Service): boolean =>
  isCopy(service) || isVmService(service) || isImportService(service);

const isOurs = ({ metadata }: Written): boolean =>
  managers.some((one) => metadata.labels?.[managedByLabel] === one);

/** The highest epoch of the cached objects, and of those that were cached before, unless theirs was forged. */
export class HighestWritten {
  readonly #stops: readonly (() => void)[];
  #highest = 0;
  /** Epochs above all that sites remember, by object. */
  readonly #forged = new Map<string, number>();

  constructor(member: WrittenObjects) {
    this.#stops = collectionsOf(member).map((collection) => {
      const { kind } = collection;
      for (const object of collection.objects()) this.#see(kind, object);
      return collection.onChange((old, now) => {
        if (old !== undefined) this.#forged.delete(keyOf(kind, old));
        if (now !== undefined) this.#see(kind, now);
      });
    });
  }

  get epoch(): number {
    let highest = this.#highest;
    for (const epoch of this.#forged.values()) highest = Math.max(highest, epoch);
    return highest;
  }

  stop(): void {
    for (const stop of this.#stops) stop();
  }

  #see(kind: string, object: Written): void {
    const epoch = epochOf(object.metadata);
    if (epoch > mostRemembered) this.#forged.set(keyOf(kind, object), epoch);
    else this.#highest = Math.max(this.#highest, epoch);
  }
}

const keyOf = (kind: string, { metadata }: Written): string =>
  `${kind} ${metadata.namespace}/${metadata.name}`;

const labelSelector = `${managedByLabel} in (${managers.join(',')})`;
const collections: readonly Collection[] = [
  { path: '/api/v1/services', query: { labelSelector }, mayBeMissing: false },
  {
    path: '/apis/discovery.k8s.io/v1/endpointslices',
    query: { labelSelector },
    mayBeMissing: false,
  },
  { path: recordsPath, query: {}, mayBeMissing: true },
  { path: importsPath, query: {}, mayBeMissing: true },
  { path: allEntities, query: {}, mayBeMissing: true },
];

interface Collection {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /**
   * An older version of the site joined, or the cluster does not serve it: without the CRD, or without rights to
   * it. Its objects count by their epoch alone, which only sites can write.
   */
  readonly mayBeMissing: boolean;
}
/** Only metadata, which is a small part of a slice. */
const accept = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';
const pageSize = 250;
/** An endless list ends here. */
const maxPages = 400;
const maxPageBytes = 16 * 1024 * 1024;
const maxPageValues = 500_000;

/**
 * The highest epoch in the member now, by consistent reads. Caches are behind after a partition, and the next
 * leader must not repeat an epoch.
 */
export async function readHighestEpoch(
  client: Pick<KubeClient, 'request'>,
  time: WorkTime,
): Promise<number> {
  const found = await Promise.all(collections.map((each) => highestIn(client, time, each)));
  return Math.max(...found);
}

async function highestIn(
  client: Pick<KubeClient, 'request'>,
  time: WorkTime,
  { path, query, mayBeMissing }: Collection,
): Promise<number> {
  let highest = 0;
  let position: Readonly<Record<string, string>> = {};
  for (let count = 1; count <= maxPages; count++) {
    const response = await client.request({
      method: 'GET',
      path,
      query: { ...query, limit: String(pageSize), ...position },
      headers: { accept },
      maxBytes: maxPageBytes,
    });
    if (mayBeMissing && [403, 404].includes(response.status)) return 0;
    if (response.status !== 200) throw new KubeStatusError('member', `list ${path}`, response);
    const page = await readListPage(response.body, time, { maxValues: maxPageValues }, (item) => {
      const metadata = metaIn(recordIn(item)['metadata']);
      if (mayBeMissing || isOurs({ metadata })) highest = Math.max(highest, epochOf(metadata));
    });
    if (page === undefined) throw unreachable('member', 'protocol', `${path} is no list`);
    if (page.next === '') return highest;
    position = { continue: page.next };
  }
  throw unreachable('member', 'protocol', `the list ${path} does not end`);
}
