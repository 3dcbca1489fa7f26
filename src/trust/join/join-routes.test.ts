import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Attributes } from '../../core/access/authorizer.ts';
import { personCaller, socketOwner } from '../../core/access/identity.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { PlaneRoute } from '../../core/plane/route.ts';
import { apiCheck } from '../../core/plane/route-access.ts';
import { callRoute, type TestCall } from '../../core/plane/test-request.ts';
import { timestamp } from '../../api/object.ts';
import { admitToken } from './admit-token.ts';
import type { Member } from './members.ts';
import { recordRefusedSvid, refusedSvid } from './refused-svids.ts';
import { decodeSecret } from './secret.ts';
import { ciToken, joinSite, type TestJoinSite } from './test-join-site.ts';

suite('what operators do about joining', () => {
  let site: TestJoinSite;
  const ask = async (
    method: PlaneRoute['method'],
    end: string,
    call: TestCall = {},
  ): Promise<Record<string, unknown>> => {
    const route = site.routes.find((each) => each.method === method && each.path.endsWith(end));
    const answer = await callRoute(route, { caller: socketOwner, ...call }, site);
    return JSON.parse(String(answer.body)) as Record<string, unknown>;
  };

  before(async () => {
    site = await joinSite();
    await site.createToken('ci-runners', ciToken);
    await site.createToken('machines', {
      method: 'secret',
      roles: ['agent'],
      expiresAt: '2099-01-01T00:00:00Z',
    });
  });
  after(() => site.stop());

  test('needs the rights on tokens', async () => {
    for (const caller of [undefined, personCaller('ada', '01')]) {
      const code = caller === undefined ? 'HANSA_UNAUTHENTICATED' : 'HANSA_FORBIDDEN';
      for (const [method, end] of [
        ['POST', '/secrets/{name}'],
        ['GET', '/members'],
        ['DELETE', '/bots/{name}'],
        ['POST', '/agents/{name}/reinstate'],
      ] as const) {
        await assert.rejects(ask(method, end, { params: { name: 'machines' }, caller }), { code });
      }
    }
  });

  test('the secret of a token for agents, and reinstating one, needs the right to write entries', async () => {
    await site.createToken('bots', {
      method: 'secret',
      roles: ['bot'],
      botName: 'ci',
      expiresAt: '2099-01-01T00:00:00Z',
    });
    const bob = personCaller('bob', '02');
    const needs = (end: string, name: string): readonly string[] => {
      const route = site.routes.find(({ path }) => path.endsWith(end));
      const asked: string[] = [];
      const authorize = (_: unknown, { verb, plural, name: object }: Attributes) => {
        asked.push([verb, plural, object].join(' ').trim());
        return { allowed: true, reason: '' };
      };
      const authorizer = { authorize, authorizePath: () => ({ allowed: true, reason: '' }) };
      assert.ok(route?.listener === 'api');
      const target = { path: route.path, params: { name }, host: undefined, serverName: undefined };
      apiCheck(route, authorizer)(bob, target);
      return asked;
    };
    const entries = ['create workloadentries', 'update workloadentries'];
    assert.deepEqual(needs('/secrets/{name}', 'bots'), ['update jointokens bots']);
    assert.deepEqual(needs('/secrets/{name}', 'machines'), [
      'update jointokens machines',
      ...entries,
    ]);
    assert.deepEqual(needs('/agents/{name}/reinstate', 'crane-1'), [
      'delete agents crane-1',
      ...entries,
    ]);
  });

  test('a secret is made for a token that has one, and told once', async () => {
    const made = await ask('POST', '/secrets/{name}', { params: { name: 'machines' } });
    assert.equal(decodeSecret(made['secret'] as string).length, 32);
    const row = site.records.at(-1);
    assert.equal(row?.verb, 'join.token.secret');
    assert.ok(!JSON.stringify(site.records).includes(made['secret'] as string));
    await assert.rejects(ask('POST', '/secrets/{name}', { params: { name: 'nothing' } }), {
      code: 'HANSA_NOT_FOUND',
    });
    await assert.rejects(ask('POST', '/secrets/{name}', { params: { name: 'ci-runners' } }), {
      code: 'HANSA_BAD_REQUEST',
      message: /its method is spiffe/,
    });
  });

  test('who is not there cannot be forgotten', async () => {
    assert.deepEqual(await ask('GET', '/members'), { members: [] });
    await assert.rejects(ask('DELETE', '/bots/{name}', { params: { name: 'nobody' } }), {
      code: 'HANSA_NOT_FOUND',
    });
  });
});

suite('members in the list of an operator', () => {
  const dayMs = 86_400_000;
  const member: Member = {
    role: 'agent',
    name: 'crane-1',
    token: 'machines',
    provenBy: 'join-token:machines',
    joinedAtMs: 0,
    renewedAtMs: 0,
    generation: 3,
    serial: '03',
    key: '',
    notAfterMs: 0,
  };
  let site: TestJoinSite;
  before(async () => {
    site = await joinSite();
  });
  after(() => site.stop());
  const listed = async (more: Partial<Member>): Promise<Record<string, unknown>> => {
    const instance = 'agent/crane-1';
    await site.members.put(instance, site.members.get(instance), { ...member, ...more }, []);
    const route = site.routes.find(({ path }) => path.endsWith('/members'));
    const answer = await callRoute(route, { caller: socketOwner }, site);
    const { members } = JSON.parse(String(answer.body)) as { members: Record<string, unknown>[] };
    assert.equal(members.length, 1);
    return members[0] ?? {};
  };

  test('that can renew have no reason', async () => {
    const now = site.clock.now();
    const one = await listed({ notAfterMs: now + dayMs });
    assert.deepEqual([one['refused'], one['reattestUntil']], [undefined, undefined]);
  });

  test('whose SVID expired say until when their key renews it, and then that it is over', async () => {
    const now = site.clock.now();
    const waiting = await listed({ notAfterMs: now - dayMs });
    assert.equal(waiting['refused'], undefined);
    assert.equal(waiting['reattestUntil'], timestamp(now + 6 * dayMs));
    const over = await listed({ notAfterMs: now - 8 * dayMs });
    assert.match(String(over['refused']), /its SVID expired, and its key could renew it until/);
  });

  test('that are conflicted say so, and are reinstated once', async () => {
    const now = site.clock.now();
    const one = await listed({ notAfterMs: now + dayMs, conflictedAtMs: now, conflict: 'two' });
    assert.match(String(one['refused']), /is conflicted since .*: two\. Stop the process/);
    const route = site.routes.find(({ path }) => path.endsWith('/reinstate'));
    const reinstate = (name: string) =>
      callRoute(route, { caller: socketOwner, params: { name } }, site);
    await reinstate('crane-1');
    await assert.rejects(reinstate('crane-1'), {
      code: 'HANSA_BAD_REQUEST',
      message: /not conflicted/,
    });
    await assert.rejects(reinstate('nobody'), { code: 'HANSA_NOT_FOUND' });
  });

  test('show the last refusal of an older SVID', async () => {
    const refusal = { serial: '01', why: 'generation 1 tried to renew', address: '192.0.2.1' };
    await recordRefusedSvid(site, 'agent/crane-1', refusal);
    const at = timestamp(refusedSvid(site.store, 'agent/crane-1')?.atMs ?? 0);
    const one = await listed({ notAfterMs: site.clock.now() + dayMs });
    const { serial: _serial, ...told } = refusal;
    assert.deepEqual(one['refusedSvid'], { at, ...told });
  });
});

suite('a token', () => {
  const admit = (...rules: readonly string[]): void =>
    admitToken({
      metadata: { name: 'ci' },
      spec: { ...ciToken, spiffe: { allow: rules.map((spiffeID) => ({ spiffeID })) } },
    } as never);

  test('with rules that can be meant is taken', () => {
    admit('spiffe://bruges.example/ci/*', 'spiffe://bruges.example/**/web');
    admitToken({ metadata: { name: 'a' }, spec: { method: 'secret', roles: ['agent'] } } as never);
  });

  test('with labels that an Agent cannot have is refused', () => {
    const labelled = (labels: object): void =>
      admitToken({ metadata: { name: 'a' }, spec: { ...ciToken, labels } } as never);
    labelled({ zone: 'harbour', 'example.com/tier': '' });
    for (const key of ['', 'a b', '/a', 'a/b/c', 'a'.repeat(64)]) {
      assert.throws(
        () => labelled({ zone: 'harbour', [key]: '' }),
        (error) => hasCode(error, 'HANSA_INVALID') && /spec\.labels: /.test(error.message),
        key,
      );
    }
  });

  test('hears of every rule that cannot', () => {
    assert.throws(
      () =>
        admit(
          'spiffe://a.example/hansa/site',
          'spiffe://a.example/ok',
          'spiffe://a.example/**/x/**',
        ),
      (error) => {
        assert.ok(hasCode(error, 'HANSA_INVALID'));
        assert.deepEqual(
          error.details?.causes?.map(({ field }) => field),
          ['spec.spiffe.allow[0].spiffeID', 'spec.spiffe.allow[2].spiffeID'],
        );
        assert.match(error.message, /reserved/);
        return true;
      },
    );
  });
});

suite('a secret', () => {
  test('is refused where it is not one, and never shown', () => {
    for (const text of [
      '',
      'swordfish',
      'hansajoin1.',
      `hansajoin1.${'A'.repeat(42)}`,
      `hansajoin1.${'A'.repeat(44)}`,
      `hansajoin1.${'B'.repeat(43)}`,
      `hansajoin2.${'A'.repeat(43)}`,
    ]) {
      assert.throws(
        () => decodeSecret(text),
        (error) => hasCode(error, 'HANSA_BAD_REQUEST') && !error.message.includes('swordfish'),
        text,
      );
    }
    assert.equal(decodeSecret(` hansajoin1.${'A'.repeat(43)}\n`).length, 32);
  });
});
