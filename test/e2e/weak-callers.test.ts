// Callers with few rights at a site with all planes: what preset roles deny, what happens when a
// caller loses a right during a request, and how much a caller may write.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { siteKind } from '../../src/api/kinds/site.ts';
import { peeringPlane } from '../../src/peering/plane.ts';
import { parseInvitation } from '../../src/peering/handshake/invitation.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { startWorkloadSite, type WorkloadSite } from '../interop/workload-site.ts';
import { ApiClient, createToken, resources, role } from './api-client.ts';
import { until } from './until.ts';

const sitePath = `${resources}/sites/site`;
const merge = { 'content-type': 'application/merge-patch+json' };

describe('a caller with few rights', () => {
  let site: WorkloadSite;
  const clients: ApiClient[] = [];
  const clientFor = async (name: string, roleName: string): Promise<ApiClient> => {
    const token = await createToken(site.admin, name, roleName);
    const client = new ApiClient({ origin: site.api, token, verify: false });
    clients.push(client);
    return client;
  };

  before(async () => {
    // Three hundred records at once: enough for everything else here.
    const settings = { HANSA_LIMITS_RECORDS_PER_SECOND: '1' };
    site = await startWorkloadSite('lubeck.example', [trustPlane, peeringPlane], settings);
  });
  after(async () => {
    for (const client of clients) client.close();
    await site?.stop();
  });

  test('describes the site as editor, and does not move where peers connect', async () => {
    const editor = await clientFor('editor', 'editor');
    const patch = (spec: object) =>
      editor.request('PATCH', sitePath, { headers: merge, body: { spec } });
    assert.equal((await patch({ displayName: 'Lübeck' })).status, 200);
    const moved = await patch({ advertiseURL: 'https://mallory.example:8443' });
    assert.equal(moved.status, 403, moved.text);
    assert.match(moved.text, /cannot change spec\.advertiseURL: .* the role admin/);
    await site.apply(siteKind, 'site', { advertiseURL: site.url });
    assert.equal((await patch({ advertiseURL: null })).status, 403);
    assert.equal((await patch({ displayName: 'Lübeck', advertiseURL: site.url })).status, 200);
  });

  test('cannot be told a URL that no peer can use, whoever writes it', async () => {
    for (const advertiseURL of ['https://[', 'https://a:0', 'https://a%zz', 'https://a\\b']) {
      const answer = await site.apply(siteKind, 'site', { advertiseURL });
      assert.equal(answer.status, 422, `${advertiseURL}: ${answer.text}`);
      assert.match(answer.text, /spec\.advertiseURL: Invalid value: .* must be an https URL/);
    }
    const peer = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'FederationPeer',
      metadata: { name: 'reval.example' },
      spec: { url: 'https://[' },
    };
    const made = await site.admin.request('POST', `${resources}/federationpeers`, { body: peer });
    assert.equal(made.status, 422, made.text);
    assert.match(made.text, /spec\.url: Invalid value/);
  });

  const publicKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({
    format: 'pem',
    type: 'spki',
  });
  const federation = {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'SPIFFEFederation',
    metadata: { name: 'reval.example' },
    spec: { bundleSource: { httpsWeb: { bundleEndpointURL: 'https://127.0.0.1:1/' } } },
  };
  const federationPath = `${resources}/spiffefederations/reval.example`;
  /** Every request whose body is read, with what it takes for a good answer. */
  const requests = [
    ['POST', '/hansa/v1/peering/invite', {}],
    ['POST', '/hansa/v1/peering/preview', { invitation: 'hansa1.x' }],
    ['POST', '/hansa/v1/peering/accept', { invitation: 'hansa1.x' }],
    ['POST', '/hansa/v1/trust/refresh/reval.example', {}],
    ['POST', '/hansa/v1/svid-validations', { token: 'x', audience: 'y' }],
    ['POST', '/hansa/v1/tokens', { name: 'other', role: 'viewer' }],
    ['POST', `${resources}/roles`, role('other')],
    ['PATCH', sitePath, { spec: { contact: 'mallory' } }],
    ['DELETE', federationPath, { kind: 'DeleteOptions', apiVersion: 'v1' }],
  ] as const;

  test('gets nothing where his binding is deleted while the body arrives', async () => {
    const made = await site.admin.request('POST', `${resources}/spiffefederations`, {
      body: federation,
    });
    assert.equal(made.status, 201, made.text);
    for (const [index, [method, path, body]] of requests.entries()) {
      const client = await clientFor(`unbound-${index}`, 'admin');
      const answer = await client.slowly(
        method,
        path,
        { body, ...(method === 'PATCH' ? { headers: merge } : {}) },
        () => site.delete('rolebindings', `token-unbound-${index}`),
      );
      assert.equal(answer.status, 403, `${method} ${path}: ${answer.text}`);
    }
    assert.equal((await site.admin.get(federationPath)).status, 200);
  });

  test('gets nothing where his token is revoked while the body arrives', async () => {
    const all = [...requests, ['POST', '/hansa/v1/user-svids', { publicKey }]] as const;
    for (const [index, [method, path, body]] of all.entries()) {
      const client = await clientFor(`revoked-${index}`, 'admin');
      const answer = await client.slowly(
        method,
        path,
        { body, ...(method === 'PATCH' ? { headers: merge } : {}) },
        () => site.admin.request('DELETE', `/hansa/v1/tokens/revoked-${index}`),
      );
      assert.equal(answer.status, 401, `${method} ${path}: ${answer.text}`);
    }
  });

  test('gets an answer to a slow body while he keeps his rights', async () => {
    const client = await clientFor('slow', 'admin');
    const answer = await client.slowly('POST', '/hansa/v1/peering/invite', { body: {} }, () =>
      site.admin.get(sitePath),
    );
    assert.equal(answer.status, 200, answer.text);
  });

  test('without rights cannot fill the audit log with certificates', async () => {
    const [weak, other] = [await clientFor('weak', 'viewer'), await clientFor('other', 'viewer')];
    const ask = (client: ApiClient) =>
      client.request('POST', '/hansa/v1/user-svids', { body: { publicKey } });
    const answers = await Promise.all(Array.from({ length: 2 }, () => ask(weak)));
    assert.ok(answers.every(({ status }) => status === 201));
    const rows = site.store.auditLog.size;
    let refused = await ask(weak);
    while (refused.status === 201) refused = await ask(weak);
    assert.equal(refused.status, 429, refused.text);
    assert.match(refused.text, /token:weak: its requests wrote too many audit records/);
    assert.ok(Number(refused.headers['retry-after']) >= 1);
    assert.ok(site.store.auditLog.size - rows < 20);
    // What leaves no record is still served, and so is everybody else.
    assert.equal((await weak.get(sitePath)).status, 200);
    const review = await weak.request('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    });
    assert.equal(review.status, 201, review.text);
    assert.equal((await ask(other)).status, 201);
    assert.equal((await ask(site.admin)).status, 201);
    site.clock.move(300_000);
    assert.equal((await ask(weak)).status, 201);
  });

  test('with a right to one object cannot fill the audit log with its changes', async () => {
    const editor = await clientFor('busy', 'editor');
    const write = (at: number) =>
      editor.request('PATCH', sitePath, { headers: merge, body: { spec: { contact: `${at}` } } });
    const rows = site.store.auditLog.size;
    let refused = await write(0);
    for (let at = 1; refused.status === 200; at++) refused = await write(at);
    assert.equal(refused.status, 429, refused.text);
    assert.ok(site.store.auditLog.size - rows < 400);
    // Changes that change nothing leave no record, and cost nothing.
    // Ten records: the change may be charged more than once where a controller overtakes it.
    site.clock.move(10_000);
    assert.equal((await write(-1)).status, 200);
    for (let at = 0; at < 50; at++) assert.equal((await write(-1)).status, 200);
  });

  test('finds a site that works although an earlier version stored such a URL', async () => {
    const entry = site.store.get('sites', 'site');
    const stored = JSON.parse(entry?.value.toString('utf8') ?? '') as {
      readonly spec: object;
    };
    const bad = Buffer.from(
      JSON.stringify({ ...stored, spec: { ...stored.spec, advertiseURL: 'https://[' } }),
    );
    await site.store.commit({
      put: [{ collection: 'sites', name: 'site', encode: () => bad }],
    });
    const invited = await site.admin.request('POST', '/hansa/v1/peering/invite', { body: {} });
    assert.equal(invited.status, 200, invited.text);
    const { invitation } = JSON.parse(invited.text) as { readonly invitation: string };
    assert.match(parseInvitation(invitation, 0).url.href, /^https:\/\/lubeck\.example:\d+\/$/);
    const conditions = async () => JSON.stringify((await site.admin.get(sitePath)).body.status);
    await until(
      async () => /The site ignores spec\.advertiseURL/.test(await conditions()),
      'the condition that says so',
    );
    // What is stored keeps nothing else from being changed.
    const renamed = await site.admin.request('PATCH', sitePath, {
      headers: merge,
      body: { spec: { displayName: 'Lübeck again' } },
    });
    assert.equal(renamed.status, 200, renamed.text);
    assert.equal((await site.apply(siteKind, 'site', { advertiseURL: site.url })).status, 200);
    await until(
      async () => !/The site ignores/.test(await conditions()),
      'the condition is gone with its cause',
    );
  });
});
