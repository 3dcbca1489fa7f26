// Summarizes many objects for `hansa status`, `hansa doctor` and lists: how many are in which state, and
// what the operator can do. Pure.

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

/** One line per remedy, with the names that it is for. In a merged one, `placeholder` stands for the name. */
export function mergeTodos(
  rows: readonly { readonly name: string; readonly todo: string }[],
  placeholder: string,
): string[] {
  const alike = new Map<string, { readonly name: string; readonly todo: string }[]>();
  for (const row of rows) {
    if (row.todo === '') continue;
    const words = row.todo.replaceAll(row.name, placeholder);
    alike.set(words, [...(alike.get(words) ?? []), row]);
  }
  return [...alike].map(([words, [first, ...others]]) => {
    const names = [first, ...others].map((row) => row?.name).join(', ');
    return `${names}: ${others.length === 0 ? first?.todo : words}`;
  });
}
