// Follows a collection until the user interrupts: list, then watch from that revision. When the stream
// ends, the watch resumes from the last revision; when that is too old, it lists again.

import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import { sleep } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Cli } from '../cli.ts';
import { qualifiedName } from '../input/kind-argument.ts';
import { renderCustomColumns, renderValue } from './output.ts';
import { printTable, type TableLayout } from './table-output.ts';
import type { Selection, SiteClient, Table, WatchEvent } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';

/** The delay before it reconnects. */
const reconnectDelayMs = 1000;

/**
 * Events from `resourceVersion` on. Reconnects when the stream ends. Throws HANSA_EXPIRED if the
 * caller must list again, and HANSA_UNREACHABLE if the site does not answer.
 */
export async function* follow(
  cli: Cli,
  client: SiteClient,
  kind: Kind,
  options: Selection & {
    readonly resourceVersion: string;
    readonly table?: boolean;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<WatchEvent<Resource | Table>, void> {
  let { resourceVersion } = options;
  while (!options.signal.aborted) {
    try {
      for await (const event of client.watch(kind, { ...options, resourceVersion })) {
        resourceVersion = event.object.metadata.resourceVersion ?? resourceVersion;
        if (event.type !== 'BOOKMARK') yield event;
      }
    } catch (error) {
      if (options.signal.aborted) return;
      if (!isCutOff(error)) throw error;
    }
    await sleep(cli.io.clock, reconnectDelayMs, options.signal).catch(() => undefined);
  }
}

/** A stream that broke is retried; a site that does not answer is not. */
function isCutOff(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ECONNRESET';
}

/**
 * Runs `round` (list, print, follow) until the user interrupts. Starts again when the site no longer
 * has the history that the round needs.
 */
async function untilInterrupted(signal: AbortSignal, round: () => Promise<void>): Promise<never> {
  for (;;) {
    try {
      await round();
    } catch (error) {
      if (!hasCode(error, 'HANSA_EXPIRED')) throw error;
    }
    signal.throwIfAborted();
  }
}

export function watchTable(
  cli: Cli,
  client: SiteClient,
  kind: Kind,
  selection: Selection,
  layout: TableLayout,
  signal: AbortSignal,
): Promise<never> {
  let { headers } = layout;
  let widths: readonly number[] | undefined;
  const show = (table: Table): void => {
    widths = printTable(cli, table, { ...layout, headers }, widths);
    headers = false;
  };
  return untilInterrupted(signal, async () => {
    const first = await client.table(kind, undefined, selection);
    if (first.rows.length > 0) show(first);
    else if (headers) cli.note(`There are no ${kind.plural} yet. Waiting for changes.`);
    const resourceVersion = first.metadata.resourceVersion ?? '0';
    const options = { ...selection, resourceVersion, table: true, signal };
    for await (const event of follow(cli, client, kind, options)) {
      // Later tables of a watch omit the column definitions.
      show({ ...(event.object as Table), columnDefinitions: first.columnDefinitions });
    }
  });
}

export function watchObjects(
  cli: Cli,
  client: SiteClient,
  kind: Kind,
  selection: Selection,
  signal: AbortSignal,
  show: (event: WatchEvent) => void,
): Promise<never> {
  return untilInterrupted(signal, async () => {
    const list = await client.list(kind, selection);
    for (const object of list.items) show({ type: 'ADDED', object });
    const { resourceVersion } = list.metadata;
    const options = { ...selection, resourceVersion, signal };
    for await (const event of follow(cli, client, kind, options)) show(event as WatchEvent);
  });
}

export function printObject(cli: Cli, kind: Kind, object: Resource, output: OutputFormat): void {
  if (output.format === 'name') {
    cli.print(qualifiedName(kind, object.metadata.name));
    return;
  }
  if (output.format === 'custom-columns') {
    cli.print(renderCustomColumns(output.columns, [object], false));
    return;
  }
  const text = renderValue(object, output) ?? '';
  cli.print(output.format === 'yaml' ? `---\n${text}` : text);
}
