// Lists of resources: whole, selected, or in chunks of one consistent snapshot.

import { type FieldSelector, parseFieldSelector } from '../../api/selectors/field-selector.ts';
import type { Kind } from '../../api/kind.ts';
import { type LabelSelector, parseLabelSelector } from '../../api/selectors/label-selector.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import { apiVersion } from '../../api/object.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { stepMs, type WorkTurns } from '../../core/limits/work-turns.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import type { Entry, Listing, Store } from '../../core/store/store.ts';
import { jsonSyntaxError } from '../../core/json/json-syntax-error.ts';
import type { AnswerBody } from '../http/answers.ts';
import { badRequest } from './errors.ts';
import { ListBody, listHead } from './list-body.ts';
import { type ObjectDraft, objectOf } from './object-of.ts';
import type { ListOptions } from './options.ts';
import { parseResourceVersion } from './parameters.ts';
import { WholeList } from './whole-list.ts';

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

/** `metadata` of a list. */
export function listMetadata({ continueToken, remainingItemCount, revision }: Page) {
  return {
    ...(continueToken === undefined ? {} : { continue: continueToken }),
    ...(remainingItemCount === undefined ? {} : { remainingItemCount }),
    resourceVersion: String(revision),
  };
}

/** How long a chunked list stays consistent, as in kube-apiserver with its default compaction. */
const snapshotLifeMs = 5 * 60_000;
/** Bounds the number of snapshots that clients can create. Each holds only references to entries. */
const maxSnapshots = 64;

interface Snapshot {
  readonly listing: Listing;
  readonly expiresAt: number;
}

/** Part of a listing, before it is cut into pages. */
interface Located {
  readonly listing: Listing;
  readonly revision: number;
  /** Index of the first entry. */
  readonly first: number;
}

export interface ListerParts {
  readonly store: Store;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly turns: WorkTurns;
}

export class Lister {
  readonly #store: Store;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #turns: WorkTurns;
  readonly #snapshots = new Map<string, Snapshot>();
  /** The newest body of each kind. */
  readonly #whole = new Map<string, WholeList>();
  readonly #live = new WeakMap<object, { readonly entry: Entry; readonly bytes: Buffer }>();

  constructor({ store, clock, turns }: ListerParts) {
    this.#store = store;
    this.#clock = clock;
    this.#turns = turns;
  }

  /** O(log n) to find the start. */
  page(kind: Kind, options: ListOptions): Page {
    const { listing, revision, first } = this.#locate(kind, options);
    const { entries } = listing;
    const end = options.limit > 0 ? first + options.limit : entries.length;
    const isWhole = first === 0 && end >= entries.length;
    const chosen = isWhole ? entries : entries.slice(first, end);
    return this.#cut(kind, listing, revision, chosen, end, true);
  }

  /** Looks at the objects in turns with the work for other users. */
  async select(
    kind: Kind,
    options: ListOptions,
    selection: Selection,
    user: string,
  ): Promise<Page> {
    const { listing, revision, first } = this.#locate(kind, options);
    const { entries } = listing;
    const limit = options.limit > 0 ? options.limit : entries.length;
    const chosen: Entry[] = [];
    let at = first;
    let end = entries.length;
    const name = selection.fields?.name;
    if (name !== undefined) {
      at = Math.max(first, lowerBound(entries, name));
      end = Math.min(end, at + 1);
    }
    const step = async (): Promise<boolean> => {
      const untilMs = this.#clock.monotonic() + stepMs;
      while (at < end && chosen.length < limit) {
        const entry = entries[at] as Entry;
        if (selects(selection, objectOf(entry))) chosen.push(entry);
        at += 1;
        if (at % lookEvery === 0 && this.#clock.monotonic() >= untilMs) return true;
      }
      return false;
    };
    while (await this.#turns.run(user, step));
    return this.#cut(kind, listing, revision, chosen, at < end ? at : entries.length, false);
  }

  #locate(kind: Kind, options: ListOptions): Located {
    if (options.continueToken !== '') return this.#next(kind, options);
    const listing = this.#listingFor(kind, options);
    return { listing, revision: listing.revision, first: 0 };
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

  #next(kind: Kind, options: ListOptions): Located {
    const { revision, start } = parseContinue(options.continueToken);
    if (options.resourceVersion !== '' && options.resourceVersion !== '0') {
      throw badRequest('specifying resource version is not allowed when using continue');
    }
    // Revision -1: the client accepted an inconsistent remainder.
    if (revision === -1) {
      const listing = this.#store.list(kind.plural);
      return { listing, revision: listing.revision, first: lowerBound(listing.entries, start) };
    }
    const snapshot = this.#snapshots.get(`${kind.plural}@${revision}`);
    if (snapshot === undefined || snapshot.expiresAt < this.#clock.monotonic()) {
      throw new HansaError('HANSA_EXPIRED', continueExpired, {
        details: { continueToken: continueFrom(-1, start) },
      });
    }
    const { listing } = snapshot;
    return { listing, revision, first: lowerBound(listing.entries, start) };
  }

  /** The page of `chosen`, after which the list continues at index `end`. */
  #cut(
    kind: Kind,
    listing: Listing,
    revision: number,
    chosen: readonly Entry[],
    end: number,
    countsRest: boolean,
  ): Page {
    const next = listing.entries[end];
    if (next === undefined)
      return { entries: chosen, revision, continueToken: undefined, remainingItemCount: undefined };
    this.#keep(kind, revision, listing);
    return {
      entries: chosen,
      revision,
      continueToken: continueFrom(revision, next.name),
      remainingItemCount: countsRest ? listing.entries.length - end : undefined,
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
   * The body of a page as JSON. All clients share that of a whole collection, except for kinds with facts,
   * which change without an event.
   */
  body(kind: Kind, page: Page): Buffer | AnswerBody {
    const { entries } = page;
    const headAt = (): string => {
      const metadata = { continue: '', ...listMetadata(page) };
      return listHead({ apiVersion, kind: `${kind.kind}List`, metadata }, 'items');
    };
    if (kind.liveStatus !== undefined || entries !== this.#store.list(kind.plural).entries)
      return new ListBody(this.#clock, headAt(), entries, (entry) => this.#bytesOf(kind, entry));
    let whole = this.#whole.get(kind.plural);
    if (whole?.entries !== entries) {
      whole?.retire();
      whole = new WholeList(entries);
      this.#whole.set(kind.plural, whole);
    }
    return whole.body(page.revision, headAt);
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

/** The clock is read for every eighth object only. */
const lookEvery = 8;

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
