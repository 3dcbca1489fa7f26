import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { adminsGroup, type Caller } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { hasCode } from '../../core/errors/error.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { type RefreshAnswer, refreshRoutes } from './refresh-routes.ts';
import { federationSite, type TestEndpoint } from './test-federation-site.ts';

const name = 'bruges.example';
let site: Awaited<ReturnType<typeof federationSite>>;
let peer: TestEndpoint;
let recorded: AuditDraft[];

beforeEach(async () => {
  site = await federationSite();
  peer = site.endpoint(name);
  recorded = [];
});

afterEach(async () => {
  const stopped = site.stop();
  await site.clock.advance(60_000);
  await stopped;
});

const admin = { user: 'admin', groups: [adminsGroup], via: 'admin' } as unknown as Caller;
const nobody = { user: 'eve', groups: [], via: 'token' } as unknown as Caller;

async function post(
  body: unknown,
  { of = name, caller = admin }: { of?: string; caller?: Caller | undefined } = {},
): Promise<RefreshAnswer> {
  const [route] = refreshRoutes({
    ...site,
    resources: (() => site.federations) as never,
    audit: {
      record: (draft: AuditDraft) => {
        recorded.push(draft);
        return { encode: () => Buffer.from('{}') };
      },
    } as never,
  });
  assert(route !== undefined);
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const call = { params: { name: of }, caller, body: text };
  const answer = callRoute(route, call, site);
  await Promise.allSettled([answer, site.clock.advance(1000)]);
  return JSON.parse(String((await answer).body)) as RefreshAnswer;
}

suite('a refresh', () => {
  test('asks the endpoint now, waits for what comes of it, and is recorded', async () => {
    await site.create(name, peer.spec());
    await site.clock.advance(1000);
    peer.answer = () => peer.ok(peer.document([peer.root, forgeRoot(name)], 2));
    const { done, status } = await post({ waitSeconds: 10 });
    assert.equal(done, true);
    assert.equal(status?.sequence, 2);
    assert.equal(recorded[0]?.verb, 'spiffe.federation.refresh');
    assert.equal(recorded[0]?.actor.user, 'admin');
  });

  test('that nobody waits for is only asked for', async () => {
    await site.create(name, peer.spec());
    await site.clock.advance(1000);
    assert.equal((await post('')).trustDomain, name);
    await site.clock.advance(100);
    assert.equal(peer.requests, 2);
  });

  test('accepts a rollback where that is said, and tells so in the audit log', async () => {
    peer.answer = () => peer.ok(peer.document([peer.root], 8));
    await site.create(name, peer.spec());
    await site.clock.advance(1000);
    peer.answer = () => peer.ok(peer.document([peer.root], 2));
    const refused = await post({ waitSeconds: 10 });
    assert.match(refused.status?.lastError?.message ?? '', /--accept-rollback/);
    const { status } = await post({ waitSeconds: 10, acceptRollback: true });
    assert.equal(status?.sequence, 2);
    assert.match(recorded[1]?.reason ?? '', /accept a lower sequence/);
  });

  test('takes back nothing of what somebody else asks for at the same moment', async () => {
    peer.answer = () => peer.ok(peer.document([peer.root], 8));
    await site.create(name, peer.spec());
    await site.clock.advance(1000);
    peer.answer = () => peer.ok(peer.document([peer.root], 2));
    await Promise.all([post({ acceptRollback: true }), post({})]);
    assert.equal((await site.status(name)).sequence, 2);
  });

  const bad: Record<string, unknown> = {
    'no JSON': '{',
    'a list': [],
    'a text for a flag': { acceptRollback: 'yes' },
    'a number for a flag': { rebootstrap: 1 },
    'a wait without end': { waitSeconds: 1e9 },
    'a negative wait': { waitSeconds: -1 },
    'something unknown': { force: true },
  };
  for (const [what, body] of Object.entries(bad)) {
    test(`is refused with ${what}`, async () => {
      await site.create(name, peer.spec());
      await assert.rejects(post(body), (caught) => hasCode(caught, 'HANSA_BAD_REQUEST'));
      assert.equal(recorded.length, 0);
    });
  }

  test('is refused for what is not there, and to whoever may not change it', async () => {
    await assert.rejects(post({}), (caught) => hasCode(caught, 'HANSA_NOT_FOUND'));
    await site.create(name, peer.spec());
    const forbidden = (caught: unknown) => hasCode(caught, 'HANSA_FORBIDDEN');
    await assert.rejects(post({}, { caller: nobody }), forbidden);
  });

  test('cannot bootstrap what has no bootstrap', async () => {
    await site.create(name, peer.webSpec());
    await assert.rejects(post({ rebootstrap: true }), (caught) =>
      hasCode(caught, 'HANSA_BAD_REQUEST'),
    );
  });
});
