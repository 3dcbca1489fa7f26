// Rebuilds the state in memory from the rows of the database at start. Each row must fit the rows
// before it: the store rejects a truncated, mixed or edited database.

import { HansaError } from '../../errors/error.ts';
import { Collections } from './collections.ts';
import type { ChangeRow, Driver, FactRow, Foreign, Head } from '../driver.ts';
import { History } from './history.ts';
import { frontierBytes } from '../../merkle/tree.ts';
import { frontierOfEdges } from '../commit/subtree-hashes.ts';
import type { Change, Entry, LeaseState } from '../store.ts';

export interface Loaded {
  readonly head: Head;
  readonly collections: Collections;
  readonly history: History;
  readonly leases: readonly LeaseState[];
  readonly facts: readonly FactRow[];
}

export async function loadState(driver: Driver): Promise<Loaded> {
  const { head, leases, facts, edges } = await driver.open();
  checkFrontier(head, edges);
  const collections = new Collections();
  const history = new History(head.compactedRevision);
  let after = 0;
  for (;;) {
    const rows = await driver.readChanges(after);
    if (rows.length === 0) break;
    for (const row of rows) {
      const change = changeOfRow(collections, row);
      checkRow(head, row, change, after);
      if (row.revision > head.compactedRevision) history.push(change);
      collections.apply(change);
      after = row.revision;
    }
  }
  const last = Math.max(after, head.compactedRevision);
  if (last !== head.revision) throw gap(head.revision, last);
  return { head, collections, history, leases, facts };
}

/**
 * Above the compacted revision every change is there and names what it replaced; at and below it
 * only what is still current, or was when history begins.
 */
function checkRow(head: Head, row: ChangeRow, change: Change, after: number): void {
  const { revision } = row;
  if (revision > head.compactedRevision) {
    const expected = Math.max(after, head.compactedRevision) + 1;
    if (revision !== expected) throw gap(expected, revision);
    if (row.previous !== (change.previous?.revision ?? 0)) {
      throw corrupt(
        `the change at revision ${revision} replaced ${row.previous}, which is not there`,
      );
    }
  } else if (revision <= after || row.value === undefined || change.previous !== undefined) {
    throw corrupt(`the change at revision ${revision} should have been compacted`);
  }
}

export function changeOfRow(collections: Collections, row: ChangeRow): Change {
  const { collection, name, revision, value } = row;
  const previous = collections.get(collection, name);
  const entry: Entry | undefined =
    value === undefined ? undefined : { collection, name, revision, value };
  return { collection, name, revision, entry, previous };
}

/** Applies changes of other replicas, without a gap, up to their head. */
export function checkComplete(foreign: Foreign, seen: number): void {
  let expected = seen;
  for (const { revision } of foreign.changes)
    if (revision !== ++expected) throw gap(expected, revision);
  if (foreign.head.revision !== expected) throw gap(foreign.head.revision, expected);
}

function checkFrontier(head: Head, edges: readonly Buffer[]): void {
  const { treeSize, frontier } = head;
  if (frontier.byteLength !== frontierBytes(treeSize)) {
    throw corrupt(`the frontier does not fit an audit log of ${treeSize} records`);
  }
  if (!frontierOfEdges(edges).equals(frontier)) {
    throw corrupt(`the hashes of the audit log do not lead to its recorded frontier`);
  }
}

function gap(expected: number, found: number): HansaError {
  return corrupt(`expected a change of revision ${expected}, found ${found}`);
}

export function corrupt(what: string, cause?: unknown): HansaError {
  return new HansaError(
    'HANSA_STORE_CORRUPT',
    `Cannot use the store: ${what}. Restore it from a backup.`,
    cause === undefined ? {} : { cause },
  );
}
