// `hansa get`: lists objects or shows them by name, and with --watch prints changes.

import { Command, Option } from 'commander';
import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import type { Cli } from '../cli.ts';
import { type ReadObjects, readObjects } from '../site/read-objects.ts';
import { parseTargets, qualifiedName, type Target } from '../input/kind-argument.ts';
import { outputOption, renderCustomColumns, renderValue } from '../output/output.ts';
import { type Compare, compareBy } from '../output/sort-by.ts';
import { printTable } from '../output/table-output.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { printObject, watchObjects, watchTable } from '../output/watch-output.ts';
import type { List, Selection, SiteClient, Table } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';

export interface GetOptions {
  readonly output: OutputFormat;
  readonly selector?: string;
  readonly fieldSelector?: string;
  readonly sortBy?: Compare;
  readonly watch?: boolean;
  readonly headers: boolean;
  readonly showManagedFields?: boolean;
}

export function getCommand(cli: Cli): Command {
  return new Command('get')
    .description('list objects of a kind, or show some by name')
    .argument('<kind>', 'a kind (roles, role, Role) or KIND/NAME')
    .argument('[names...]', 'names of objects')
    .option('-l, --selector <labels>', 'only objects with these labels: a=b,c!=d,e in (f,g),!h')
    .option('--field-selector <fields>', 'only objects with these fields: metadata.name=x')
    .addOption(
      new Option('--sort-by <path>', 'sort by this field: .metadata.creationTimestamp').argParser(
        compareBy,
      ),
    )
    .option('-w, --watch', 'then print changes until interrupted')
    .option('--no-headers', 'omit the line of headings')
    .option(
      '--show-managed-fields',
      'with json and yaml: show which field manager owns which field',
    )
    .addOption(outputOption())
    .addHelpText(
      'after',
      `
Examples:
  hansa get sites
  hansa get roles -l team=ops -o name
  hansa get role viewer -o yaml
  hansa get rolebindings -w
  hansa get federationpeers --sort-by .status.state
  hansa get workloadentries -o custom-columns=NAME:.metadata.name,ID:.spec.spiffeID
  hansa get site site -o jsonpath='{.status.trustDomain}'`,
    )
    .action((kind: string, names: string[], options: GetOptions, command: Command) => {
      const targets = parseTargets(cli.registry, [kind, ...names]);
      return cli.withClient(command, (client) => get(cli, client, targets, options));
    });
}

export async function get(
  cli: Cli,
  client: SiteClient,
  targets: readonly Target[],
  options: GetOptions,
): Promise<void> {
  const selection: Selection = {
    labelSelector: options.selector,
    fieldSelector: options.fieldSelector,
  };
  const named = targets.filter((target) => target.name !== undefined);
  const selects = options.selector !== undefined || options.fieldSelector !== undefined;
  if (named.length > 0 && selects) {
    throw usageError('Give either names or a selector, not both.');
  }
  if (options.watch === true) {
    const [only] = targets;
    if (only === undefined || targets.length > 1) {
      throw usageError('--watch follows one kind or one object at a time.');
    }
    if (options.sortBy !== undefined) {
      throw usageError('--watch prints changes as they arrive. Remove --sort-by.');
    }
    await watch(cli, client, only, selection, options);
    return;
  }
  const { format } = options.output;
  if (format === 'table' || format === 'wide') {
    await printTables(cli, client, targets, selection, options);
    return;
  }
  const found = await readObjects<Resource | List>(cli, targets, ({ kind, name }) =>
    name === undefined ? sortedList(client, kind, selection, options) : client.get(kind, name),
  );
  printObjects(cli, found, options);
  found.refuse();
}

async function sortedList(
  client: SiteClient,
  kind: Kind,
  selection: Selection,
  { sortBy }: GetOptions,
): Promise<List> {
  const list = await client.list(kind, selection);
  return sortBy === undefined ? list : { ...list, items: list.items.toSorted(sortBy) };
}

/** The rows of a table hold only names and text, so a list of the objects gives the order. */
async function sortedTable(
  client: SiteClient,
  { kind, name }: Target,
  selection: Selection,
  options: GetOptions,
): Promise<Table> {
  const table = await client.table(kind, name, name === undefined ? selection : {});
  if (options.sortBy === undefined || name !== undefined) return table;
  const { items } = await sortedList(client, kind, selection, options);
  const places = new Map(items.map((item, place) => [item.metadata.name, place]));
  const placeOf = (row: Table['rows'][number]): number =>
    places.get(row.object?.metadata?.name ?? '') ?? items.length;
  return { ...table, rows: table.rows.toSorted((a, b) => placeOf(a) - placeOf(b)) };
}

function printObjects(
  cli: Cli,
  { found }: ReadObjects<Resource | List>,
  options: GetOptions,
): void {
  if (options.output.format === 'name') {
    for (const { target, value } of found) {
      printNames(cli, target.kind, 'items' in value ? value.items : [value]);
    }
    return;
  }
  if (found.length === 0) return;
  if (options.output.format === 'custom-columns') {
    const items = found.flatMap(({ value }) => ('items' in value ? value.items : [value]));
    cli.print(renderCustomColumns(options.output.columns, items, options.headers));
    return;
  }
  const objects = found.map(({ value }) => value);
  const shown =
    options.showManagedFields === true ? objects : objects.map((value) => withoutManagers(value));
  // Several results become a List of mixed kinds, as in kubectl.
  const value =
    shown.length === 1
      ? shown[0]
      : {
          apiVersion: 'v1',
          kind: 'List',
          items: shown.flatMap((item) => ('items' in item ? item.items : [item])),
        };
  cli.print(renderValue(value, options.output) ?? '');
}

/** Without managedFields, which are long and rarely needed. */
function withoutManagers(found: Resource | List): Resource | List {
  if ('items' in found) {
    return { ...found, items: found.items.map((item) => withoutManagers(item) as Resource) };
  }
  const { managedFields: _managedFields, ...metadata } = found.metadata;
  return { ...found, metadata };
}

function printNames(cli: Cli, kind: Kind, objects: readonly Resource[]): void {
  for (const object of objects) cli.print(qualifiedName(kind, object.metadata.name));
}

async function printTables(
  cli: Cli,
  client: SiteClient,
  targets: readonly Target[],
  selection: Selection,
  options: GetOptions,
): Promise<void> {
  const wide = options.output.format === 'wide';
  const byKind = Map.groupBy(targets, (target) => target.kind);
  const several = byKind.size > 1;
  const gathered = await readObjects(cli, targets, (target) =>
    sortedTable(client, target, selection, options),
  );
  let first = true;
  for (const kind of byKind.keys()) {
    const tables = gathered.found.flatMap(({ target, value }) =>
      target.kind === kind ? [value] : [],
    );
    const [head] = tables;
    if (head === undefined) continue;
    if (!first) cli.print('');
    first = false;
    const rows = tables.flatMap((table) => table.rows);
    if (rows.length === 0) cli.note(`There are no ${kind.plural}.`);
    else
      printTable(
        cli,
        { ...head, rows },
        { wide, headers: options.headers, prefix: several ? kind : undefined },
      );
  }
  gathered.refuse();
}

async function watch(
  cli: Cli,
  client: SiteClient,
  target: Target,
  selection: Selection,
  options: GetOptions,
): Promise<void> {
  const { format } = options.output;
  const narrowed =
    target.name === undefined ? selection : { fieldSelector: `metadata.name=${target.name}` };
  const signal = cli.io.interruption();
  if (format === 'table' || format === 'wide') {
    const layout = { wide: format === 'wide', headers: options.headers, prefix: undefined };
    await watchTable(cli, client, target.kind, narrowed, layout, signal);
    return;
  }
  const { kind } = target;
  await watchObjects(cli, client, kind, narrowed, signal, ({ object }) => {
    const shown = options.showManagedFields === true ? object : withoutManagers(object);
    printObject(cli, kind, shown as Resource, options.output);
  });
}
