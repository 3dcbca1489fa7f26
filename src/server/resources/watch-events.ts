// Encodes the events of a watch. Each change is encoded once for all watchers.

import type { Kind } from '../../api/kind.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import { apiVersion } from '../../api/object.ts';
import type { HansaError } from '../../core/errors/error.ts';
import type { Change, Entry } from '../../core/store/store.ts';
import { statusOf } from '../http/status.ts';
import { type Selection, selects } from './lister.ts';
import { type ObjectDraft, objectOf, withRevision } from './object-of.ts';
import { type Form, type IncludeObject, partialMetadata, tableOf } from './present.ts';

export type EventType = 'ADDED' | 'MODIFIED' | 'DELETED';

const lines = new WeakMap<Change, Buffer>();
const lineEnd = Buffer.from('}\n');

/** For the common case: a watcher without a selector that wants JSON objects. */
export function plainLine(change: Change): Buffer {
  let line = lines.get(change);
  if (line === undefined) {
    line = objectLine(plainType(change), bytesOf(change));
    lines.set(change, line);
  }
  return line;
}

function plainType(change: Change): EventType {
  if (change.entry === undefined) return 'DELETED';
  return change.previous === undefined ? 'ADDED' : 'MODIFIED';
}

export function objectLine(type: EventType, object: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`{"type":"${type}","object":`), object, lineEnd]);
}

/** A deleted object has its last state, with the revision of the deletion. */
function objectIn(change: Change): ObjectDraft {
  if (change.entry !== undefined) return objectOf(change.entry);
  if (change.previous === undefined)
    throw new Error('A change without entry must have had one before.');
  return withRevision(objectOf(change.previous), change.revision);
}

function bytesOf(change: Change): Buffer {
  return change.entry?.value ?? Buffer.from(JSON.stringify(objectIn(change)));
}

/** Builds the lines of one watcher with its selector and form. */
export class EventLines {
  readonly #kind: Kind;
  readonly #selection: Selection | undefined;
  readonly #form: Form;
  readonly #include: IncludeObject;
  readonly #now: () => number;
  readonly #factsOf: (name: string) => Readonly<Record<string, unknown>> | undefined;
  #sentColumns = false;

  constructor(
    kind: Kind,
    selection: Selection | undefined,
    form: Form,
    include: IncludeObject,
    now: () => number,
    factsOf: (name: string) => Readonly<Record<string, unknown>> | undefined = () => undefined,
  ) {
    this.#factsOf = factsOf;
    this.#kind = kind;
    this.#selection = selection;
    this.#form = form;
    this.#include = include;
    this.#now = now;
  }

  /** Whether each line is one that all watchers share. */
  get arePlain(): boolean {
    return (
      this.#selection === undefined &&
      this.#form.as === 'object' &&
      this.#kind.liveStatus === undefined
    );
  }

  /** Undefined if the selector matches the object neither before nor after the change. */
  ofChange(change: Change): Buffer | undefined {
    if (this.#selection === undefined) {
      return this.#form.as === 'object' && this.#kind.liveStatus === undefined
        ? plainLine(change)
        : this.#line(plainType(change), objectIn(change), change.facts);
    }
    const was =
      change.previous !== undefined && selects(this.#selection, objectOf(change.previous));
    const is = change.entry !== undefined && selects(this.#selection, objectOf(change.entry));
    if (!was && !is) return undefined;
    if (was && is) return this.#line('MODIFIED', objectIn(change));
    // An object that no longer matches is DELETED for this watcher, in its last matching state.
    return is
      ? this.#line('ADDED', objectIn(change))
      : this.#line('DELETED', lastMatching(change), change.facts);
  }

  initial(entry: Entry): Buffer {
    return this.#form.as === 'object' && this.#kind.liveStatus === undefined
      ? objectLine('ADDED', entry.value)
      : this.#line('ADDED', objectOf(entry));
  }

  /** With the current facts, or the last facts of a deleted object. A change of facts is not an event. */
  #line(type: EventType, object: ObjectDraft, last?: Change['facts']): Buffer {
    const facts = last ?? this.#factsOf(object.metadata.name ?? '');
    const live = withLiveStatus(this.#kind, object, facts);
    return Buffer.from(`${JSON.stringify({ type, object: this.#present(live) })}\n`);
  }

  #present(object: ObjectDraft): unknown {
    if (this.#form.as === 'object') return object;
    if (this.#form.as === 'metadata') return partialMetadata(object);
    const withColumns = !this.#sentColumns;
    this.#sentColumns = true;
    return tableOf(this.#kind, object, {
      nowMs: this.#now(),
      include: this.#include,
      withColumns,
    });
  }

  bookmark(revision: number, endsInitial: boolean): Buffer {
    const metadata = {
      resourceVersion: String(revision),
      ...(endsInitial ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}),
    };
    const bare = { kind: this.#kind.kind, apiVersion, metadata };
    const object =
      this.#form.as === 'object'
        ? bare
        : this.#form.as === 'metadata'
          ? partialMetadata(bare)
          : {
              kind: 'Table',
              apiVersion: 'meta.k8s.io/v1',
              metadata,
              columnDefinitions: null,
              rows: [{ cells: [], object: partialMetadata(bare) }],
            };
    return Buffer.from(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
  }
}

function lastMatching(change: Change): ObjectDraft {
  if (change.previous === undefined) throw new Error('What matched before must have existed.');
  return withRevision(objectOf(change.previous), change.revision);
}

export function errorLine(error: HansaError): Buffer {
  return Buffer.from(`${JSON.stringify({ type: 'ERROR', object: statusOf(error) })}\n`);
}
