// Runs every command block of the README, and of the guide on one machine in the order of the pages. Each page builds
// on the state that earlier pages left.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { moduleFolder, whyNoCrds } from '../interop/module-crds.ts';
import { missingTools } from '../interop/tool.ts';
import { repository } from './daemon.ts';
import { commandsOf, type GuideCommand, missingLine } from './guide-page.ts';
import { GuideWorld } from './guide-world.ts';

const guide = join(repository, 'docs', 'guide');

/** In the order in which the list of contents names them. */
function pagesInOrder(): string[] {
  const contents = readFileSync(join(guide, 'README.md'), 'utf8');
  return [...contents.matchAll(/\]\(([a-z-]+\.md)\)/g)].map(([, name = '']) => name);
}

/** That a page needs. */
const clustersOf: Readonly<Record<string, readonly string[]>> = {
  'clusters.md': ['app1'],
  'league.md': ['north', 'south'],
};

const apart = spawnSync('unshare', ['--net', '--mount', '--pid', '--fork', 'true']).status === 0;
const skip = apart
  ? await missingTools('kubectl', 'spire-server', 'spire-agent', 'etcd', 'kube-apiserver')
  : 'namespaces are needed to run the guide, and this user may make none';

/** Commands of the README that ask a person, with what answers in their place. */
const answered: Readonly<Record<string, string>> = {
  './hansa peer invite --for bruges.example':
    './hansa peer invite --for bruges.example > invitation 2> said; cat invitation said; rm said',
  './hansa peer accept': './hansa peer accept --yes < invitation',
};
const asked = /^Invitation \(hidden\):$|^Accept\? \[y\/N\] y$/;

suite('the README', { skip }, () => {
  test('its commands work as it says, and leave nothing behind', async () => {
    const world = await GuideWorld.start();
    try {
      const given = readdirSync(world.folder);
      for (const command of commandsOf(readFileSync(join(repository, 'README.md'), 'utf8'))) {
        // The machine is set up already, and the demo has a test of its own.
        if (command.operator === '' || command.text.startsWith('make ')) continue;
        const text = answered[command.text] ?? command.text;
        const expected = command.expected.filter((line) => !asked.test(line));
        await tryOut(world, 'README.md', { ...command, text, expected });
      }
      const left = readdirSync(world.folder).filter((name) => !given.includes(name));
      assert.deepEqual(left, ['invitation']);
    } finally {
      await world.stop();
    }
  });
});

suite('the guide', { skip }, () => {
  let world: GuideWorld;
  let found: readonly string[] = [];
  before(async () => {
    world = await GuideWorld.start();
    found = readdirSync(world.folder);
  });
  after(() => world.stop());

  for (const name of pagesInOrder()) {
    const commands = commandsOf(readFileSync(join(guide, name), 'utf8'));
    const why = name === 'multi-cluster-services.md' && whyNoCrds('mcs');
    test(`${name}: its ${commands.length} commands work as it says`, { skip: why }, async () => {
      if (name === 'multi-cluster-services.md')
        symlinkSync(moduleFolder('mcs'), join(world.folder, 'mcs-api'));
      for (const cluster of clustersOf[name] ?? []) {
        await world.startCluster(`${cluster}.kubeconfig`);
      }
      for (const command of commands) await tryOut(world, name, command);
    });
  }

  test('its last page removes what the pages wrote', () => {
    const left = readdirSync(world.folder).filter((name) => !found.includes(name));
    assert.deepEqual(left, ['app1.kubeconfig', 'north.kubeconfig', 'south.kubeconfig']);
  });
});

async function tryOut(world: GuideWorld, page: string, command: GuideCommand): Promise<void> {
  const { operator, text, expected, line } = command;
  const { code, printed } = await world.run(operator, text);
  const where = `${page}:${line}: ${text}\nprinted (exit code ${code}):\n${printed}`;
  // A refusal is shown with its code, and what `doctor` finds wrong with a cross.
  const refused = expected.some((each) =>
    /\(HANSA_[A-Z_]+\)\s*$|^✗|^The certificate is rejected|^401 /.test(each),
  );
  assert.equal(code !== 0, refused, where);
  const missing = missingLine(expected, printed);
  assert.equal(missing, undefined, `${where}\nand not the line:\n${missing}`);
}
