import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Command } from 'commander';
import type { Plane } from '../../core/plane/plane.ts';
import { allPlanes } from '../../test-planes.ts';
import { createCli } from '../cli.ts';
import { completionWords, nameLists } from './completion.ts';
import { outputFormatsOf } from '../output/output.ts';
import { processIo } from '../process-io.ts';
import { createProgram } from '../program.ts';
import { run } from '../test-io.ts';

const program = createProgram(createCli(processIo(), { planes: allPlanes, version: '1' }));

/** The command at a path such as `peer list`, and what is left of it. */
function follow(words: readonly string[]): { command: Command; rest: readonly string[] } {
  let command: Command = program;
  for (const [index, word] of words.entries()) {
    const child = command.commands.find((each) => each.name() === word);
    if (child === undefined) return { command, rest: words.slice(index) };
    command = child;
  }
  return { command, rest: [] };
}

suite('completion of names', () => {
  for (const [taker, list] of nameLists(allPlanes)) {
    test(`of "${taker}" is for a command or a flag that exists, by a list with -o name`, () => {
      const { command, rest } = follow(taker.split(' '));
      if (rest.length === 0) assert.ok(command.registeredArguments.length > 0, 'it takes a name');
      else assert.ok(command.options.some(({ long }) => long === rest[0]));
      const lists = follow(list.split(' '));
      const formats = lists.command.options.flatMap((option) => outputFormatsOf(option) ?? []);
      assert.ok(formats.includes('name'), `${list} -o name`);
    });
  }

  test('is offered for the commands of every plane', () => {
    const sample: Plane = {
      name: 'sample',
      kinds: [],
      commands: () => [new Command('cluster').addCommand(new Command('show').argument('<name>'))],
      names: new Map([['cluster show', 'cluster list']]),
      start: async () => assert.fail('no site is started'),
    };
    const root = createProgram(createCli(processIo(), { planes: [sample], version: '1' }));
    const words = completionWords(root, [], nameLists([sample]));
    assert.equal(words.find(({ path }) => path === 'cluster show')?.listedBy, 'cluster list');
  });
});

test('an option of a command that replaces a global one is offered once', async () => {
  const words = completionWords(program, [], nameLists(allPlanes));
  const add = words.find(({ path }) => path === 'cluster add');
  const named = add?.flags.filter(({ name }) => name === '--context') ?? [];
  assert.deepEqual(
    named.map(({ listedBy, description }) => ({ listedBy, description })),
    [{ listedBy: undefined, description: 'its context (default: the current one)' }],
  );
  assert.deepEqual(add?.replaced, ['--context']);
  const { stdout } = await run(['completion', 'bash']);
  assert.match(stdout, /^ {6}'cluster add\/--context'\) before= && continue ;;$/m);
});

test('global options are completed after every command', async () => {
  const words = completionWords(program, [], new Map());
  for (const { path, flags } of words) {
    const names = flags.map(({ name }) => name);
    assert.ok(names.includes('--data-dir') && names.includes('--yes'), path);
  }
  const { stdout } = await run(['completion', 'bash']);
  assert.match(stdout, /--token-file/);
});
