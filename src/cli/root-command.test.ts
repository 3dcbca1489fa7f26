import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Command } from 'commander';
import { RootCommand } from './root-command.ts';
import { run } from './test-io.ts';

interface Parsed {
  readonly global: unknown;
  readonly own: unknown;
  readonly name: string | undefined;
}

/** `hansa [--context C] cluster add [--context C] [--kubeconfig F] [name]`. */
function parsed(...args: readonly string[]): Parsed {
  let found: Parsed | undefined;
  const add = new Command('add')
    .alias('register')
    .argument('[name]')
    .option('--context <name>')
    .option('--kubeconfig <file>')
    .action((name: string | undefined, options: { readonly context?: string }) => {
      found = { global: root.opts()['context'], own: options.context, name };
    });
  const list = new Command('list').action(() => {
    found = { global: root.opts()['context'], own: undefined, name: undefined };
  });
  const root = new RootCommand('hansa').option('--context <name>').option('-y, --yes');
  root.addCommand(new Command('cluster').addCommand(add).addCommand(list));
  for (const each of [root, add, list]) {
    each.exitOverride().configureOutput({ writeErr: () => undefined });
  }
  root.parse([...args], { from: 'user' });
  assert.ok(found);
  return found;
}

suite('an option that a command and hansa both have', () => {
  const cases: [args: string, expected: Parsed][] = [
    ['cluster add a --context k', { global: undefined, own: 'k', name: 'a' }],
    ['cluster add --context k a', { global: undefined, own: 'k', name: 'a' }],
    ['cluster add --context=k a', { global: undefined, own: 'k', name: 'a' }],
    ['cluster add a --yes --context k', { global: undefined, own: 'k', name: 'a' }],
    ['cluster add --kubeconfig f --context k a', { global: undefined, own: 'k', name: 'a' }],
    ['cluster register a --context k', { global: undefined, own: 'k', name: 'a' }],
    ['--context s cluster add a', { global: 's', own: undefined, name: 'a' }],
    ['--context=s cluster add a', { global: 's', own: undefined, name: 'a' }],
    ['cluster --context s add a', { global: 's', own: undefined, name: 'a' }],
    ['--context s cluster add a --context k', { global: 's', own: 'k', name: 'a' }],
    ['--yes --context s cluster add a --context k', { global: 's', own: 'k', name: 'a' }],
    ['--context add cluster add a --context k', { global: 'add', own: 'k', name: 'a' }],
    ['cluster add --context k -- --context', { global: undefined, own: 'k', name: '--context' }],
    ['cluster list --context s', { global: 's', own: undefined, name: undefined }],
  ];
  for (const [args, expected] of cases) {
    test(`hansa ${args}`, () => assert.deepEqual(parsed(...args.split(' ')), expected));
  }

  test('needs its value', () => {
    assert.throws(() => parsed('cluster', 'add', 'a', '--context'), /argument missing/);
  });
});

suite('hansa cluster add --context', () => {
  test('chooses the context of the kubeconfig, and no site', async () => {
    const { code, stderr } = await run(
      ['cluster', 'add', 'app1', '--kubeconfig', '/dev/null', '--context', 'kind'],
      { env: { HANSA_CONTEXT: 'nowhere' } },
    );
    assert.equal(code, 2);
    assert.match(stderr, /\/dev\/null/);
    assert.doesNotMatch(stderr, /context nowhere/);
  });

  test('says in its help how to choose the site', async () => {
    const { stdout } = await run(['cluster', 'add', '--help']);
    assert.match(stdout, /^ {2}--context <name> +its context/m);
    assert.match(
      stdout,
      /^--context after cluster add is the option above\. The global --context/m,
    );
    const { stdout: list } = await run(['cluster', 'list', '--help']);
    assert.doesNotMatch(list, /The global --context/);
  });

  test('has no second spelling', async () => {
    const { code, stderr } = await run(['cluster', 'add', 'app1', '--kube-context', 'kind']);
    assert.equal(code, 2);
    assert.match(stderr, /Unknown option '--kube-context'/);
  });
});
