// Searches the audit log. It checks the bytes of a record before it parses it: the canonical encoding
// has the time at a fixed place and every field as plain text, so most records need no parsing.

import type { AuditLog } from '../store/store.ts';
import { type AuditEvent, type AuditOutcome, parseEvent } from './event.ts';
import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';

export interface AuditFilter {
  /** The actor, or the user for whom it says it acts. */
  readonly user?: string;
  readonly verb?: string;
  readonly kind?: string;
  readonly name?: string;
  readonly outcome?: AuditOutcome;
  /** Events that concern the peer of this trust domain: by it, about it, or about a grant to it. */
  readonly peer?: string;
  /** Events at or after this time, in milliseconds since the Unix epoch. */
  readonly sinceMs?: number;
  /** Events before this time. */
  readonly untilMs?: number;
}

export interface AuditQuery extends AuditFilter {
  /** Most events per page. */
  readonly limit: number;
  /** Newest first from below this index; where the last page ended. Without it, from the newest. */
  readonly before?: number;
  /** Only events above this index, to follow the log. */
  readonly after?: number;
}

export interface AuditPage {
  /** Newest first. */
  readonly events: readonly AuditEvent[];
  /** Pass it as `before` for the next page; undefined at the beginning of the log. */
  readonly before: number | undefined;
  /** The number of events that it searched up to. Pass one less as `after` to get only later ones. */
  readonly size: number;
}

/** Rows per read, about 1 ms of work. Other tasks may run between reads. */
const chunkRows = 512;

/** Reads from the newest backwards until the limit is met: O(rows passed over). */
export async function queryLog(log: AuditLog, query: AuditQuery): Promise<AuditPage> {
  const matches = rowMatcher(query);
  const events: AuditEvent[] = [];
  const size = Math.min(query.before ?? log.size, log.size);
  let end = size;
  const least = query.after === undefined ? 0 : query.after + 1;
  while (end > least) {
    const start = Math.max(least, end - chunkRows);
    const rows = await readRange(log, start, end);
    for (let i = rows.length - 1; i >= 0; i--) {
      const event = matches(rows[i] as Buffer);
      if (event === undefined) continue;
      events.push(event);
      if (events.length >= query.limit) {
        const index = start + i;
        return { events, before: index === 0 ? undefined : index, size };
      }
    }
    end = start;
    await yieldToEventLoop();
  }
  return { events, before: undefined, size };
}

/** All rows of a range, however many reads they take. */
export async function readRange(log: AuditLog, start: number, end: number): Promise<Buffer[]> {
  const rows: Buffer[] = [];
  while (start + rows.length < end) {
    const more = await log.read(start + rows.length, end - start - rows.length);
    if (more.length === 0) break;
    rows.push(...more);
  }
  return rows;
}

/** The event of a row that matches, and undefined for others. */
function rowMatcher(filter: AuditFilter): (row: Buffer) => AuditEvent | undefined {
  const needles: Buffer[] = [];
  for (const key of ['user', 'verb', 'kind', 'name', 'outcome'] as const) {
    const value = filter[key];
    if (value !== undefined) needles.push(Buffer.from(`"${key}":${JSON.stringify(value)}`));
  }
  if (filter.peer !== undefined) needles.push(Buffer.from(filter.peer));
  const since = filter.sinceMs === undefined ? '' : isoTime(filter.sinceMs);
  const until = filter.untilMs === undefined ? '\uffff' : isoTime(filter.untilMs);
  return (row) => {
    // `{"time":"` has nine bytes, and times of this form sort as text.
    const time = row.toString('latin1', 9, 33);
    if (time < since || time >= until) return undefined;
    if (!needles.every((needle) => row.includes(needle))) return undefined;
    const event = parseEvent(row);
    const fits =
      (filter.user === undefined ||
        event.actor.user === filter.user ||
        event.claim?.user === filter.user) &&
      (filter.verb === undefined || event.verb === filter.verb) &&
      (filter.kind === undefined || event.kind === filter.kind) &&
      (filter.name === undefined || event.name === filter.name) &&
      (filter.outcome === undefined || event.outcome === filter.outcome) &&
      (filter.peer === undefined || concerns(event, filter.peer));
    return fits ? event : undefined;
  };
}

function concerns({ actor, claim, kind, name, peer }: AuditEvent, domain: string): boolean {
  return (
    peer === domain ||
    (name === domain && kind !== undefined && namedAfterPeer.has(kind)) ||
    [actor.user, claim?.user].some((user) => user?.startsWith(`spiffe://${domain}/`) === true)
  );
}

/** Kinds whose objects have the name of a trust domain. */
export const namedAfterPeer: ReadonlySet<string> = new Set(['FederationPeer', 'SPIFFEFederation']);

/** The indexes and rows of the events that match, oldest first. */
export async function* matchingRows(
  log: AuditLog,
  filter: AuditFilter,
  size: number,
): AsyncGenerator<{ readonly index: number; readonly row: Buffer }> {
  const matches = rowMatcher(filter);
  for (let start = 0; start < size; start += chunkRows) {
    const rows = await readRange(log, start, Math.min(start + chunkRows, size));
    for (const [i, row] of rows.entries()) {
      if (matches(row) !== undefined) yield { index: start + i, row };
    }
    await yieldToEventLoop();
  }
}

export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
