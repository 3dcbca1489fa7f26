// Approvals through the API of a running site: the two-person rule, and attempts to get round it.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { adminClient, ApiClient, createToken, resources, role } from './api-client.ts';
import { type Daemon, hansa, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';
import { login } from './user-svid.ts';

const dataDir = join(temporaryFolder(), 'lubeck');
let site: Daemon;
let admin: ApiClient;
let ada: ApiClient;
let bob: ApiClient;
const opened: ApiClient[] = [];

const merge = { 'content-type': 'application/merge-patch+json' };
const sitePath = `${resources}/sites/site`;
const approvalPath = (name: string) => `${resources}/approvals/${name}`;

async function withToken(name: string, asked: string): Promise<ApiClient> {
  return clientOf(await createToken(admin, name, asked));
}

function clientOf(token: string): ApiClient {
  const caFile = join(dataDir, 'ca.pem');
  const client = new ApiClient({ origin: site.endpoints.api, caFile, token });
  opened.push(client);
  return client;
}

function setPolicy(rules: Readonly<Record<string, string>>, client = admin) {
  const list = Object.entries(rules).map(([action, mode]) => ({ action, mode }));
  return client.request('PATCH', sitePath, {
    headers: merge,
    body: { spec: { approvals: { rules: list } } },
  });
}

function decide(client: ApiClient, name: string, decision: string) {
  return client.request('PATCH', approvalPath(name), {
    headers: merge,
    body: { spec: { decision } },
  });
}

/** The name of the Approval that a refused request names. */
function approvalIn(answer: Awaited<ReturnType<typeof setPolicy>>): string {
  assert.equal(answer.status, 403, answer.text);
  assert.equal(answer.body.reason, 'ApprovalRequired', answer.text);
  const { details } = answer.body as { details?: { name?: string } };
  assert.ok(answer.body.message?.includes(`hansa approval approve ${details?.name}`), answer.text);
  return details?.name ?? '';
}

async function stateOf(name: string): Promise<string | undefined> {
  const { body } = await admin.request('GET', approvalPath(name));
  return (body.status as { state?: string } | undefined)?.state;
}

before(async () => {
  site = await startDaemon(dataDir);
  admin = adminClient(dataDir);
  ada = await withToken('ada', 'approver');
  bob = await withToken('bob', 'admin');
  assert.equal((await setPolicy({ 'Role.create': 'two-person' })).status, 200);
});
after(async () => {
  for (const client of opened) client.close();
  assert.equal(await site.signal('SIGTERM'), 0);
  assert.doesNotMatch(site.log(), /"level":"error"/);
});

test('a change is refused with the name of an Approval, and passes once after its approval', async () => {
  const create = () => admin.request('POST', `${resources}/roles`, { body: role('pilots') });
  const name = approvalIn(await create());
  assert.equal(approvalIn(await create()), name);
  const { stdout } = await hansa(['status', '--data-dir', dataDir]);
  assert.match(stdout, /approvals +1 pending \(hansa approval list\)/);
  assert.equal((await decide(ada, name, 'approved')).status, 200);
  assert.equal((await create()).status, 201);
  assert.equal(await stateOf(name), 'spent');
  assert.equal((await admin.request('DELETE', `${resources}/roles/pilots`)).status, 200);
  assert.notEqual(approvalIn(await create()), name);
  const { text } = await admin.request('GET', '/hansa/v1/audit/events?kind=Approval');
  for (const event of ['requested', 'approved', 'spent']) {
    assert.match(text, new RegExp(`approval\\.${event}`));
  }
});

test('a dry run makes no Approval', async () => {
  const path = `${resources}/roles?dryRun=All`;
  const answer = await admin.request('POST', path, { body: role('dry') });
  assert.equal(answer.status, 201, answer.text);
  assert.match(String(answer.headers.warning), /needs approval/);
  const { text } = await admin.request('GET', `${resources}/approvals`);
  assert.doesNotMatch(text, /create Role dry/);
});

test('neither the admin socket nor any certificate that it issues can approve', async () => {
  const name = approvalIn(
    await bob.request('POST', `${resources}/roles`, { body: role('smugglers') }),
  );
  const caFile = join(dataDir, 'ca.pem');
  // The owner can be anybody, and gives that user the role first. That alone needs approval.
  const binding = {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'RoleBinding',
    metadata: { name: 'eve' },
    spec: { role: 'approver', subjects: [{ kind: 'User', name: 'eve' }] },
  };
  const bound = () => admin.request('POST', `${resources}/rolebindings`, { body: binding });
  await decide(ada, approvalIn(await bound()), 'approved');
  assert.equal((await bound()).status, 201);
  for (const user of ['eve', 'admin']) {
    const svid = await login(admin, { user });
    const client = new ApiClient({ origin: site.endpoints.api, caFile, ...svid });
    opened.push(client);
    const answer = await decide(client, name, 'approved');
    assert.equal(answer.status, 403, answer.text);
    assert.match(answer.text, /two-person rule/);
  }
  assert.equal((await decide(admin, name, 'approved')).status, 403);
  assert.equal((await decide(bob, name, 'approved')).status, 403);
  assert.equal(await stateOf(name), 'pending');
});

test('the owner cannot make a second person: no token, binding or policy without approval', async () => {
  const token = { name: 'puppet', role: 'approver' };
  approvalIn(await admin.request('POST', '/hansa/v1/tokens', { body: token }));
  approvalIn(await setPolicy({}));
  approvalIn(await setPolicy({ 'Role.create': 'approver' }));
  const put = await admin.request('GET', sitePath);
  const { approvals: _approvals, ...spec } = put.body.spec ?? {};
  approvalIn(await admin.request('PUT', sitePath, { body: { ...put.body, spec } }));
  approvalIn(await admin.request('DELETE', `${resources}/rolebindings/token-ada`));
});

test('an Approval cannot be created, edited, or marked as approved by hand', async () => {
  const name = approvalIn(await admin.request('POST', `${resources}/roles`, { body: role('x') }));
  const { body } = await admin.request('GET', approvalPath(name));
  const copy = { ...body, metadata: { name: 'copy' } };
  assert.equal((await bob.request('POST', `${resources}/approvals`, { body: copy })).status, 403);
  const edited = { ...body, spec: { ...body.spec, hash: 'f'.repeat(64) } };
  assert.equal((await ada.request('PUT', approvalPath(name), { body: edited })).status, 403);
  const status = { ...body, status: { state: 'approved' } };
  const answer = await ada.request('PUT', `${approvalPath(name)}/status`, { body: status });
  assert.equal(answer.status, 403, answer.text);
  await ada.request('PUT', approvalPath(name), { body: status });
  assert.equal(await stateOf(name), 'pending');
  assert.equal((await decide(ada, name, 'rejected')).status, 200);
  assert.equal((await decide(ada, name, 'approved')).status, 403);
});

test('an approval does not count after its approver was revoked or lost the role', async () => {
  const create = (name: string) =>
    admin.request('POST', `${resources}/roles`, { body: role(name) });
  /** An approver for an hour: to revoke one that outlives the others would need an approval. */
  const approverFor = async (name: string) => {
    const body = { name, role: 'approver', ttlSeconds: 3600 };
    const make = () => admin.request('POST', '/hansa/v1/tokens', { body });
    assert.equal((await decide(ada, approvalIn(await make()), 'approved')).status, 200);
    const { token } = (await make()).body as { token?: string };
    return clientOf(token ?? '');
  };
  const eve = await approverFor('eve');
  const first = approvalIn(await create('lighters'));
  assert.equal((await decide(eve, first, 'approved')).status, 200);
  assert.equal((await admin.request('DELETE', '/hansa/v1/tokens/eve')).status, 200);
  const second = approvalIn(await create('lighters'));
  assert.notEqual(second, first);
  await until(async () => (await stateOf(first)) === 'expired', 'the Approval of eve to expire');

  const fay = await approverFor('fay');
  assert.equal((await decide(fay, second, 'approved')).status, 200);
  const unbind = () => admin.request('DELETE', `${resources}/rolebindings/token-fay`);
  assert.equal((await decide(ada, approvalIn(await unbind()), 'approved')).status, 200);
  assert.equal((await unbind()).status, 200);
  const third = approvalIn(await create('lighters'));
  assert.ok(![first, second].includes(third));
  await until(async () => (await stateOf(second)) === 'expired', 'the Approval of fay to expire');
  assert.equal((await decide(ada, third, 'approved')).status, 200);
  assert.equal((await create('lighters')).status, 201);
});

test('the audit log tells who tried to approve, edit or create what was not theirs', async () => {
  const name = approvalIn(
    await bob.request('POST', `${resources}/roles`, { body: role('wreckers') }),
  );
  assert.equal((await decide(bob, name, 'approved')).status, 403);
  assert.equal((await decide(admin, name, 'approved')).status, 403);
  const path = '/hansa/v1/audit/events?kind=Approval&outcome=deny';
  const told = async () => (await admin.request('GET', path)).text;
  await until(async () => (await told()).includes('two-person rule'), 'the denials to be recorded');
  assert.match(await told(), /token:bob requested it, and another user must approve it/);
  // Of an earlier test.
  assert.match(await told(), /only spec\.decision and spec\.comment of an Approval can be set/);
  assert.match(await told(), /the site creates Approvals/);
});

test('an invitation waits for another person, and deleting a peer is called peer.revoke', async () => {
  const wrong = await setPolicy({ 'Role.create': 'two-person', 'FederationPeer.delete': 'none' });
  assert.equal(wrong.status, 422, wrong.text);
  assert.match(wrong.text, /peer\.revoke/);
  const rules = { 'Role.create': 'two-person', 'peer.invite': 'two-person' };
  assert.equal((await setPolicy(rules)).status, 200);
  const invite = () => hansa(['peer', 'invite', '--for', 'bruges.example', '--data-dir', dataDir]);
  const refused = await invite();
  assert.equal(refused.code, 7, refused.stderr);
  const name = /hansa approval approve (\S+)\./.exec(refused.stderr)?.[1] ?? '';
  assert.equal((await decide(ada, name, 'approved')).status, 200);
  const made = await invite();
  assert.equal(made.code, 0, made.stderr);
  assert.equal(await stateOf(name), 'spent');
});
