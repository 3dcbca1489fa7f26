import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { personCaller, socketOwner } from '../../core/access/identity.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { PlaneRoute } from '../../core/plane/route.ts';
import { callRoute, type TestCall } from '../../core/plane/test-request.ts';
import { admitToken } from './admit-token.ts';
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
        ['DELETE', '/agents/{name}'],
        ['DELETE', '/bots/{name}'],
      ] as const) {
        await assert.rejects(ask(method, end, { params: { name: 'machines' }, caller }), { code });
      }
    }
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
    for (const end of ['/agents/{name}', '/bots/{name}']) {
      await assert.rejects(ask('DELETE', end, { params: { name: 'nobody' } }), {
        code: 'HANSA_NOT_FOUND',
      });
    }
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
