// Writes into a member in one term of its leader. Every object carries the epoch of the term, no write
// overtakes a newer one, because replacing and deleting need the version that was read, and none is sent after
// the term ended.

import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import type { ReconcileContext } from '../../core/reconcile/controller.ts';
import { deletingAnnotation, epochAnnotation, termManager } from '../names.ts';
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

/** The term of a leader, as `Term` and `ReconcileContext` have it. */
export interface WritingTerm {
  readonly epoch: number;
  /** Asked right before each request. */
  readonly mayWrite: () => boolean;
}

/** A writer for one run of a controller. */
export function writerOf(
  client: WritingClient,
  { epoch = 0, mayWrite = () => true }: Pick<ReconcileContext, 'epoch' | 'mayWrite'>,
): FencedWriter {
  return new FencedWriter(client, { epoch, mayWrite });
}

/** All of these reject with HANSA_FENCED where the term is over, or the object is from a later one. */
export class FencedWriter {
  readonly #client: WritingClient;
  readonly #epoch: number;
  readonly #mayWrite: () => boolean;

  constructor(client: WritingClient, { epoch, mayWrite }: WritingTerm) {
    this.#client = client;
    this.#epoch = epoch;
    this.#mayWrite = mayWrite;
  }

  /** Rejects with a KubeStatusError 409 where it exists. */
  async create<T extends Written>(collection: string, object: T): Promise<T> {
    return this.#client.create<T>(collection, this.#marked(object, {}), this.#guard(collection));
  }

  /** `live` is the version that this replaces. Rejects with 409 where it changed meanwhile. */
  async replace<T extends Written>(path: string, object: T, live: T): Promise<T> {
    this.#check(path, live);
    const { uid, resourceVersion } = live.metadata;
    const metadata = { ...object.metadata, uid, resourceVersion };
    return this.#client.replace<T>(
      path,
      this.#marked({ ...object, metadata }, {}),
      this.#guard(path),
    );
  }

  /**
   * Only the status: the path of an object without /status. Its metadata, with the version that was read, stays
   * as it is, so the field manager carries the epoch.
   */
  async replaceStatus<T extends Written>(path: string, object: T): Promise<T> {
    return this.#client.replace<T>(`${path}/status`, object, {
      ...this.#guard(path),
      fieldManager: `${termManager}${this.#epoch}`,
    });
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
            this.#guard(path),
          );
    const { uid, resourceVersion } = marked.metadata;
    await this.#client.delete(path, { uid, resourceVersion }, this.#guard(path));
  }

  /** Asks now, and again right before the request leaves: it may wait for a connection. */
  #guard(path: string): { readonly beforeSend: () => void } {
    const beforeSend = (): void => {
      if (this.#mayWrite()) return;
      throw new HansaError('HANSA_FENCED', `Cannot write ${path}: term ${this.#epoch} is over.`);
    };
    beforeSend();
    return { beforeSend };
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
