// Callers with few rights try to get more. The authorization check and the operation must interpret
// path, query and body in the same way.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  adminClient,
  ApiClient,
  createToken,
  RawConnection,
  resources,
  role,
} from './api-client.ts';
import { type Daemon, startDaemon, temporaryFolder } from './daemon.ts';

const roles = `${resources}/roles`;
const dataDir = join(temporaryFolder(), 'lubeck');
let site: Daemon;
let admin: ApiClient;
/** May create and patch the Role `mine`, and read it; holds what is in the roles that it makes. */
let limited: ApiClient;

before(async () => {
  site = await startDaemon(dataDir);
  admin = adminClient(dataDir);
  const rules = [
    { kinds: ['Role'], verbs: ['get', 'list', 'create', 'patch'], names: ['mine'] },
    { kinds: ['Site'], verbs: ['get'] },
  ];
  const made = await admin.request('POST', roles, {
    body: { ...role('limited'), spec: { rules } },
  });
  assert.equal(made.status, 201, made.text);
  limited = new ApiClient({
    origin: site.endpoints.api,
    caFile: join(dataDir, 'ca.pem'),
    token: await createToken(admin, 'limited', 'limited'),
  });
});
after(async () => {
  limited.close();
  assert.equal(await site.signal('SIGTERM'), 0);
  assert.doesNotMatch(site.log(), /"level":"error"/);
});

const harmless = (name: string) => ({
  ...role(name),
  spec: { rules: [{ kinds: ['Site'], verbs: ['get'] }] },
});

test('a right to create one name makes no other by naming it in a selector', async () => {
  for (const query of [
    '',
    '?fieldSelector=metadata.name%3Dmine',
    '?fieldSelector=metadata.name==mine',
  ]) {
    const answer = await limited.request('POST', `${roles}${query}`, { body: harmless('other') });
    assert.equal(answer.status, 403, `${query}: ${answer.text}`);
  }
});

test('a right to create one name makes no other by naming it in the path', async () => {
  const answer = await limited.request('POST', `${roles}/mine`, { body: harmless('other') });
  assert.equal(answer.status, 403, answer.text);
  assert.equal((await admin.get(`${roles}/other`)).status, 404);
});

test('an apply to the one name is allowed, and to another is not', async () => {
  const headers = { 'content-type': 'application/apply-patch+yaml' };
  const apply = (name: string, body: unknown) =>
    limited.request('PATCH', `${roles}/${name}?fieldManager=t`, { headers, body });
  assert.equal((await apply('mine', harmless('mine'))).status, 201);
  assert.equal((await apply('other', harmless('other'))).status, 403);
  assert.equal((await apply('mine', harmless('other'))).status, 400);
});

test('a list by name shows that object alone, however its pages are asked for', async () => {
  const selector = 'fieldSelector=metadata.name%3Dmine';
  const listed = await limited.get(`${roles}?${selector}`);
  assert.deepEqual(
    listed.body.items?.map((item) => item.metadata.name),
    ['mine'],
  );
  const token = Buffer.from('{"v":"meta.k8s.io/v1","rv":-1,"start":"a"}').toString('base64url');
  const paged = await limited.get(`${roles}?${selector}&limit=1&continue=${token}`);
  assert.deepEqual(
    paged.body.items?.map((item) => item.metadata.name),
    ['mine'],
  );
  for (const query of [
    '',
    'fieldSelector=metadata.name%3Dmine%2Cmetadata.name%3Dmine',
    'fieldSelector=metadata.name!%3Dmine',
    'fieldSelector=&fieldSelector=metadata.name%3Dmine',
  ]) {
    assert.equal((await limited.get(`${roles}?${query}`)).status, 403, query);
  }
});

test('continue tokens that hold no object are refused, not stumbled over', async () => {
  for (const text of ['null', '1', '"x"', '[]', '{"v":"meta.k8s.io/v1","rv":null,"start":{}}']) {
    const token = Buffer.from(text).toString('base64url');
    const answer = await admin.get(`${roles}?limit=1&continue=${token}`);
    assert.equal(answer.status, 400, `${text}: ${answer.text}`);
  }
});

test('who asks to be judged as somebody else is refused, and does not act as himself', async () => {
  for (const [header, kind] of [
    ['impersonate-user', 'users'],
    ['impersonate-group', 'groups'],
    ['impersonate-uid', 'uids'],
  ] as const) {
    const headers = { [header]: 'viewer' };
    const answer = await admin.request('POST', roles, { body: harmless('as-admin'), headers });
    assert.equal(answer.status, 403, answer.text);
    assert.match(
      String(answer.body.message),
      new RegExp(
        `^${kind} "viewer" is forbidden: User "admin" cannot impersonate resource "${kind}"`,
      ),
    );
  }
  assert.equal((await admin.get(`${roles}/as-admin`)).status, 404);
});

test('a review of a group that is called like a member of every object says no', async () => {
  for (const group of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
    const body = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: { group, verb: 'create', resource: 'length' } },
    };
    const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
    const answer = await limited.request('POST', path, { body });
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(answer.body.status, { allowed: false });
  }
});

test('a client that pipelines hundreds of requests and reads nothing is cut off', async () => {
  const connection = await RawConnection.open(limited.target);
  const { token } = limited.target;
  const head = `GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`;
  connection.send(`${head}\r\n`.repeat(200) + `${head}Connection: close\r\n\r\n`);
  const answers = (await connection.closed()).match(/HTTP\/1\.1 \d+/g) ?? [];
  assert.equal(answers.at(0), 'HTTP/1.1 200');
  assert.equal(answers.at(-1), 'HTTP/1.1 429');
  assert.ok(answers.length < 100, `${answers.length} were answered`);
});
