// Counts objects by state, for `hansa status` and `hansa doctor`. Pure.

export interface StateCounts {
  readonly total: number;
  /** The number of objects by state, the largest first: fresh, overdue, stale, … */
  readonly states: Readonly<Record<string, number>>;
}

export function countStates(states: readonly string[]): StateCounts {
  const counts = new Map<string, number>();
  for (const state of states) counts.set(state, (counts.get(state) ?? 0) + 1);
  const sorted = [...counts].toSorted(([, a], [, b]) => b - a);
  return { total: states.length, states: Object.fromEntries(sorted) };
}

/** In a few words: `12 (11 fresh, 1 stale)`. */
export function countsText({ total, states }: StateCounts): string {
  if (total === 0) return 'none';
  const parts = Object.entries(states).map(([state, number]) => `${number} ${state}`);
  return parts.length === 1 ? (parts[0] as string) : `${total} (${parts.join(', ')})`;
}
