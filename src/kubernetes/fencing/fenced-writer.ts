// Writes into a member in one term of its leader. Every object carries the epoch of the term, and no
// write overtakes a newer one: replacing and deleting need the version that was read.

import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { deletingAnnotation, epochAnnotation } from '../names.ts';
import type { ObjectMeta } from '../objects.ts';

export type WritingClient = Pick<KubeClient, 'create' | 'replace' | 'delete'>;

export interface Written extends KubeObject {
  readonly metadata: ObjectMeta;
}

/** The epoch that an object carries; 0 where it carries none, or what is not one. */
export function epochOf({ annotations }: Pick<ObjectMeta, 'annotations'>): number {
  const text = annotations?.[epochAnnotation] ?? '';
  const epoch = /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : 0;
  return Number.isSafeInteger(epoch) ? epoch : 0;
}

export class FencedWriter {
  readonly #client: WritingClient;
  readonly #epoch: number;

  constructor(client: WritingClient, epoch: number) {
    this.#client = client;
    this.#epoch = epoch;
  }

  /** Rejects with a KubeStatusError 409 where it exists. */
  create<T extends Written>(collection: string, object: T): Promise<T> {
    return this.#client.create<T>(collection, this.#marked(object, {}));
  }

  /** `live` is the version that this replaces. Rejects with 409 where it changed meanwhile. */
  async replace<T extends Written>(path: string, object: T, live: T): Promise<T> {
    this.#check(path, live);
    const { uid, resourceVersion } = live.metadata;
    const metadata = { ...object.metadata, uid, resourceVersion };
    return this.#client.replace<T>(path, this.#marked({ ...object, metadata }, {}));
  }

  /** Marks it with the epoch first: admission refuses deletions of objects without a current mark. */
  async remove(path: string, live: Written): Promise<void> {
    this.#check(path, live);
    const epoch = String(this.#epoch);
    const marked =
      live.metadata.annotations?.[deletingAnnotation] === epoch
        ? live
        : await this.#client.replace<Written>(
            path,
            this.#marked(live, { [deletingAnnotation]: epoch }),
          );
    const { uid, resourceVersion } = marked.metadata;
    await this.#client.delete(path, { uid, resourceVersion });
  }

  #marked<T extends Written>(object: T, annotations: Readonly<Record<string, string>>): T {
    const { metadata } = object;
    return {
      ...object,
      metadata: {
        ...metadata,
        annotations: {
          ...metadata.annotations,
          ...annotations,
          [epochAnnotation]: String(this.#epoch),
        },
      },
    };
  }

  /** Admission refuses this too, but older clusters have no such policies. */
  #check(path: string, { metadata }: Written): void {
    const found = epochOf(metadata);
    if (found <= this.#epoch) return;
    throw new HansaError(
      'HANSA_FENCED',
      `Cannot change ${path}: it was written in term ${found}, and this is term ${this.#epoch}.`,
    );
  }
}
