// `hansa agent list`, `show`, `forget` and `reinstate`, and what `join`, `status`, `doctor` and `delete` say
// about agents, against a site.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Daemon, hansa, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

const folder = temporaryFolder();
const at = (name: string): string => join(folder, name);
let site: Daemon;

const lubeck = (...args: readonly string[]) => hansa([...args, '--data-dir', at('lubeck')]);
const apply = (...objects: object[]) =>
  hansa(['apply', '-f', '-', '--data-dir', at('lubeck')], {
    stdin: objects.map((object) => JSON.stringify(object)).join('\n---\n'),
  });

async function succeeds(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await lubeck(...args);
  assert.equal(code, 0, stderr);
  return stdout;
}

/** Resolves when the site shows the Agent. */
async function joinAs(name: string, token: string): Promise<void> {
  const where = ['--server', site.endpoints.federation, '--trust-domain', 'lubeck.example'];
  const by = ['--bundle', at('bundle'), '--token', token, '--secret-file', at(token)];
  const write = ['--name', name, '--write', at(name)];
  const { code, stderr } = await hansa(['join', ...where, ...by, ...write]);
  assert.equal(code, 0, stderr);
  await until(async () => (await lubeck('agent', 'show', name)).code === 0);
}

const entry = (name: string, agents: object): object => ({
  apiVersion: 'hansa.dev/v1alpha1',
  kind: 'WorkloadEntry',
  metadata: { name },
  spec: { spiffeID: `spiffe://lubeck.example/${name}`, selectors: ['unix:uid:4242'], agents },
});

before(async () => {
  site = await startDaemon(at('lubeck'));
  writeFileSync(at('bundle'), await succeeds('trust', 'bundle', 'show'));
  const create = ['join', 'token', 'create'];
  writeFileSync(at('harbour'), await succeeds(...create, 'harbour', '--label', 'zone=harbour'));
  writeFileSync(at('bots'), await succeeds(...create, 'bots', '--role', 'bot', '--bot-name', 'ci'));
  await joinAs('crane-1', 'harbour');
  await joinAs('crane-2', 'harbour');
});
after(() => site.signal('SIGTERM'));

suite('the agents of a site', () => {
  test('are listed with their states, the machine of the site among them', async () => {
    const listed = await succeeds('agent', 'list');
    assert.match(listed, /^AGENT +STATE/);
    assert.match(listed, /^crane-1 +Joined/m);
    assert.match(listed, /^site +Connected/m);
    assert.equal(await succeeds('agent', 'list', '-o', 'name'), 'crane-1\ncrane-2\nsite\n');
    assert.match(
      await succeeds('agent', 'list', '-o', 'wide'),
      /^crane-1 .* harbour +zone=harbour/m,
    );
  });

  test('are shown with labels, token and the names of their entries', async () => {
    const applied = await apply(
      entry('scale', { selector: { matchLabels: { zone: 'harbour' } } }),
      entry('winch', { names: ['crane-2'] }),
    );
    assert.equal(applied.code, 0, applied.stderr);
    const shown = await succeeds('agent', 'show', 'crane-2');
    assert.match(shown, /^labels +zone=harbour$/m);
    assert.match(shown, /^token +harbour$/m);
    assert.match(shown, /^entries +2: scale, winch$/m);
    assert.match(shown, /^SVID +valid until 20/m);
  });

  test('are in the status, and an entry that reaches none of them in doctor', async () => {
    await apply(entry('lost', { names: ['crane-9'] }));
    assert.match(await succeeds('status'), /^agents +3 \(/m);
    const { stdout } = await lubeck('doctor');
    assert.match(stdout, /no agent has the WorkloadEntry lost/);
  });

  test('are not among the bots of hansa join list', async () => {
    const { stdout, stderr } = await lubeck('join', 'list');
    assert.ok(!stdout.includes('crane-1'), stdout);
    assert.match(stderr, /hansa agent list/);
  });

  test('are not forgotten by hansa join forget, which names the right command', async () => {
    const { code, stderr } = await lubeck('join', 'forget', 'crane-1', '--yes');
    assert.equal(code, 4);
    assert.match(stderr, /crane-1 is an agent\. To forget it: hansa agent forget crane-1/);
    await succeeds('agent', 'show', 'crane-1');
  });

  test('are forgotten after a yes, and then cannot renew', async () => {
    const unasked = await lubeck('agent', 'forget', 'crane-1');
    assert.equal(unasked.code, 2);
    assert.match(unasked.stderr, /rejects the SVID of crane-1 at once/);
    assert.equal(
      await succeeds('agent', 'forget', 'crane-1', '--yes'),
      'Forgot the agent crane-1.\n',
    );
    assert.equal((await lubeck('agent', 'show', 'crane-1')).code, 4);
    assert.equal((await hansa(['join', 'renew', '--write', at('crane-1')])).code, 7);
    assert.equal((await lubeck('agent', 'forget', 'crane-1', '--yes')).code, 4);
    assert.match(await succeeds('audit', 'list', '--verb', 'agent.delete'), /crane-1/);
  });

  test('are forgotten by hansa delete too, which asks first', async () => {
    const unasked = await lubeck('delete', 'agent', 'crane-2');
    assert.equal(unasked.code, 2);
    assert.match(unasked.stderr, /The site forgets the agent/);
    await succeeds('delete', 'agent', 'crane-2', '--yes');
    assert.equal((await hansa(['join', 'renew', '--write', at('crane-2')])).code, 7);
  });

  test('of the site itself cannot be forgotten', async () => {
    assert.equal((await lubeck('agent', 'forget', 'site', '--yes')).code, 5);
    assert.notEqual((await lubeck('delete', 'agent', 'site', '--yes')).code, 0);
    await succeeds('agent', 'show', 'site');
  });

  test('are reinstated only after a conflict', async () => {
    await joinAs('crane-3', 'harbour');
    const { code, stderr } = await lubeck('agent', 'reinstate', 'crane-3', '--yes');
    assert.equal(code, 5);
    assert.match(stderr, /it is Joined, not Conflicted/);
  });
});
