// Runs every command block of the guide on one machine, in the order of the pages. Each page builds
// on the state that earlier pages left.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, symlinkSync } from 'node:fs';
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

suite('the guide', { skip }, () => {
  let world: GuideWorld;
  before(async () => {
    world = await GuideWorld.start();
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
});

async function tryOut(world: GuideWorld, page: string, command: GuideCommand): Promise<void> {
  const { operator, text, expected, line } = command;
  const { code, printed } = await world.run(operator, text);
  const where = `${page}:${line}: ${text}\nprinted (exit code ${code}):\n${printed}`;
  // A refusal is shown with its code, and what `doctor` finds wrong with a cross.
  const refused = expected.some((each) => /\(HANSA_[A-Z_]+\)\s*$|^✗/.test(each));
  assert.equal(code !== 0, refused, where);
  const missing = missingLine(expected, printed);
  assert.equal(missing, undefined, `${where}\nand not the line:\n${missing}`);
}
