// `hansa wait`: waits until objects meet a condition, or a timeout passes.

import { Command, Option } from 'commander';
import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { Cli } from '../cli.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { parseTargets, qualifiedName } from '../input/kind-argument.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { describeState, type Goal, isMet, parseGoal } from './wait-goal.ts';
import { follow } from '../output/watch-output.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

interface WaitOptions {
  readonly for: Goal;
  readonly timeout: number;
  readonly selector?: string;
  readonly output: OutputFormat;
}

interface WaitedFor {
  readonly kind: Kind;
  readonly name: string;
}

export function waitCommand(cli: Cli): Command {
  return new Command('wait')
    .description('wait until objects meet a condition')
    .argument('<kind>', 'a kind, or KIND/NAME')
    .argument('[names...]', 'names of objects')
    .requiredOption(
      '--for <goal>',
      'condition=TYPE[=STATUS], jsonpath={…}=VALUE, create, delete',
      parseGoal,
    )
    .addOption(
      new Option('--timeout <duration>', 'how long to wait')
        .argParser(parseDurationFlag)
        .default(30_000, '30s'),
    )
    .option('-l, --selector <labels>', 'all objects that now have these labels')
    .addOption(outputOption(['json', 'yaml', 'name']))
    .addHelpText(
      'after',
      `
The exit code is 9 (HANSA_CONDITION_NOT_MET) if the timeout passes first.

Examples:
  hansa wait site/site --for=condition=Ready
  hansa wait role auditors --for=delete --timeout=2m
  hansa wait site/site --for=jsonpath='{.status.trustDomain}'=lubeck.example`,
    )
    .action((kind: string, names: string[], options: WaitOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        const objects = await choose(cli, client, [kind, ...names], options.selector);
        const { format } = options.output;
        await waitForAll(
          cli,
          client,
          objects,
          options.for,
          options.timeout,
          ({ kind: of, name }) => {
            const named = qualifiedName(of, name);
            if (format === 'name') cli.print(named);
            if (format === 'table') cli.print(`${named} ${wordFor(options.for)}`);
          },
        );
        const met = objects.map(({ kind: of, name }) => ({ kind: of.kind, name }));
        const rendered = renderValue({ met }, options.output);
        if (rendered !== undefined) cli.print(rendered);
      }),
    );
}

async function choose(
  cli: Cli,
  client: SiteClient,
  words: readonly string[],
  selector: string | undefined,
): Promise<WaitedFor[]> {
  const targets = parseTargets(cli.registry, words);
  const [first] = targets;
  if (first?.name !== undefined) {
    return targets.map((target) => ({ kind: target.kind, name: target.name ?? '' }));
  }
  if (first === undefined || selector === undefined)
    throw usageError('Give names, or a selector with -l.');
  const list = await client.list(first.kind, { labelSelector: selector });
  if (list.items.length === 0) {
    throw new HansaError('HANSA_NOT_FOUND', `There are no ${first.kind.plural} with ${selector}.`);
  }
  return list.items.map((object) => ({ kind: first.kind, name: object.metadata.name }));
}

function wordFor(goal: Goal): string {
  return goal.goal === 'delete' ? 'deleted' : 'condition met';
}

/** Waits for all objects at once, with one timeout; without a timeout if `timeoutMs` is undefined. */
export async function waitForAll(
  cli: Cli,
  client: SiteClient,
  objects: readonly WaitedFor[],
  goal: Goal,
  timeoutMs: number | undefined,
  onMet: (object: WaitedFor) => void = () => undefined,
): Promise<void> {
  const deadline = new AbortController();
  const signal = AbortSignal.any([deadline.signal, cli.io.interruption()]);
  const timer =
    timeoutMs === undefined ? undefined : cli.io.clock.timer(timeoutMs, () => deadline.abort());
  try {
    const results = await Promise.allSettled(
      objects.map(async (object) => {
        await waitForOne(cli, client, object, goal, signal, timeoutMs ?? 0);
        onMet(object);
      }),
    );
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  } finally {
    timer?.cancel();
  }
}

async function waitForOne(
  cli: Cli,
  client: SiteClient,
  { kind, name }: WaitedFor,
  goal: Goal,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<void> {
  const fieldSelector = `metadata.name=${name}`;
  let last: Resource | undefined;
  while (!signal.aborted) {
    const list = await client.list(kind, { fieldSelector });
    [last] = list.items;
    if (isMet(goal, last)) return;
    // As in kubectl: waiting for the state of an object that does not exist is an error.
    if (last === undefined && goal.goal !== 'create') {
      throw new HansaError('HANSA_NOT_FOUND', `There is no ${qualifiedName(kind, name)}.`);
    }
    const { resourceVersion } = list.metadata;
    try {
      for await (const event of follow(cli, client, kind, {
        fieldSelector,
        resourceVersion,
        signal,
      })) {
        last = event.type === 'DELETED' ? undefined : (event.object as Resource);
        if (isMet(goal, last)) return;
      }
    } catch (error) {
      if (!hasCode(error, 'HANSA_EXPIRED')) throw error;
    }
  }
  cli.io.interruption().throwIfAborted();
  const named = qualifiedName(kind, name);
  throw new HansaError(
    'HANSA_CONDITION_NOT_MET',
    `Timed out after ${timeoutMs / 1000} s waiting for ${named}: ${printable(describeState(goal, last).replace(/\.$/, ''))}.`,
  );
}
