import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Command } from 'commander';
import type { Plane } from '../core/plane/plane.ts';
import { mergeCommands } from './merge-commands.ts';
import { run } from './test-io.ts';

const leaf = (name: string): Command => new Command(name).action(() => undefined);
const group = (name: string, ...children: readonly string[]): Command => {
  const made = new Command(name);
  for (const child of children) made.addCommand(leaf(child));
  return made;
};
const namesOf = (command: Command | undefined): string[] =>
  (command?.commands ?? []).map((child) => child.name());

/** A plane that has nothing but commands. */
const plane = (name: string, ...commands: readonly (() => Command)[]): Plane => ({
  name,
  kinds: [],
  commands: () => commands.map((make) => make()),
  start: async () => assert.fail('no site is started'),
});

suite('commands of several planes', () => {
  test('stand beside each other in the order in which they were added', () => {
    const merged = mergeCommands([
      { owner: 'a', command: leaf('one') },
      { owner: 'b', command: leaf('two') },
    ]);
    assert.deepEqual(
      merged.map((command) => command.name()),
      ['one', 'two'],
    );
  });

  test('of one group are merged, also in groups below it', () => {
    const below = (child: string): Command =>
      new Command('cluster').addCommand(group('token', child));
    const [cluster, ...others] = mergeCommands([
      { owner: 'a', command: below('create') },
      { owner: 'b', command: below('delete') },
      { owner: 'c', command: group('cluster', 'list') },
    ]);
    assert.deepEqual(others, []);
    assert.deepEqual(namesOf(cluster), ['token', 'list']);
    assert.deepEqual(namesOf(cluster?.commands[0]), ['create', 'delete']);
  });

  test('get the description of the plane that describes their group', () => {
    const [cluster] = mergeCommands([
      { owner: 'a', command: group('cluster', 'check') },
      { owner: 'b', command: group('cluster', 'list').description('clusters of this site') },
    ]);
    assert.equal(cluster?.description(), 'clusters of this site');
    assert.deepEqual(namesOf(cluster).toSorted(), ['check', 'list']);
  });

  test('get the description of a group below from another plane than that of the group', () => {
    const [cluster] = mergeCommands([
      {
        owner: 'a',
        command: new Command('cluster')
          .description('clusters of this site')
          .addCommand(leaf('list'))
          .addCommand(group('token', 'create')),
      },
      {
        owner: 'b',
        command: new Command('cluster').addCommand(
          group('token', 'delete').description('tokens of clusters'),
        ),
      },
    ]);
    assert.deepEqual(namesOf(cluster), ['list', 'token']);
    assert.equal(cluster?.commands[1]?.description(), 'tokens of clusters');
    assert.deepEqual(namesOf(cluster?.commands[1]).toSorted(), ['create', 'delete']);
  });

  test('must not have the same path', () => {
    assert.throws(
      () =>
        mergeCommands([
          { owner: 'the plane a', command: group('cluster', 'list') },
          { owner: 'the plane b', command: group('cluster', 'list') },
        ]),
      { message: /"hansa cluster list": the plane a and the plane b both add it/ },
    );
  });

  test('must not turn the command of another plane into a group', () => {
    assert.throws(
      () =>
        mergeCommands([
          { owner: 'the plane a', command: leaf('cluster') },
          { owner: 'the plane b', command: group('cluster', 'list') },
        ]),
      { message: /"hansa cluster": the plane a and the plane b both add it/ },
    );
  });
});

suite('hansa with two planes that add to one group', () => {
  test('shows the commands of both in the help of the group', async () => {
    const planes = [
      plane('auth', () => group('cluster', 'login').description('clusters of this site')),
      plane('kubernetes', () => group('cluster', 'join')),
    ];
    const { code, stdout } = await run(['cluster', '--help'], { planes });
    assert.equal(code, 0);
    assert.match(stdout, /clusters of this site/);
    assert.match(stdout, /^ {2}login/m);
    assert.match(stdout, /^ {2}join/m);
  });

  test('does not start where both add the same command, and names the two', async () => {
    const planes = [
      plane('auth', () => group('cluster', 'list')),
      plane('kubernetes', () => group('cluster', 'list')),
    ];
    const { code, stdout, stderr } = await run(['version'], { planes });
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.match(
      stderr,
      /"hansa cluster list": the plane auth and the plane kubernetes both add it/,
    );
  });

  test('does not start where a plane adds a command that the command line has', async () => {
    const { code, stderr } = await run(['version'], { planes: [plane('auth', () => leaf('get'))] });
    assert.equal(code, 1);
    assert.match(stderr, /"hansa get": the command line and the plane auth both add it/);
  });
});
