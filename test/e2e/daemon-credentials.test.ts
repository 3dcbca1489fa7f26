// A real daemon rejects invalid, revoked and insufficient credentials, and never exposes a secret.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  adminClient,
  type Answer,
  ApiClient,
  createToken,
  Http2Client,
  named,
  resources,
  role,
  type Target,
  told,
} from './api-client.ts';
import { type Daemon, startDaemon, temporaryFolder } from './daemon.ts';
import { forge, login } from './user-svid.ts';

const roles = `${resources}/roles`;
const bindings = `${resources}/rolebindings`;
const dataDir = join(temporaryFolder(), 'lubeck');
let site: Daemon;
let admin: ApiClient;
/** Whatever must never be seen outside. */
const secrets: string[] = [];
/** Whatever was answered, but for the answer that shows a token this once. */
const said: string[] = [];

before(async () => {
  site = await startDaemon(dataDir, ['--log-level', 'debug']);
  admin = adminClient(dataDir);
});
after(() => site.signal('SIGTERM'));

function clientWith(credential: Omit<Target, 'origin' | 'caFile'>): ApiClient {
  return new ApiClient({
    origin: site.endpoints.api,
    caFile: join(dataDir, 'ca.pem'),
    ...credential,
  });
}

async function tokenClient(name: string, roleName: string): Promise<ApiClient> {
  const token = await createToken(admin, name, roleName);
  secrets.push(token);
  return clientWith({ token });
}

async function revoke(name: string): Promise<void> {
  const answer = await admin.request('DELETE', `/hansa/v1/tokens/${name}`);
  assert.equal(answer.status, 200, answer.text);
}

async function refused(answer: Promise<Answer>, status: 401 | 403): Promise<void> {
  const { status: got, text } = await answer;
  said.push(text);
  assert.equal(got, status, text);
  const { kind, reason } = JSON.parse(text) as { kind: string; reason: string };
  assert.deepEqual([kind, reason], ['Status', status === 401 ? 'Unauthorized' : 'Forbidden']);
}

const sitePath = `${resources}/sites/site`;

suite('a credential', () => {
  test('is needed for everything on the TLS listener', async () => {
    const nobody = clientWith({});
    const http2 = new Http2Client(nobody.target);
    await refused(http2.request('M'.repeat(3000), sitePath), 401);
    http2.close();
    for (const path of [sitePath, '/version', '/hansa/v1/tokens', '/x'])
      await refused(nobody.get(path), 401);
    nobody.close();
  });

  test('of a person works, and only for what that person was given', async () => {
    const alice = clientWith(await login(admin, { user: 'alice' }));
    await refused(alice.get(sitePath), 403);
    const bound = await admin.request('POST', bindings, {
      body: {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'RoleBinding',
        metadata: { name: 'alice' },
        spec: { role: 'viewer', subjects: [{ kind: 'User', name: 'alice' }] },
      },
    });
    assert.equal(bound.status, 201, bound.text);
    assert.equal((await alice.get(sitePath)).status, 200, 'on the same connection');
    await refused(alice.request('POST', roles, { body: role('a') }), 403);
    alice.close();
  });

  test('signed by another authority of the same name is as good as none', async () => {
    const stranger = clientWith(await forge('lubeck.example', 'admin'));
    await refused(stranger.get(sitePath), 401);
    stranger.close();
  });

  test('of another trust domain is as good as none', async () => {
    const stranger = clientWith(await forge('bruges.example', 'admin'));
    await refused(stranger.get(sitePath), 401);
    stranger.close();
  });

  test('that is no certificate of a user is as good as none', async () => {
    for (const token of ['x', 'a'.repeat(400)]) {
      const client = clientWith({ token });
      await refused(client.get(sitePath), 401);
      client.close();
    }
  });
});

suite('a token that is revoked', () => {
  test('is refused with the next request, though its connection stands', async () => {
    const client = await tokenClient('shortlived', 'viewer');
    assert.equal((await client.get(sitePath)).status, 200);
    await revoke('shortlived');
    await refused(client.get(sitePath), 401);
    client.close();
  });

  test('takes the certificates with it that were obtained by it', async () => {
    const token = await tokenClient('loginer', 'viewer');
    const credential = await login(token);
    secrets.push(credential.key.split('\n')[1] as string);
    const client = clientWith(credential);
    assert.equal((await client.get(sitePath)).status, 200);
    await revoke('loginer');
    await refused(client.get(sitePath), 401);
    await tokenClient('loginer', 'viewer');
    await refused(client.get(sitePath), 401);
    client.close();
    token.close();
  });

  test('writes nothing, though its request began before', async () => {
    const client = await tokenClient('slow', 'admin');
    const body = JSON.stringify(role('too-late'));
    const { hostname, port } = new URL(site.endpoints.api);
    const request = httpsRequest({
      host: hostname,
      port,
      method: 'POST',
      path: roles,
      ca: readFileSync(join(dataDir, 'ca.pem')),
      headers: {
        authorization: `Bearer ${client.target.token}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        expect: '100-continue',
      },
    });
    request.flushHeaders();
    // The head has arrived, and was good, when the daemon asks for the body.
    await once(request, 'continue');
    await revoke('slow');
    const answered = once(request, 'response');
    request.end(body);
    const [response] = (await answered) as [{ statusCode: number; resume(): void }];
    response.resume();
    assert.equal(response.statusCode, 401);
    assert.equal((await admin.get(`${roles}/too-late`)).status, 404);
    client.close();
  });

  for (const protocol of ['HTTP/1.1', 'HTTP/2'] as const) {
    test(`ends its watches over ${protocol}, and no others`, async () => {
      const name = protocol === 'HTTP/2' ? 'watcher2' : 'watcher1';
      const client = await tokenClient(name, 'viewer');
      const other = await tokenClient(`${name}-other`, 'viewer');
      const http2 = new Http2Client(client.target);
      const open = (path: string) =>
        protocol === 'HTTP/2' ? http2.watch(path) : client.watch(path);
      const watch = await open(`${roles}?watch=true`);
      const kept = await other.watch(`${roles}?watch=true`);
      await watch.until(named('viewer'));
      await revoke(name);
      const [last] = (await watch.rest()).slice(-1);
      assert.deepEqual([last?.type, last?.object.code], ['ERROR', 401]);
      assert.equal(await watch.ended, true);
      await admin.request('POST', roles, { body: role(`after-${name}`) });
      await kept.until(named(`after-${name}`));
      kept.close();
      http2.close();
      client.close();
      other.close();
    });
  }

  test('by its binding alone loses its watches, too', async () => {
    const client = await tokenClient('unbound', 'viewer');
    const watch = await client.watch(`${roles}?watch=true`);
    await watch.until(named('viewer'));
    assert.equal((await admin.request('DELETE', `${bindings}/token-unbound`)).status, 200);
    const [last] = (await watch.rest()).slice(-1);
    assert.deepEqual([last && told(last), last?.object.code], ['ERROR Forbidden', 403]);
    client.close();
  });
});

suite('a caller', () => {
  const everything = { rules: [{ kinds: ['*'], verbs: ['*'] }] };

  test('cannot write itself a role that allows more, by any verb', async () => {
    await admin.request('POST', roles, {
      body: {
        ...role('role-writer'),
        spec: {
          rules: [
            {
              kinds: ['Role', 'RoleBinding'],
              verbs: ['get', 'create', 'update', 'patch', 'delete'],
            },
            { kinds: ['Site'], verbs: ['get'] },
          ],
        },
      },
    });
    const client = await tokenClient('climber', 'role-writer');
    const own = await client.request('POST', roles, { body: role('mine') });
    assert.equal(own.status, 201, own.text);
    const more = { ...role('mine'), spec: everything };
    const patch = (type: string, body: unknown, query = '') =>
      client.request('PATCH', `${roles}/mine${query}`, {
        headers: { 'content-type': type },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
    await refused(
      client.request('POST', roles, { body: { ...more, metadata: { name: 'b' } } }),
      403,
    );
    await refused(
      client.request('PUT', `${roles}/mine`, {
        body: {
          ...more,
          metadata: {
            name: 'mine',
            resourceVersion: own.body.metadata.resourceVersion,
          },
        },
      }),
      403,
    );
    await refused(patch('application/merge-patch+json', { spec: everything }), 403);
    await refused(
      patch('application/json-patch+json', [
        { op: 'replace', path: '/spec/rules', value: everything.rules },
      ]),
      403,
    );
    await refused(
      patch('application/apply-patch+yaml', more, '?fieldManager=climber&force=true'),
      403,
    );
    await refused(
      patch('application/apply-patch+yaml', more, '?fieldManager=climber&force=true&dryRun=All'),
      403,
    );
    const created = client.request('PATCH', `${roles}/new?fieldManager=climber`, {
      headers: { 'content-type': 'application/apply-patch+yaml' },
      body: JSON.stringify({ ...more, metadata: { name: 'new' } }),
    });
    await refused(created, 403);
    const bind = client.request('POST', bindings, {
      body: {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'RoleBinding',
        metadata: { name: 'climb' },
        spec: { role: 'admin', subjects: [{ kind: 'Token', name: 'climber' }] },
      },
    });
    await refused(bind, 403);
    await refused(
      client.request('POST', '/hansa/v1/tokens', { body: { name: 'ladder', role: 'admin' } }),
      403,
    );
    assert.deepEqual(
      (await admin.get(`${roles}/mine`)).body.spec,
      role('mine').spec,
      'nothing has changed',
    );
    client.close();
  });

  test('cannot take the presets away or change them', async () => {
    for (const preset of ['admin', 'viewer', 'editor', 'approver']) {
      const gone = await admin.request('DELETE', `${roles}/${preset}`);
      assert.ok(gone.status >= 400 && gone.status < 500, `${gone.status} ${gone.text}`);
      const changed = await admin.request('PATCH', `${roles}/${preset}`, {
        headers: { 'content-type': 'application/merge-patch+json' },
        body: { spec: { rules: [] } },
      });
      assert.ok(changed.status >= 400 && changed.status < 500, `${changed.status} ${changed.text}`);
    }
    assert.equal((await admin.get(`${roles}/admin`)).status, 200);
  });

  test('cannot write status, not even as the owner', async () => {
    const { body } = await admin.get(sitePath);
    const next = { ...body, status: { trustDomain: 'evil.example' } };
    await refused(admin.request('PUT', `${sitePath}/status`, { body: next }), 403);
    await refused(
      admin.request('PATCH', `${sitePath}/status`, {
        headers: { 'content-type': 'application/merge-patch+json' },
        body: { status: { trustDomain: 'evil.example' } },
      }),
      403,
    );
    await admin.request('PUT', sitePath, { body: next });
    assert.match((await admin.get(sitePath)).text, /"trustDomain":"lubeck\.example"/);
  });

  test('cannot fill the log with wrong tokens: after a while it is told to wait', async () => {
    const client = clientWith({ token: 'wrong' });
    const good = await tokenClient('good', 'viewer');
    let status = 401;
    for (let count = 0; count < 100 && status === 401; count += 1)
      ({ status } = await client.get(sitePath));
    assert.equal(status, 429);
    assert.equal(
      (await good.get(sitePath)).status,
      200,
      'a good credential from there still works',
    );
    client.close();
    good.close();
  });
});

suite('what is seen of it', () => {
  test('a denial names what it was about, also where a plane was asked', async () => {
    const client = await tokenClient('onlooker', 'viewer');
    await refused(client.request('POST', '/hansa/v1/trust/refresh/bruges.example'), 403);
    await refused(client.request('POST', '/hansa/v1/peering/revoke/visby.example'), 403);
    await refused(client.request('POST', '/hansa/v1/trust/authorities/prepare'), 403);
    await refused(client.request('DELETE', `${roles}/viewer`), 403);
    await refused(
      client.request('POST', '/hansa/v1/tokens', { body: { name: 'x', role: 'admin' } }),
      403,
    );
    client.close();
    // What was gathered is written at the latest when the site stops.
    await site.signal('SIGTERM');
    said.push(site.log());
    site = await startDaemon(dataDir, ['--log-level', 'debug']);
    const { events } = JSON.parse(
      (await admin.get('/hansa/v1/audit/events?outcome=deny&limit=1000')).text,
    ) as { events: { actor: { user: string }; kind?: string; name?: string; verb: string }[] };
    assert.deepEqual(
      events
        .filter(({ actor }) => actor.user === 'token:onlooker')
        .map(({ verb, kind, name = '-' }) => `${verb} ${kind} ${name}`)
        .toSorted(),
      [
        'delete Role viewer',
        'post Authority -',
        'post FederationPeer visby.example',
        'post SPIFFEFederation bruges.example',
        'post Token -',
      ],
    );
  });

  test('denials are in the audit log, gathered', async () => {
    const events = (
      JSON.parse((await admin.get('/hansa/v1/audit/events?outcome=deny&limit=1000')).text) as {
        events: { actor: { user: string }; code: string; verb: string; count?: number }[];
      }
    ).events;
    const climbs = events.filter(({ actor }) => actor.user === 'token:climber');
    assert.ok(climbs.some(({ code, count }) => code === 'HANSA_FORBIDDEN' && (count ?? 1) > 1));
    const unknown = events.filter(({ code }) => code === 'HANSA_UNAUTHENTICATED');
    assert.ok(unknown.length > 0 && unknown.length < 10, `${unknown.length} records`);
    assert.ok(
      events.every(({ verb }) => verb.length < 20),
      'no word of a stranger becomes a verb',
    );
  });

  test('no token and no key shows up in logs, audit, metrics, answers or files', async () => {
    assert.ok(secrets.length > 5);
    const exported = (await admin.get('/hansa/v1/audit/export')).text;
    const metrics = await (await fetch(site.endpoints.metrics)).text();
    const lists = await Promise.all(
      ['/hansa/v1/tokens', roles, bindings, sitePath].map((path) => admin.get(path)),
    );
    const places = new Map<string, string>([
      ['log', site.log()],
      ['audit', exported],
      ['metrics', metrics],
      ['answers', [...said, ...lists.map(({ text }) => text)].join('\n')],
    ]);
    for (const entry of readdirSync(dataDir, { recursive: true, encoding: 'utf8' })) {
      const path = join(dataDir, entry);
      if (statSync(path).isFile()) places.set(entry, readFileSync(path, 'latin1'));
    }
    assert.ok([...places.keys()].some((place) => place.includes('store.db')));
    for (const [place, text] of places) {
      for (const secret of secrets) {
        // A part of it would be too much as well.
        assert.ok(!text.includes(secret.slice(-24)), `a secret is in ${place}`);
      }
      if (!place.includes('ca.pem')) assert.doesNotMatch(text, /PRIVATE KEY/, place);
    }
  });
});
