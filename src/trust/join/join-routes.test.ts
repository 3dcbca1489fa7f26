import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { personCaller, socketOwner } from '../../core/access/identity.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { PlaneRequest, PlaneRoute } from '../../core/plane/route.ts';
import { admitToken } from './admit-token.ts';
import { decodeSecret } from './secret.ts';
import { ciToken, joinSite, type TestJoinSite } from './test-join-site.ts';

suite('what operators do about joining', () => {
  let site: TestJoinSite;
  const ask = async (
    method: PlaneRoute['method'],
    end: string,
    request: Partial<PlaneRequest> = {},
  ): Promise<Record<string, unknown>> => {
    const route = site.routes.find((each) => each.method === method && each.path.endsWith(end));
    const asked = { segment: '', caller: socketOwner, ...request } as PlaneRequest;
    route?.authorize?.(asked);
    const answer = await route?.handle(asked);
    return JSON.parse(String(answer?.body)) as Record<string, unknown>;
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
        ['POST', '/secrets/*'],
        ['GET', '/members'],
        ['DELETE', '/agents/*'],
        ['DELETE', '/bots/*'],
      ] as const) {
        await assert.rejects(ask(method, end, { segment: 'machines', caller }), { code });
      }
    }
  });

  test('a secret is made for a token that has one, and told once', async () => {
    const made = await ask('POST', '/secrets/*', { segment: 'machines' });
    assert.equal(decodeSecret(made['secret'] as string).length, 32);
    const row = site.records.at(-1);
    assert.equal(row?.verb, 'join.token.secret');
    assert.ok(!JSON.stringify(site.records).includes(made['secret'] as string));
    await assert.rejects(ask('POST', '/secrets/*', { segment: 'nothing' }), {
      code: 'HANSA_NOT_FOUND',
    });
    await assert.rejects(ask('POST', '/secrets/*', { segment: 'ci-runners' }), {
      code: 'HANSA_BAD_REQUEST',
      message: /its method is spiffe/,
    });
  });

  test('who is not there cannot be forgotten', async () => {
    assert.deepEqual(await ask('GET', '/members'), { members: [] });
    for (const end of ['/agents/*', '/bots/*']) {
      await assert.rejects(ask('DELETE', end, { segment: 'nobody' }), { code: 'HANSA_NOT_FOUND' });
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
