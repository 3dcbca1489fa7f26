// Builds tables (meta.k8s.io/v1), which `kubectl get` prints as the server returns them.

import { humanDuration } from '../values/duration.ts';
import { compileJsonPath, type JsonPath } from '../selectors/json-path.ts';
import type { Column, Kind } from '../kind.ts';
import { parseTimestamp } from '../values/date-time.ts';
import { stringifyGo } from '../schema/go-text.ts';

export interface TableColumn {
  readonly name: string;
  readonly type: string;
  readonly format: string;
  readonly description: string;
  readonly priority: number;
}

export type Cell = string | number | boolean | null;

interface CompiledTable {
  readonly columns: readonly TableColumn[];
  readonly cells: readonly (Pick<Column, 'type' | 'counts' | 'cell'> & {
    readonly path: JsonPath;
  })[];
}

const compiled = new WeakMap<Kind, CompiledTable>();

/** What the columns of a kind are in its table and in its CRD: the declared ones, then AGE. */
export function printerColumns(kind: Kind): readonly Column[] {
  return [
    ...kind.columns,
    {
      name: 'Age',
      type: 'date',
      jsonPath: '.metadata.creationTimestamp',
      description: 'How long ago it was created.',
    },
  ];
}

function compile(kind: Kind): CompiledTable {
  let table = compiled.get(kind);
  if (table === undefined) {
    const columns = printerColumns(kind);
    table = {
      columns: [
        {
          name: 'Name',
          type: 'string',
          format: 'name',
          description: 'The name, unique among objects of this kind.',
          priority: 0,
        },
        ...columns.map((column) => ({
          name: column.name,
          type: column.type,
          format: '',
          description: column.description,
          priority: column.priority ?? 0,
        })),
      ],
      cells: columns.map((column) => ({ ...column, path: compileJsonPath(column.jsonPath) })),
    };
    compiled.set(kind, table);
  }
  return table;
}

/** `columnDefinitions` of the Table. */
export function tableColumns(kind: Kind): readonly TableColumn[] {
  return compile(kind).columns;
}

/** `cells` of one row. Ages count up to `nowMs`. */
export function tableRow(kind: Kind, object: unknown, nowMs: number): Cell[] {
  const { cells } = compile(kind);
  const row: Cell[] = [nameOf(object)];
  for (const column of cells) {
    row.push(column.cell?.(object as never) ?? cellOf(column, column.path(object), nowMs));
  }
  return row;
}

const namePath = compileJsonPath('.metadata.name');

function nameOf(object: unknown): string {
  const name = namePath(object);
  return typeof name === 'string' ? name : '';
}

/** A value that is not of the column's type shows as nothing. */
function cellOf(
  { type, counts }: Pick<Column, 'type' | 'counts'>,
  value: unknown,
  nowMs: number,
): Cell {
  if (value === undefined || value === null) return null;
  if (type === 'string') return typeof value === 'string' ? value : stringifyGo(value);
  if (type === 'integer') return typeof value === 'number' ? Math.trunc(value) : null;
  if (type === 'boolean') return typeof value === 'boolean' ? value : null;
  if (typeof value !== 'string') return null;
  return counts === 'down' ? leftUntil(value, nowMs) : ageOf(value, nowMs);
}

function ageOf(timestamp: string, nowMs: number): string {
  if (timestamp === '') return '<unknown>';
  const moment = parseTimestamp(timestamp);
  return moment === undefined ? '<invalid>' : humanDuration(nowMs - moment);
}

/** What is over shows as 0s: it is about to happen. */
function leftUntil(timestamp: string, nowMs: number): string {
  const moment = parseTimestamp(timestamp);
  return moment === undefined ? '<invalid>' : humanDuration(Math.max(moment - nowMs, 0));
}
