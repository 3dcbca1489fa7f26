// Works on Agents with the stock kubectl: lists, labels and deletes them, as an operator with all rights
// and as one who may not write WorkloadEntries.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { hansa } from '../e2e/daemon.ts';
import { Kubectl } from './kubectl.ts';
import { type Site, startSite } from './site.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('kubectl');

/** May do everything with agents and tokens, and read entries. */
const keeper = `apiVersion: hansa.dev/v1alpha1
kind: Role
metadata: {name: keeper}
spec:
  rules:
    - {kinds: [Agent, JoinToken], verbs: ["*"]}
    - {kinds: [WorkloadEntry], verbs: [get, list, watch]}
`;

suite('kubectl and the agents of a site', { skip }, () => {
  let site: Site;
  let admin: Kubectl;
  let limited: Kubectl;
  const at = (name: string): string => join(site.dataDir, '..', name);

  const run = async (args: readonly string[], stdin?: string): Promise<string> => {
    const done = await hansa(
      [...args, '--data-dir', site.dataDir],
      stdin === undefined ? {} : { stdin },
    );
    assert.equal(done.code, 0, `${args.join(' ')}: ${done.stderr}`);
    return done.stdout;
  };
  const joinAs = (name: string, token: string) => {
    const { federation } = JSON.parse(
      readFileSync(join(site.dataDir, 'endpoints.json'), 'utf8'),
    ) as { readonly federation: string };
    return hansa([
      'join',
      '--server',
      federation,
      '--trust-domain',
      'lubeck.example',
      '--bundle',
      at('bundle.json'),
      '--token',
      token,
      '--name',
      name,
      '--secret-file',
      at(token),
      '--write',
      at(`${name}-by-${token}`),
    ]);
  };
  const createToken = async (name: string, ...more: readonly string[]): Promise<void> =>
    writeFileSync(at(name), await run(['join', 'token', 'create', name, ...more]), { mode: 0o600 });
  const joined = async (name: string, token: string): Promise<void> => {
    const done = await joinAs(name, token);
    assert.equal(done.code, 0, done.stderr);
    await admin.ok(['wait', `agent/${name}`, '--for=create', '--timeout=60s']);
    await admin.ok([
      'wait',
      `agent/${name}`,
      '--for=jsonpath={.status.state}=Joined',
      '--timeout=60s',
    ]);
  };
  const labelsOf = (name: string): Promise<string> =>
    admin.ok(['get', 'agent', name, '-o', 'jsonpath={.metadata.labels}']);

  before(async () => {
    site = await startSite();
    const kubeconfig = at('kubeconfig');
    writeFileSync(kubeconfig, await run(['kubeconfig']), { mode: 0o600 });
    admin = await Kubectl.with(kubeconfig);
    await run(['apply', '-f', '-'], keeper);
    const made = await run([
      'access',
      'token',
      'create',
      'keeper',
      '--role',
      'keeper',
      '-o',
      'json',
    ]);
    writeFileSync(at('token'), (JSON.parse(made) as { readonly token: string }).token, {
      mode: 0o600,
    });
    const printed = await hansa([
      'kubeconfig',
      `--site=${site.url}`,
      `--ca-file=${join(site.dataDir, 'ca.pem')}`,
      `--token-file=${at('token')}`,
    ]);
    writeFileSync(at('limited'), printed.stdout, { mode: 0o600 });
    limited = await Kubectl.with(at('limited'));
    writeFileSync(at('bundle.json'), await run(['trust', 'bundle', 'show']));
    await createToken('harbour', '--label', 'zone=harbour', '--single-use');
    await createToken('plain');
  });
  after(async () => {
    await admin?.close();
    await limited?.close();
    await site?.stop();
  });

  test('a machine that joined is listed beside that of the site, with the labels of its token', async () => {
    await joined('crane-1', 'harbour');
    const table = await admin.ok(['get', 'agents', '--show-labels']);
    assert.match(table, /^NAME +STATE +ENTRIES +WORKLOADS +LAST-SEEN +SVID-EXPIRES +VERSION/);
    assert.match(table, /^crane-1 +Joined .* zone=harbour$/m);
    assert.match(table, /^site +Connected /m);
  });

  test('an operator without the right to write entries changes settings, and no labels', async () => {
    const patch = JSON.stringify({ spec: { maxOfflineSeconds: 60 } });
    await limited.ok(['patch', 'agent', 'crane-1', '--type=merge', '-p', patch]);
    for (const args of [
      ['label', 'agent', 'crane-1', 'zone=vault', '--overwrite'],
      ['label', 'agent', 'crane-1', 'zone-'],
      ['label', 'agent', 'site', 'zone=vault'],
      ['patch', 'jointoken', 'plain', '--type=merge', '-p', '{"spec":{"labels":{"zone":"vault"}}}'],
    ]) {
      const { code, stderr } = await limited.run(args);
      assert.equal(code, 1, args.join(' '));
      assert.match(stderr, /cannot change \S+: .* create and update on all workloadentries/);
    }
    const token = `apiVersion: hansa.dev/v1alpha1
kind: JoinToken
metadata: {name: vault}
spec: {method: secret, roles: [agent], expiresAt: "2099-01-01T00:00:00Z", labels: {zone: vault}}
`;
    const created = await limited.run(['create', '-f', '-'], { input: token });
    assert.match(created.stderr, /cannot create|cannot change spec/);
    // A token for bots gives no entries.
    const bots = token
      .replace('roles: [agent]', 'roles: [bot], botName: ci')
      .replace(', labels: {zone: vault}', '');
    await limited.ok(['create', '-f', '-'], { input: bots });
    assert.equal(await labelsOf('crane-1'), '{"zone":"harbour"}');
  });

  test('an operator with that right labels agents, and entries follow', async () => {
    const entry = `apiVersion: hansa.dev/v1alpha1
kind: WorkloadEntry
metadata: {name: vault}
spec:
  spiffeID: spiffe://lubeck.example/vault
  selectors: ["unix:uid:4711"]
  agents: {selector: {matchLabels: {tier: vault}}}
`;
    await admin.ok(['apply', '-f', '-'], { input: entry });
    const waitFor = (condition: string): Promise<string> =>
      admin.ok([
        'wait',
        'workloadentry/vault',
        `--for=condition=Assigned=${condition}`,
        '--timeout=60s',
      ]);
    await waitFor('False');
    await admin.ok(['label', 'agent', 'crane-1', 'site', 'tier=vault']);
    await waitFor('True');
    await admin.ok([
      'wait',
      'workloadentry/vault',
      '--for=jsonpath={.status.agentCount}=2',
      '--timeout=60s',
    ]);
    await admin.ok(['label', 'agent', 'crane-1', 'site', 'tier-']);
    await waitFor('False');
  });

  test('an entry for every agent or for no agent is refused', async () => {
    for (const [agents, why] of [
      ['{selector: {matchLabels: {}}}', /matchLabels must have at least one label/],
      ['{}', /exactly one of names and selector/],
      ['{names: [a], selector: {matchLabels: {a: b}}}', /exactly one of names and selector/],
      ['{names: []}', /should have at least 1 items/],
    ] as const) {
      const { code, stderr } = await admin.run(['create', '-f', '-'], {
        input: `apiVersion: hansa.dev/v1alpha1
kind: WorkloadEntry
metadata: {name: bad}
spec: {spiffeID: "spiffe://lubeck.example/bad", selectors: ["unix:uid:4711"], agents: ${agents}}
`,
      });
      assert.equal(code, 1, agents);
      assert.match(stderr, why);
    }
  });

  test('an Agent is created by joining, and that of the site is not deleted', async () => {
    const agent = 'apiVersion: hansa.dev/v1alpha1\nkind: Agent\nmetadata: {name: ghost}\n';
    const created = await admin.run(['create', '-f', '-'], { input: agent });
    assert.equal(created.code, 1);
    assert.match(created.stderr, /no machine has joined under this name/);
    const deleted = await admin.run(['delete', 'agent', 'site']);
    assert.equal(deleted.code, 1);
    assert.match(deleted.stderr, /machine of the site itself/);
    const reserved = await joinAs('site', 'plain');
    assert.match(reserved.stderr, /HANSA_FORBIDDEN/);
  });

  test('a deleted Agent is forgotten, and its name joins again without its labels', async () => {
    const taken = await joinAs('crane-1', 'plain');
    assert.match(taken.stderr, /HANSA_ALREADY_EXISTS/);
    await limited.ok(['delete', 'agent', 'crane-1']);
    const renewed = await hansa(['join', 'renew', '--write', at('crane-1-by-harbour')]);
    assert.match(renewed.stderr, /HANSA_FORBIDDEN/);
    await joined('crane-1', 'plain');
    assert.equal(await labelsOf('crane-1'), '');
  });
});
