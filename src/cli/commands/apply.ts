// hansa apply: server-side apply of manifests.

import { isDeepStrictEqual } from 'node:util';
import { Command } from 'commander';
import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { Cli } from '../cli.ts';
import { errorText } from '../output/error-text.ts';
import { qualifiedName } from '../input/kind-argument.ts';
import { loadManifests, type Manifest } from '../input/manifests.ts';
import { outputOption, renderValue } from '../output/output.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

interface ApplyOptions {
  readonly filename: readonly string[];
  readonly dryRun?: boolean;
  readonly forceConflicts?: boolean;
  readonly fieldManager?: string;
  readonly output: OutputFormat;
}

interface Applied {
  readonly manifest: Manifest;
  readonly object: Resource;
  readonly what: 'created' | 'configured' | 'unchanged';
}

export function applyCommand(cli: Cli): Command {
  return new Command('apply')
    .description('make objects as manifests say (server-side apply)')
    .requiredOption('-f, --filename <path...>', 'files, folders, or - for standard input')
    .option('--dry-run', 'let the site check and answer, but change nothing')
    .option('--force-conflicts', 'take over fields that others manage')
    .option('--field-manager <name>', 'under which name fields are owned', 'hansa')
    .addOption(outputOption(['json', 'yaml', 'name', 'jsonpath']))
    .addHelpText(
      'after',
      `
Objects are applied in the order of the files. One that is refused does not stop the others; the
exit code is that of the first refusal.

Examples:
  hansa apply -f role.yaml
  hansa apply -f examples/access --dry-run
  generate-manifests | hansa apply -f -`,
    )
    .action(async (options: ApplyOptions, command: Command) => {
      const manifests = await loadManifests(options.filename, cli);
      await cli.withClient(command, (client) => applyAll(cli, client, manifests, options));
    });
}

async function applyAll(
  cli: Cli,
  client: SiteClient,
  manifests: readonly Manifest[],
  options: ApplyOptions,
): Promise<void> {
  const applied: Applied[] = [];
  const refused: { readonly error: HansaError; readonly kind: Kind }[] = [];
  const machine = options.output.format !== 'table' && options.output.format !== 'name';
  const before = readBefore(client, manifests);
  for (const manifest of manifests) {
    try {
      const result = await applyOne(client, manifest, await before(manifest), options);
      applied.push(result);
      if (!machine) cli.print(lineOf(result, options));
    } catch (caught) {
      if (!(caught instanceof HansaError)) throw caught;
      const error = caught;
      // A site that is gone refuses all the others too.
      if (error.code === 'HANSA_UNREACHABLE') throw error;
      refused.push({ error, kind: manifest.kind });
      const named = qualifiedName(manifest.kind, manifest.name);
      const text = `${manifest.where}: cannot apply ${named}: ${errorText(error)}`;
      // Said once where it is the only one.
      if (manifests.length === 1) {
        throw new HansaError(error, text + hintFor(error, manifest.kind), { cause: error });
      }
      cli.note(`${printable(text, false)}   (${error.code})`);
    }
  }
  if (machine) printAll(cli, applied, options.output);
  const [first] = refused;
  if (first !== undefined) {
    const count = `${refused.length} of ${manifests.length} objects were`;
    const hint = hintFor(first.error, first.kind);
    throw new HansaError(first.error, `${count} not applied.${hint}`);
  }
}

function hintFor({ code, details }: HansaError, { singular }: Kind): string {
  if (code === 'HANSA_CONFLICT') return ' To take the fields over: --force-conflicts.';
  if (code === 'HANSA_APPLY_MISMATCH') {
    return `. The fields that there are: hansa explain ${singular}.spec.`;
  }
  // A pattern says what is accepted to programs; the description of the field says it to people.
  const unreadable = details?.causes?.find(({ message }) => message.includes('should match'));
  const field = unreadable?.field?.replaceAll(/\[\d+\]/g, '') ?? '';
  return code === 'HANSA_INVALID' && /^spec(?:\.\w+)+$/.test(field)
    ? `. In words: hansa explain ${singular}.${field}.`
    : '';
}

type Before = (manifest: Manifest) => Promise<Resource | undefined>;

/** From here on a kind is listed once, instead of reading its objects one by one. */
const manyOfAKind = 10;

/** How objects were before, to tell what was changed from what was not. */
function readBefore(client: SiteClient, manifests: readonly Manifest[]): Before {
  const counts = Map.groupBy(manifests, ({ kind }) => kind);
  const lists = new Map<Kind, Promise<Map<string, Resource>>>();
  const listed = (kind: Kind): Promise<Map<string, Resource>> => {
    const list =
      lists.get(kind) ??
      client
        .list(kind)
        .then(({ items }) => new Map(items.map((item) => [item.metadata.name, item])));
    lists.set(kind, list);
    return list;
  };
  return async ({ kind, name }) => {
    try {
      if ((counts.get(kind)?.length ?? 0) < manyOfAKind) return await client.get(kind, name);
      return (await listed(kind)).get(name);
    } catch (error) {
      if (hasCode(error, 'HANSA_NOT_FOUND')) return undefined;
      // Who may apply need not be allowed to read; then a change cannot be told from none.
      if (hasCode(error, 'HANSA_FORBIDDEN')) return undefined;
      throw error;
    }
  };
}

async function applyOne(
  client: SiteClient,
  manifest: Manifest,
  before: Resource | undefined,
  options: ApplyOptions,
): Promise<Applied> {
  const { kind, name } = manifest;
  const { object, created } = await client.apply(kind, name, manifest.object, {
    dryRun: options.dryRun === true,
    force: options.forceConflicts === true,
    ...(options.fieldManager === undefined ? {} : { fieldManager: options.fieldManager }),
  });
  const same =
    options.dryRun === true
      ? isDeepStrictEqual(written(before), written(object))
      : before?.metadata.resourceVersion === object.metadata.resourceVersion;
  const what = created ? 'created' : same ? 'unchanged' : 'configured';
  return { manifest, object, what };
}

/**
 * What an apply would write. A dry run leaves the resourceVersion as it is, whatever it would
 * change; the status is never applied, and may move between the two reads.
 */
function written(object: Resource | undefined): unknown {
  const { status: _status, ...rest } = object ?? {};
  return rest;
}

function lineOf({ manifest, what }: Applied, options: ApplyOptions): string {
  const named = qualifiedName(manifest.kind, manifest.name);
  if (options.output.format === 'name') return named;
  return `${named} ${what}${options.dryRun === true ? ' (dry run)' : ''}`;
}

function printAll(cli: Cli, applied: readonly Applied[], output: OutputFormat): void {
  const objects = applied.map(({ object }) => object);
  if (objects.length === 0) return;
  const value =
    objects.length === 1 ? objects[0] : { apiVersion: 'v1', kind: 'List', items: objects };
  cli.print(renderValue(value, output) ?? '');
}
