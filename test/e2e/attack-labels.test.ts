// A caller with every right on agents and join tokens, but not on all WorkloadEntries, tries to get
// identities for a machine, by every verb.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { adminClient, ApiClient, createToken, resources, role } from './api-client.ts';
import { type Daemon, startDaemon, temporaryFolder } from './daemon.ts';

const dataDir = join(temporaryFolder(), 'lubeck');
const apiVersion = 'hansa.dev/v1alpha1';
const labels = { zone: 'harbour' };
const agent = `${resources}/agents/site`;
const entry = `${resources}/workloadentries/web`;
const tokens = `${resources}/jointokens`;
let site: Daemon;
let admin: ApiClient;
let limited: ApiClient;

const token = (name: string, more: object) => ({
  apiVersion,
  kind: 'JoinToken',
  metadata: { name },
  spec: { method: 'secret', roles: ['agent'], expiresAt: '2099-01-01T00:00:00Z', ...more },
});

before(async () => {
  site = await startDaemon(dataDir);
  admin = adminClient(dataDir);
  const rules = [
    { kinds: ['Agent', 'JoinToken'], verbs: ['*'] },
    { kinds: ['WorkloadEntry'], verbs: ['*'], names: ['web'] },
  ];
  const spec = {
    spiffeID: 'spiffe://lubeck.example/web',
    selectors: ['unix:uid:0'],
    agents: { names: ['crane-1'] },
  };
  for (const [path, body] of [
    [`${resources}/roles`, { ...role('limited'), spec: { rules } }],
    [
      `${resources}/workloadentries`,
      { apiVersion, kind: 'WorkloadEntry', metadata: { name: 'web' }, spec },
    ],
    [tokens, token('labelled', { labels })],
    [tokens, token('plain', {})],
  ] as const) {
    const made = await admin.request('POST', path, { body });
    assert.equal(made.status, 201, made.text);
  }
  limited = new ApiClient({
    origin: site.endpoints.api,
    caFile: join(dataDir, 'ca.pem'),
    token: await createToken(admin, 'limited', 'limited'),
  });
});
after(async () => {
  limited.close();
  assert.equal(await site.signal('SIGTERM'), 0);
});

const merge = { 'content-type': 'application/merge-patch+json' };
const jsonPatch = { 'content-type': 'application/json-patch+json' };
const apply = { 'content-type': 'application/apply-patch+yaml' };

async function refused(
  method: string,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  const answer = await limited.request(method, path, { body, headers });
  assert.equal(answer.status, 403, `${method} ${path}: ${answer.text}`);
}

test('labels of an Agent cannot be set by a patch, an apply, an update or its status', async () => {
  const metadata = { name: 'site', labels };
  const { body: live } = await admin.get(agent);
  for (const query of ['?fieldManager=t', '?fieldManager=t&dryRun=All']) {
    await refused('PATCH', `${agent}${query}`, { metadata: { labels } }, merge);
    const value = [{ op: 'add', path: '/metadata/labels', value: labels }];
    await refused('PATCH', `${agent}${query}`, value, jsonPatch);
    await refused('PATCH', `${agent}${query}`, { apiVersion, kind: 'Agent', metadata }, apply);
    await refused('PUT', `${agent}${query}`, { ...live, metadata: { ...live.metadata, labels } });
    await refused('PATCH', `${agent}/status${query}`, { metadata: { labels } }, merge);
  }
  assert.equal((await admin.get(agent)).body.metadata.labels, undefined);
});

test('an entry cannot be moved to another machine', async () => {
  await refused('PATCH', entry, { spec: { agents: { names: ['crane-2'] } } }, merge);
  await refused('PATCH', entry, { spec: { agents: null } }, merge);
  const value = [{ op: 'replace', path: '/spec/agents/names/0', value: 'crane-2' }];
  await refused('PATCH', entry, value, jsonPatch);
});

test('the entries of a name are not given to a machine of the caller', async () => {
  await refused('PATCH', agent, { spec: { entriesByName: false } }, merge);
  const value = [{ op: 'replace', path: '/spec/entriesByName', value: false }];
  await refused('PATCH', agent, value, jsonPatch);
});

test('a token gives no entries and no labels to a machine of the caller', async () => {
  await refused('POST', tokens, token('mine', {}));
  await refused('POST', tokens, token('mine', { labels }));
  await refused('PATCH', `${tokens}/plain`, { spec: { agentName: 'crane-1' } }, merge);
  await refused('PATCH', `${tokens}/plain`, { spec: { labels } }, merge);
  const spiffe = { allow: [{ spiffeID: 'spiffe://lubeck.example/mine' }] };
  await refused('PATCH', `${tokens}/labelled`, { spec: { method: 'spiffe', spiffe } }, merge);
  await refused('POST', '/hansa/v1/join/secrets/labelled', undefined);
  await refused('POST', '/hansa/v1/join/secrets/plain', undefined);
  const bots = { roles: ['bot'], botName: 'mine' };
  const created = await limited.request('POST', tokens, { body: token('bots', bots) });
  assert.equal(created.status, 201, created.text);
  await refused('PATCH', `${tokens}/bots`, { spec: { roles: ['bot', 'agent'] } }, merge);
  const made = await limited.request('POST', '/hansa/v1/join/secrets/bots');
  assert.equal(made.status, 200, made.text);
});
