// What the steps that change a SPIRE server share.

import type { Exclusions, Namespaces } from './excluded-entries.ts';
import type { Fetches } from './fetches.ts';
import type { SidecarRecord, SidecarRecords } from './sidecar-record.ts';
import type { Result, SpireApi } from './spire-api.ts';

export interface RecordStore {
  records(): SidecarRecords;
  /** Resolves when it is stored. */
  save(record: SidecarRecord): Promise<void>;
  /** Entries that lost trust domains, because their namespace may not federate. */
  exclusions(): Exclusions;
  /** Resolves when they are stored, or cannot be: that trust ends is more important than that it comes back. */
  saveExclusions(exclusions: Exclusions): Promise<void>;
}

export interface ApplyContext {
  readonly spire: SpireApi;
  readonly store: RecordStore;
  readonly fetches: Fetches;
  /** The namespaces whose entries may federate. */
  readonly namespaces: Namespaces;
  readonly now: () => number;
  /** Why something of this trust domain failed. */
  readonly failed: (trustDomain: string, why: string) => void;
}

export const timeOf = ({ now }: ApplyContext): string => new Date(now()).toISOString();

export function throwFirst(results: readonly Result[]): void {
  for (const result of results) if (result !== undefined) throw result;
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
