// Lists of resources: whole, selected, or in chunks of one consistent snapshot.

import { type FieldSelector, parseFieldSelector } from '../../api/selectors/field-selector.ts';
import type { Kind } from '../../api/kind.ts';
import { type LabelSelector, parseLabelSelector } from '../../api/selectors/label-selector.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import { apiVersion } from '../../api/object.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import type { Entry, Listing, Store } from '../../core/store/store.ts';
import { jsonSyntaxError } from '../../core/json/json-syntax-error.ts';
import { badRequest } from './errors.ts';
import { type ObjectDraft, objectOf } from './object-of.ts';
import type { ListOptions } from './options.ts';
import { parseResourceVersion } from './parameters.ts';

export interface Selection {
  readonly labels: LabelSelector | undefined;
  readonly fields: FieldSelector | undefined;
}

export function selectionOf(
  kind: Kind,
  options: { labelSelector: string; fieldSelector: string },
): Selection | undefined {
  const labels =
    options.labelSelector === '' ? undefined : parseLabelSelector(options.labelSelector);
  const fields =
    options.fieldSelector === '' ? undefined : parseFieldSelector(kind, options.fieldSelector);
  return labels === undefined && fields === undefined ? undefined : { labels, fields };
}

export function selects(selection: Selection, object: ObjectDraft): boolean {
  return (
    (selection.labels === undefined || selection.labels.matches(object.metadata.labels ?? {})) &&
    (selection.fields === undefined || selection.fields.matches(object))
  );
}

export interface Page {
  readonly entries: readonly Entry[];
  readonly revision: number;
  readonly continueToken: string | undefined;
  readonly remainingItemCount: number | undefined;
}

/** How long a chunked list stays consistent, as in kube-apiserver with its default compaction. */
const snapshotLifeMs = 5 * 60_000;
/** Bounds the number of snapshots that clients can create. Each holds only references to entries. */
const maxSnapshots = 64;

interface Snapshot {
  readonly listing: Listing;
  readonly expiresAt: number;
}

export class Lister {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #snapshots = new Map<string, Snapshot>();
  readonly #bodies = new WeakMap<readonly Entry[], { revision: number; body: Buffer }>();

  readonly #live = new WeakMap<object, { readonly entry: Entry; readonly bytes: Buffer }>();

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  page(kind: Kind, options: ListOptions, selection: Selection | undefined): Page {
    if (options.continueToken !== '') return this.#next(kind, options, selection);
    const listing = this.#listingFor(kind, options);
    return this.#cut(kind, listing, listing.revision, '', options.limit, selection);
  }

  #listingFor(kind: Kind, options: ListOptions): Listing {
    const listing = this.#store.list(kind.plural);
    if (options.resourceVersion === '' || options.resourceVersion === '0') return listing;
    const wanted = listVersion(options.resourceVersion);
    if (wanted > this.#store.revision) throw tooLargeVersion(wanted, this.#store.revision);
    const exact =
      options.resourceVersionMatch === 'Exact' ||
      (options.limit > 0 && options.resourceVersionMatch === '');
    if (!exact || wanted === this.#store.revision) return listing;
    const snapshot = this.#snapshots.get(`${kind.plural}@${wanted}`);
    if (snapshot === undefined)
      throw expired('The resourceVersion for the provided list is too old.');
    return snapshot.listing;
  }

  #next(kind: Kind, options: ListOptions, selection: Selection | undefined): Page {
    const { revision, start } = parseContinue(options.continueToken);
    if (options.resourceVersion !== '' && options.resourceVersion !== '0') {
      throw badRequest('specifying resource version is not allowed when using continue');
    }
    // Revision -1: the client accepted an inconsistent remainder.
    if (revision === -1) {
      const listing = this.#store.list(kind.plural);
      return this.#cut(kind, listing, listing.revision, start, options.limit, selection);
    }
    const snapshot = this.#snapshots.get(`${kind.plural}@${revision}`);
    if (snapshot === undefined || snapshot.expiresAt < this.#clock.monotonic()) {
      throw new HansaError('HANSA_EXPIRED', continueExpired, {
        details: { continueToken: continueFrom(-1, start) },
      });
    }
    return this.#cut(kind, snapshot.listing, revision, start, options.limit, selection);
  }

  /** O(log n) to find the start, then O(items visited). */
  #cut(
    kind: Kind,
    listing: Listing,
    revision: number,
    start: string,
    limit: number,
    selection: Selection | undefined,
  ): Page {
    const { entries } = listing;
    const first = start === '' ? 0 : lowerBound(entries, start);
    if (limit <= 0) {
      const rest = first === 0 ? entries : entries.slice(first);
      return {
        entries:
          selection === undefined
            ? rest
            : rest.filter((entry) => selects(selection, objectOf(entry))),
        revision,
        continueToken: undefined,
        remainingItemCount: undefined,
      };
    }
    const chosen: Entry[] = [];
    let at = first;
    for (; at < entries.length && chosen.length < limit; at += 1) {
      const entry = entries[at] as Entry;
      if (selection === undefined || selects(selection, objectOf(entry))) chosen.push(entry);
    }
    if (at >= entries.length)
      return { entries: chosen, revision, continueToken: undefined, remainingItemCount: undefined };
    this.#keep(kind, revision, listing);
    return {
      entries: chosen,
      revision,
      continueToken: continueFrom(revision, (entries[at] as Entry).name),
      remainingItemCount: selection === undefined ? entries.length - at : undefined,
    };
  }

  #keep(kind: Kind, revision: number, listing: Listing): void {
    const now = this.#clock.monotonic();
    for (const [key, snapshot] of this.#snapshots) {
      if (snapshot.expiresAt >= now && this.#snapshots.size < maxSnapshots) break;
      this.#snapshots.delete(key);
    }
    const key = `${kind.plural}@${revision}`;
    // Deleted first, so that the map stays sorted by expiry.
    this.#snapshots.delete(key);
    this.#snapshots.set(key, { listing, expiresAt: now + snapshotLifeMs });
  }

  /**
   * The encoded body of a page. Cached for whole collections until an object changes, except for kinds
   * with facts, which change without an event.
   */
  jsonBody(kind: Kind, page: Page): Buffer {
    const known = kind.liveStatus === undefined ? this.#bodies.get(page.entries) : undefined;
    if (known !== undefined && known.revision === page.revision && page.continueToken === undefined)
      return known.body;
    const metadata = {
      continue: page.continueToken ?? '',
      ...(page.remainingItemCount === undefined
        ? {}
        : { remainingItemCount: page.remainingItemCount }),
      resourceVersion: String(page.revision),
    };
    const head = `{"apiVersion":"${apiVersion}","kind":"${kind.kind}List","metadata":${JSON.stringify(metadata)},"items":[`;
    const parts: Buffer[] = [Buffer.from(head)];
    page.entries.forEach((entry, index) => {
      if (index > 0) parts.push(comma);
      parts.push(this.#bytesOf(kind, entry));
    });
    parts.push(listEnd);
    const body = Buffer.concat(parts);
    if (page.continueToken === undefined && kind.liveStatus === undefined)
      this.#bodies.set(page.entries, { revision: page.revision, body });
    return body;
  }

  #bytesOf(kind: Kind, entry: Entry): Buffer {
    const facts =
      kind.liveStatus === undefined ? undefined : this.#store.facts.get(kind.plural, entry.name);
    if (facts === undefined) return entry.value;
    // Facts and entries are immutable: the same facts and entry give the same bytes.
    let known = this.#live.get(facts);
    if (known?.entry !== entry) {
      const object = withLiveStatus(kind, objectOf(entry), facts);
      known = { entry, bytes: Buffer.from(JSON.stringify(object)) };
      this.#live.set(facts, known);
    }
    return known.bytes;
  }
}

const comma = Buffer.from(',');
const listEnd = Buffer.from(']}\n');

function lowerBound(entries: readonly Entry[], name: string): number {
  const wanted = Buffer.from(name);
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (Buffer.compare(Buffer.from((entries[middle] as Entry).name), wanted) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function continueFrom(revision: number, start: string): string {
  return Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: revision, start })).toString(
    'base64url',
  );
}

function parseContinue(token: string): { revision: number; start: string } {
  const refuse = (why: string) =>
    badRequest(`invalid continue token: continue key is not valid: ${why}`);
  const bytes = Buffer.from(token, 'base64url');
  let value: Record<string, unknown> | null;
  try {
    value = parseBoundedJson(bytes) as Record<string, unknown> | null;
  } catch {
    throw refuse(jsonSyntaxError(bytes));
  }
  const { v, rv, start } = value ?? {};
  if (v !== 'meta.k8s.io/v1')
    throw refuse(
      `server does not recognize this encoded version ${typeof v === 'string' ? v : ''}`,
    );
  if (!Number.isSafeInteger(rv) || typeof start !== 'string' || start === '' || start.includes('/'))
    throw refuse(String(start));
  return { revision: rv as number, start };
}

function listVersion(text: string): number {
  try {
    return parseResourceVersion(text);
  } catch (error) {
    throw hasCode(error, 'HANSA_BAD_REQUEST')
      ? badRequest(`invalid resource version: ${error.message}`)
      : error;
  }
}

const continueExpired =
  'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.';

function expired(message: string): HansaError {
  return new HansaError('HANSA_EXPIRED', message);
}

export function tooLargeVersion(wanted: number, current: number): HansaError {
  return new HansaError(
    'HANSA_TIMEOUT',
    `Timeout: Too large resource version: ${wanted}, current: ${current}`,
    {
      details: {
        retryAfterSeconds: 1,
        causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      },
    },
  );
}
