import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { PlaneRoute } from '../../core/plane/route.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { openStore } from '../../core/store/open.ts';
import { invitationRoutes, type InvitationSummary, inviteOptions } from './invitation-routes.ts';
import { type InvitationRecord, invitationRecords, type Records } from '../handshake/records.ts';
import { peeringPaths } from '../paths.ts';

const id = 'ab'.repeat(32);
const fingerprint = Array.from({ length: 32 }, () => '7f').join(':');

suite('the routes for invitations', () => {
  let clock: VirtualClock;
  let invitations: Records<InvitationRecord>;
  let rows: AuditDraft[];
  let routes: readonly PlaneRoute[];

  beforeEach(async () => {
    clock = new VirtualClock();
    invitations = invitationRecords(await openStore({ driver: 'memory' }, { clock }));
    rows = [];
    const record = (draft: AuditDraft) => {
      rows.push(draft);
      return { encode: () => Buffer.from('{}') };
    };
    routes = invitationRoutes({
      clock,
      audit: { record },
      approvals: { allow: () => assert.fail('nobody invites here') },
      inviter: { invitations, invite: () => assert.fail('nobody invites here') },
    });
  });

  const ask = async (method: string, path: string, of = ''): Promise<unknown> => {
    const route = routes.find((each) => each.method === method && each.path === path);
    const answer = await callRoute(route, { caller: socketOwner, params: { id: of } });
    return JSON.parse(String(answer.body));
  };
  const list = async (): Promise<readonly InvitationSummary[]> =>
    ((await ask('GET', peeringPaths.invitations)) as { invitations: InvitationSummary[] })
      .invitations;
  const made = (more: Partial<InvitationRecord> = {}): Promise<void> =>
    invitations.put(id, undefined, {
      digest: 'd1'.repeat(32),
      createdAtMs: clock.now(),
      expiresAtMs: clock.now() + 60_000,
      for: 'bruges.example',
      ...more,
    });
  const redeemed = {
    state: 'accepted' as const,
    trustDomain: 'bruges.example',
    url: 'https://bruges.example:8443/',
    bundle: '{"keys":[]}',
    fingerprint,
    contractVersion: 1,
    atMs: 0,
  };

  test('list an invitation without anything of its secret', async () => {
    await made({ createdBy: 'alice', forKeys: fingerprint });
    const [summary] = await list();
    assert.equal(summary?.id, id);
    assert.equal(summary?.state, 'open');
    assert.equal(summary?.createdBy, 'alice');
    assert.equal(summary?.forKeys, fingerprint);
    assert.ok(!JSON.stringify(summary).includes('d1d1'));
  });

  test('list what became of it', async () => {
    await made({ redeemed });
    assert.equal((await list())[0]?.redeemedBy, 'bruges.example');
    assert.equal((await list())[0]?.state, 'redeemed');
  });

  test('list one that nobody used as expired', async () => {
    await made();
    await clock.advance(60_000);
    assert.equal((await list())[0]?.state, 'expired');
  });

  test('cancel one at once, with an audit row, and once', async () => {
    await made();
    for (let times = 0; times < 2; times += 1) {
      const answer = (await ask('DELETE', peeringPaths.invitation, id)) as InvitationSummary;
      assert.equal(answer.state, 'cancelled');
      assert.equal(answer.cancelledBy, 'admin');
    }
    assert.equal(rows[0]?.verb, 'invitation.cancel');
    assert.equal(rows[0]?.actor.user, 'admin');
    assert.equal(rows[0]?.requestId, 'r1');
    assert.equal(rows[0]?.name, 'bruges.example');
  });

  test('refuse to cancel one that was redeemed, and one that is not there', async () => {
    await made({ redeemed });
    await assert.rejects(ask('DELETE', peeringPaths.invitation, id), {
      code: 'HANSA_INVITATION_REDEEMED',
      message: /hansa peer revoke bruges\.example/,
    });
    await assert.rejects(ask('DELETE', peeringPaths.invitation, 'cd'.repeat(32)), {
      code: 'HANSA_NOT_FOUND',
    });
  });
});

suite('the body of an invite request', () => {
  test('binds a trust domain, and keys by a fingerprint in any spelling', () => {
    const options = inviteOptions({
      for: 'bruges.example',
      fingerprint: fingerprint.replaceAll(':', '').toUpperCase(),
    });
    assert.equal(options.for?.name, 'bruges.example');
    assert.equal(options.forKeys, fingerprint);
  });

  for (const [what, body] of [
    ['a fingerprint that is too short', { for: 'bruges.example', fingerprint: '7f:3a' }],
    ['an empty fingerprint', { for: 'bruges.example', fingerprint: '' }],
    ['a fingerprint that is no text', { for: 'bruges.example', fingerprint: 7 }],
    ['a fingerprint without a trust domain', { fingerprint }],
    ['a trust domain that is no text', { for: null }],
    ['a duration that is no number', { ttlSeconds: '60' }],
  ] as const) {
    test(`is refused with ${what}`, () => {
      assert.throws(() => inviteOptions(body), { code: 'HANSA_BAD_REQUEST' });
    });
  }
});
