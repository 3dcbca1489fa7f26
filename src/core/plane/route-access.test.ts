import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { adminsGroup, anonymous, personCaller, socketOwner } from '../access/identity.ts';
import { HansaError } from '../errors/error.ts';
import type { LivePeer, PeerDirectory, PlaneRoute, Refused, RouteTarget } from './route.ts';
import { route } from './route.ts';
import { apiCheck, federationCheck } from './route-access.ts';

const kind = { kind: 'Thing', plural: 'things' };
const ada = personCaller('ada', '01');
const at = (path: string, params: Readonly<Record<string, string>> = {}): RouteTarget => ({
  path,
  params,
  host: 'lubeck.example',
  serverName: undefined,
});
const handle = () => ({ status: 200, contentType: 'text/plain', body: '' });

suite('a route', () => {
  test('does not compile without saying who may call it', () => {
    const any = { method: 'GET', path: '/x', handle } as const;
    // @ts-expect-error: nothing is said
    const nothing: PlaneRoute = { ...any, listener: 'api' };
    // @ts-expect-error: the web listener knows no peers
    const onWeb: PlaneRoute = { ...any, listener: 'web', allow: 'peer' };
    // @ts-expect-error: rights are missing
    const noRights: PlaneRoute = { ...any, listener: 'api', allow: 'rights' };
    // @ts-expect-error: one right at least
    const none: PlaneRoute = { ...any, listener: 'api', allow: 'rights', rights: [] };
    // @ts-expect-error: public routes of the api listener only read
    const open: PlaneRoute = { ...any, method: 'POST', listener: 'api', allow: 'public' };
    assert.equal([nothing, onWeb, noRights, none, open].length, 5);
  });

  test('does not compile with a parameter that its path does not have', () => {
    route({
      listener: 'api',
      method: 'GET',
      path: '/things/{name}',
      allow: 'rights',
      // @ts-expect-error: the path has no id
      rights: [{ verb: 'get', kind, nameFrom: 'id' }],
      // @ts-expect-error: the path has no id
      handle: ({ params: { id } }) => ({ status: 200, contentType: 'text/plain', body: id }),
    });
  });
});

suite('the check of an api route', () => {
  const asked: unknown[] = [];
  const authorizer = {
    authorize: (_caller: unknown, right: unknown) => {
      asked.push(right);
      return { allowed: (right as { verb: string }).verb === 'get', reason: '' };
    },
    authorizePath: (_caller: unknown, _verb: string, path: string) => ({
      allowed: path === '/version',
      reason: '',
    }),
  };

  test('asks for each right, with the name from the path', () => {
    asked.length = 0;
    const check = apiCheck(
      {
        allow: 'rights',
        rights: [
          { verb: 'get', kind, nameFrom: 'name' },
          { verb: 'get', kind, name: 'one', subresource: 'part' },
        ],
      },
      authorizer,
    );
    check(ada, at('/things/crane', { name: 'crane' }));
    assert.deepEqual(asked, [
      { verb: 'get', plural: 'things', name: 'crane' },
      { verb: 'get', plural: 'things', name: 'one', subresource: 'part' },
    ]);
  });

  test('asks for the object that the route computes from the host', () => {
    asked.length = 0;
    const right = {
      verb: 'get',
      kind,
      nameOf: { request: ({ host }: RouteTarget) => host?.split('.')[0] ?? '', shown: 'host' },
    };
    apiCheck({ allow: 'rights', rights: [right] }, authorizer)(ada, at('/things'));
    assert.deepEqual(asked, [{ verb: 'get', plural: 'things', name: 'lubeck' }]);
  });

  test('refuses in the words of the route where it cannot compute the object', () => {
    const request = (): string => {
      throw new HansaError('HANSA_NOT_FOUND', 'no such host');
    };
    const right = { verb: 'get', kind, nameOf: { request, shown: 'host' } };
    const check = apiCheck({ allow: 'rights', rights: [right] }, authorizer);
    assert.throws(() => check(ada, at('/things')), { message: 'no such host' });
  });

  test('refuses where one right of several is missing', () => {
    const check = apiCheck(
      {
        allow: 'rights',
        rights: [
          { verb: 'get', kind },
          { verb: 'list', kind },
        ],
      },
      authorizer,
    );
    assert.throws(() => check(ada, at('/')), {
      code: 'HANSA_FORBIDDEN',
      message: /cannot list resource "things"/,
    });
  });

  test('admits every authenticated caller where a route declares it, and rejects all others', () => {
    const check = apiCheck({ allow: 'authenticated' }, authorizer);
    check(ada, at('/'));
    assert.throws(() => check(anonymous, at('/')), { code: 'HANSA_UNAUTHENTICATED' });
  });

  test('lets only owners pass, and refuses in the words of the route', () => {
    const refusal = () => new HansaError('HANSA_FORBIDDEN', 'Only the owner.');
    const check = apiCheck({ allow: 'owner', refusal }, authorizer);
    check(socketOwner, at('/'));
    check({ ...ada, groups: [adminsGroup] }, at('/'));
    for (const caller of [ada, anonymous]) {
      assert.throws(() => check(caller, at('/')), { message: 'Only the owner.' });
    }
  });

  test('lets only some kinds of credentials pass', () => {
    const refusal = () => new HansaError('HANSA_FORBIDDEN', 'Not with a certificate.');
    const check = apiCheck({ allow: 'credential', via: ['socket', 'token'], refusal }, authorizer);
    check(socketOwner, at('/'));
    assert.throws(() => check(ada, at('/')), { message: 'Not with a certificate.' });
  });

  test('asks for the path itself where it is no resource', () => {
    const check = apiCheck({ allow: 'path' }, authorizer);
    check(ada, at('/version'));
    assert.throws(() => check(ada, at('/secret')), { code: 'HANSA_FORBIDDEN' });
  });
});

suite('the check of a federation route', () => {
  const peer = { name: 'bruges.example', uid: 'u1' } as LivePeer;
  const reasons: string[] = [];
  const directory = (found: LivePeer | string, missing?: string): PeerDirectory => ({
    find: () => found,
    lacks: () => missing,
    refuse: (_request, reason) => {
      reasons.push(reason);
      return new HansaError('HANSA_LIMIT', 'no peer');
    },
    deny: (_request, { name }, reason) => {
      reasons.push(`${name}: ${reason}`);
      return new HansaError('HANSA_FORBIDDEN', 'Denied.');
    },
    onChange: () => () => undefined,
  });
  const request: Refused = { path: '/x', address: undefined, svid: undefined, peerChain: [] };

  test('is absent where everyone may call', () => {
    assert.equal(federationCheck({ allow: 'public' }, {}), undefined);
  });

  test('returns the live peer', () => {
    const check = federationCheck({ allow: 'peer' }, { peers: directory(peer) });
    assert.deepEqual(check?.(request), { peer });
  });

  test('refuses a caller that is no peer, with the reason, in the words of the directory', () => {
    const check = federationCheck({ allow: 'peer' }, { peers: directory('it is suspended') });
    assert.throws(() => check?.(request), { code: 'HANSA_LIMIT' });
    assert.equal(reasons.at(-1), 'it is suspended');
  });

  test('refuses a live peer without a grant of the scope', () => {
    const access = { allow: 'peer', scope: 'write' } as const;
    federationCheck(access, { peers: directory(peer) })?.(request);
    const check = federationCheck(access, { peers: directory(peer, 'no grant') });
    assert.throws(() => check?.(request), { code: 'HANSA_FORBIDDEN', message: 'Denied.' });
    assert.equal(reasons.at(-1), 'bruges.example: no grant');
  });

  test('asks for a grant of the object that the path names', () => {
    const needs: unknown[] = [];
    const peers: PeerDirectory = {
      ...directory(peer),
      lacks: (_peer, need) => {
        needs.push(need);
        return undefined;
      },
    };
    const target = { type: 'cluster', nameFrom: 'cluster' } as const;
    const access = { allow: 'peer', scope: 'read', target } as const;
    const check = federationCheck(access, { peers });
    check?.({ ...request, params: { cluster: 'app1', other: 'x' } });
    // A name that is missing must not become "any target".
    check?.(request);
    federationCheck({ allow: 'peer', scope: 'read', identity: 'any' }, { peers })?.(request);
    assert.deepEqual(needs, [
      { scope: 'read', target: { type: 'cluster', name: 'app1' } },
      { scope: 'read', target: { type: 'cluster', name: '' } },
      { scope: 'read', identity: 'any' },
    ]);
  });

  test('refuses a caller without a certificate where one is needed', () => {
    const check = federationCheck({ allow: 'certificate' }, { peers: directory(peer) });
    assert.throws(() => check?.(request), { code: 'HANSA_LIMIT' });
    assert.deepEqual(check?.({ ...request, peerChain: [{}] as never }), {});
  });

  test('admits agents, and rejects all other callers', () => {
    const agents = (found: { name: string } | string) => ({
      find: () => found,
      refuse: (_: unknown, reason: string) => new HansaError('HANSA_LIMIT', reason),
      onChange: () => () => undefined,
    });
    const check = federationCheck({ allow: 'agent' }, { agents: agents({ name: 'crane' }) });
    assert.deepEqual(check?.(request), { agent: { name: 'crane' } });
    const refusing = federationCheck({ allow: 'agent' }, { agents: agents('it was forgotten') });
    assert.throws(() => refusing?.(request), { code: 'HANSA_LIMIT', message: 'it was forgotten' });
    const without = federationCheck({ allow: 'agent' }, {});
    assert.throws(() => without?.(request), { code: 'HANSA_FORBIDDEN' });
  });

  test('refuses everyone where no plane keeps peers', () => {
    for (const access of [{ allow: 'peer' }, { allow: 'certificate' }] as const) {
      assert.throws(() => federationCheck(access, {})?.(request), { code: 'HANSA_FORBIDDEN' });
    }
  });
});
