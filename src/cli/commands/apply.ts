// `hansa apply`: server-side apply of manifests.

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
    .description('create or change objects from manifests (server-side apply)')
    .requiredOption('-f, --filename <path...>', 'files, folders, or - for standard input')
    .option('--dry-run', 'validate on the site, but change nothing')
    .option('--force-conflicts', 'take over fields that other field managers own')
    .option('--field-manager <name>', 'the field manager that will own the fields', 'hansa')
    .addOption(outputOption(['json', 'yaml', 'name', 'jsonpath']))
    .addHelpText(
      'after',
      `
Objects are applied in the order of the files. If the site rejects one, the others are still applied.
The exit code is that of the first error.

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
      // If the site is unreachable, the other objects fail too.
      if (error.code === 'HANSA_UNREACHABLE') throw error;
      refused.push({ error, kind: manifest.kind });
      const named = qualifiedName(manifest.kind, manifest.name);
      const text = `${manifest.where}: cannot apply ${named}: ${errorText(error)}`;
      // With a single object, the error itself is the only message.
      if (manifests.length === 1) {
        throw new HansaError(error, withHint(text, error, manifest.kind), { cause: error });
      }
      cli.note(`${printable(text, false)}   (${error.code})`);
    }
  }
  if (machine) printAll(cli, applied, options.output);
  const [first] = refused;
  if (first !== undefined) {
    const count = `${refused.length} of ${manifests.length} objects were`;
    throw new HansaError(first.error, withHint(`${count} not applied.`, first.error, first.kind));
  }
}

function withHint(text: string, error: HansaError, kind: Kind): string {
  const hint = hintFor(error, kind);
  return hint === undefined ? text : `${text.replace(/\.$/, '')}. ${hint}`;
}

function hintFor({ code, details }: HansaError, { singular }: Kind): string | undefined {
  if (code === 'HANSA_CONFLICT') return 'To take over the fields, add --force-conflicts.';
  if (code === 'HANSA_APPLY_MISMATCH') {
    return `To list the fields: hansa explain ${singular}.spec.`;
  }
  // A regular expression is hard to read. The description of the field says the same in words.
  const unreadable = details?.causes?.find(({ message }) => message.includes('should match'));
  const field = unreadable?.field?.replaceAll(/\[\d+\]/g, '') ?? '';
  return code === 'HANSA_INVALID' && /^spec(?:\.\w+)+$/.test(field)
    ? `To see what the field accepts: hansa explain ${singular}.${field}.`
    : undefined;
}

type Before = (manifest: Manifest) => Promise<Resource | undefined>;

/** From this number of objects on, one list of the kind replaces single reads. */
const manyOfAKind = 10;

/** Reads objects as they are before the apply, to tell `configured` from `unchanged`. */
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
      // A caller may have the right to apply but not to read. Every apply then counts as a change.
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
  const { kind, name, complete } = manifest;
  const wanted = (await complete?.(client)) ?? manifest.object;
  const { object, created } = await client.apply(kind, name, wanted, {
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
 * The part of an object that an apply writes. A dry run does not change the resourceVersion, so the
 * contents are compared, without the status, which can change between the two reads.
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
