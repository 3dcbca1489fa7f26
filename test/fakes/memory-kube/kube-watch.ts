// One open watch of the in-memory API server: which changes it sends, and as which events.

import type { StoredChange } from './memory-etcd.ts';
import type { StoredObject } from './stored-object.ts';

/** Where the lines of a watch go. */
export interface WatchSink {
  line(text: string): void;
  /** `reset`: the connection broke, and what was not read yet is lost. */
  end(how: 'end' | 'reset'): void;
}

export interface WatchSelection {
  /** Of the keys in the database. */
  readonly prefix: string;
  readonly apiVersion: string;
  readonly kind: string;
  matches(object: StoredObject): boolean;
}

export class KubeWatch {
  /** It sends changes with a higher revision only. A future one skips all changes up to it. */
  readonly after: number;
  /** Sends nothing more, and does not end. */
  isDeaf = false;
  readonly wantsBookmarks: boolean;
  readonly #selection: WatchSelection;
  readonly #sink: WatchSink;
  readonly #closed: () => void;
  #isOver = false;

  constructor(
    after: number,
    wantsBookmarks: boolean,
    selection: WatchSelection,
    sink: WatchSink,
    closed: () => void,
  ) {
    this.after = after;
    this.wantsBookmarks = wantsBookmarks;
    this.#selection = selection;
    this.#sink = sink;
    this.#closed = closed;
  }

  selects(key: string): boolean {
    return key.startsWith(this.#selection.prefix);
  }

  /** An object that begins or ceases to match comes and goes for this watch. */
  change({ revision, key, old, new: now }: StoredChange): void {
    if (revision <= this.after || !this.selects(key)) return;
    const was = old !== undefined && this.#selection.matches(old);
    const is = now !== undefined && this.#selection.matches(now);
    if (is) this.event(was ? 'MODIFIED' : 'ADDED', now);
    else if (was) this.event('DELETED', withVersion(old, revision));
  }

  /** Says which version it has reached. */
  bookmark(revision: number, annotations: Readonly<Record<string, string>> = {}): void {
    const { apiVersion, kind } = this.#selection;
    const metadata = { resourceVersion: String(revision), creationTimestamp: null, annotations };
    this.event('BOOKMARK', { apiVersion, kind, metadata });
  }

  event(type: string, object: unknown): void {
    this.text(`${JSON.stringify({ type, object })}\n`);
  }

  text(line: string): void {
    if (!this.#isOver && !this.isDeaf) this.#sink.line(line);
  }

  /** Idempotent. */
  end(how: 'end' | 'reset' = 'end'): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closed();
    this.#sink.end(how);
  }
}

/** A deleted object has the version of its deletion. */
function withVersion(object: StoredObject, revision: number): StoredObject {
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
}
