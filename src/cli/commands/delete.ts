// `hansa delete`: deletes objects by name, manifest or label, and waits for their finalizers.

import { Command } from 'commander';
import type { DeletionEffects, ObjectName } from '../../core/plane/command-line.ts';
import { HansaError, hasCode, toHansaError } from '../../core/errors/error.ts';
import type { Cli } from '../cli.ts';
import { parseTargets, qualifiedName } from '../input/kind-argument.ts';
import { loadManifests } from '../input/manifests.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { waitForAll } from './wait.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

interface DeleteOptions {
  readonly filename?: readonly string[];
  readonly selector?: string;
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly ignoreNotFound?: boolean;
  readonly wait: boolean;
  readonly output: OutputFormat;
}

interface DeletedObject {
  readonly kind: string;
  readonly name: string;
  readonly dryRun: boolean;
}

export function deleteCommand(cli: Cli): Command {
  return new Command('delete')
    .description('delete objects by name, by manifest or by label')
    .argument('[kind]', 'a kind, or KIND/NAME')
    .argument('[names...]', 'names of objects')
    .option('-f, --filename <path...>', 'delete the objects of these manifests')
    .option('-l, --selector <labels>', 'delete the objects with these labels')
    .option('--all', 'delete all objects of the kind')
    .option('--dry-run', 'validate on the site, but delete nothing')
    .option('--ignore-not-found', 'do not fail if an object does not exist')
    .option('--no-wait', 'do not wait for finalizers')
    .addOption(outputOption(['json', 'yaml', 'name']))
    .addHelpText(
      'after',
      `
The command asks before it deletes a peer, or more than one object. --yes skips the question.

Examples:
  hansa delete role auditors
  hansa delete -f role.yaml
  hansa delete rolebindings -l team=ops --yes`,
    )
    .action((kind: string | undefined, names: string[], options: DeleteOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        const doomed = await choose(cli, client, kind, names, options);
        if (doomed.length === 0) {
          cli.note('No objects match. Nothing was deleted.');
          return;
        }
        const effects = cli.planes.flatMap(({ deletion }) => deletion ?? []);
        const question = deleteQuestion(doomed, effects);
        if (question !== undefined && options.dryRun !== true) {
          for (const line of await cli.deletionNotes(client, doomed)) cli.note(line);
          await cli.confirm(command, question);
        }
        await deleteAll(cli, client, doomed, options);
      }),
    );
}

/** The question to ask first; undefined for one object whose deletion ends nothing else. */
export function deleteQuestion(
  doomed: readonly ObjectName[],
  effects: readonly DeletionEffects[],
): string | undefined {
  const ends = effects.flatMap(({ question }) => question?.(doomed) ?? []);
  if (doomed.length === 1 && ends.length === 0) return undefined;
  const list = doomed.map(({ kind, name }) => qualifiedName(kind, name)).join(', ');
  const what = doomed.length === 1 ? list : `${doomed.length} objects (${list})`;
  return [`Delete ${what}?`, ...ends].join(' ');
}

async function choose(
  cli: Cli,
  client: SiteClient,
  kind: string | undefined,
  names: readonly string[],
  options: DeleteOptions,
): Promise<ObjectName[]> {
  const selects = options.selector !== undefined || options.all === true;
  if (options.filename !== undefined) {
    if (kind !== undefined || selects) throw usageError('Give either -f or a kind, not both.');
    // In reverse: later objects may depend on earlier ones.
    return (await loadManifests(options.filename, cli)).toReversed();
  }
  if (kind === undefined) throw usageError('Name a kind and names, or manifests with -f.');
  const targets = parseTargets(cli.registry, [kind, ...names]);
  const [first] = targets;
  if (first === undefined) return [];
  if (first.name !== undefined) {
    if (selects) throw usageError('Give either names or a selector, not both.');
    return targets.map((target) => ({ kind: target.kind, name: target.name ?? '' }));
  }
  if (!selects) throw usageError('Give names, a selector with -l, or --all.');
  const list = await client.list(first.kind, { labelSelector: options.selector });
  return list.items.map((object) => ({ kind: first.kind, name: object.metadata.name }));
}

async function deleteAll(
  cli: Cli,
  client: SiteClient,
  doomed: readonly ObjectName[],
  options: DeleteOptions,
): Promise<void> {
  const held: ObjectName[] = [];
  const deleted: DeletedObject[] = [];
  const report = ({ kind, name }: ObjectName): void => {
    deleted.push({ kind: kind.kind, name, dryRun: options.dryRun === true });
    const named = qualifiedName(kind, name);
    if (options.output.format === 'name') cli.print(named);
    if (options.output.format === 'table') {
      cli.print(`${named} deleted${options.dryRun === true ? ' (dry run)' : ''}`);
    }
  };
  let failure: HansaError | undefined;
  for (const { kind, name } of doomed) {
    const named = qualifiedName(kind, name);
    try {
      const answer = await client.delete(kind, name, { dryRun: options.dryRun === true });
      const finalizers =
        answer.metadata?.deletionTimestamp === undefined ? [] : (answer.metadata.finalizers ?? []);
      if (finalizers.length > 0) {
        held.push({ kind, name });
        cli.note(`${named} waits for its finalizers: ${printable(finalizers.join(', '))}`);
      } else {
        report({ kind, name });
      }
    } catch (caught) {
      if (hasCode(caught, 'HANSA_NOT_FOUND') && options.ignoreNotFound === true) continue;
      const error = toHansaError(caught);
      if (error.code === 'HANSA_UNREACHABLE' || doomed.length === 1) throw caught;
      cli.note(`Cannot delete ${named}: ${printable(error.message, false)}   (${error.code})`);
      failure ??= error;
    }
  }
  if (options.wait && options.dryRun !== true) {
    for (const one of held) {
      await waitForAll(cli, client, [one], { goal: 'delete' }, undefined);
      report(one);
    }
  }
  const rendered = renderValue({ deleted }, options.output);
  if (rendered !== undefined) cli.print(rendered);
  if (failure !== undefined) throw new HansaError(failure, 'Not everything was deleted.');
}
