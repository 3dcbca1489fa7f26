// Prints tables that the site returns (`as=Table`).

import type { Kind } from '../../api/kind.ts';
import type { Cli } from '../cli.ts';
import { qualifiedName } from '../input/kind-argument.ts';
import type { Table } from '../../core/plane/site-client.ts';
import { columnWidths, printable, renderRow } from '../../core/command/columns.ts';

export interface TableLayout {
  readonly wide: boolean;
  readonly headers: boolean;
  /** Set when several kinds are printed: names then include the kind. */
  readonly prefix: Kind | undefined;
}

/** Prints a table, and returns its column widths so that later rows can be aligned. */
export function printTable(
  cli: Pick<Cli, 'print'>,
  table: Table,
  layout: TableLayout,
  widths?: readonly number[],
): readonly number[] {
  const shown = table.columnDefinitions
    .map((column, index) => ({ column, index }))
    .filter(({ column }) => layout.wide || (column.priority ?? 0) === 0);
  const rows = table.rows.map((row) =>
    shown.map(({ index }) => {
      const text = cellText(row.cells[index]);
      return index === 0 && layout.prefix !== undefined ? qualifiedName(layout.prefix, text) : text;
    }),
  );
  const head = shown.map(({ column }) => column.name.toUpperCase());
  const all = layout.headers ? [head, ...rows] : rows;
  const used = widths ?? columnWidths(all);
  for (const row of all) cli.print(renderRow(row, used));
  return used;
}

function cellText(cell: unknown): string {
  if (cell === null || cell === undefined) return '<none>';
  return printable(typeof cell === 'string' ? cell : JSON.stringify(cell));
}
