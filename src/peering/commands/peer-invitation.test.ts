import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { InvitationSummary } from '../routes/invitation-routes.ts';
import { findInvitation, invitationRows, inviteHints } from './peer-invitation.ts';
import { run } from '../../cli/test-io.ts';

const nowMs = Date.UTC(2026, 0, 1, 12);
const open: InvitationSummary = {
  id: 'ab12'.padEnd(64, '0'),
  state: 'open',
  for: 'bruges.example',
  createdAt: '2026-01-01T11:55:00Z',
  createdBy: 'alice',
  expiresAt: '2026-01-01T12:10:00Z',
};
const redeemed: InvitationSummary = {
  id: 'ab34'.padEnd(64, '0'),
  state: 'redeemed',
  createdAt: '2026-01-01T11:00:00Z',
  expiresAt: '2026-01-01T12:10:00Z',
  redeemedBy: 'reval.example',
  contestedBy: 'bruges.example',
};

suite('the list of invitations', () => {
  test('shows for whom each is, how long it works, and who redeemed it', () => {
    assert.deepEqual(invitationRows([open, redeemed], nowMs, false), [
      ['ID', 'FOR', 'STATE', 'AGE', 'EXPIRES', 'REDEEMED BY'],
      ['ab1200000000', 'bruges.example', 'open', '5m', 'in 10m', ''],
      [
        'ab3400000000',
        'any site',
        'redeemed',
        '60m',
        '',
        'reval.example, also tried by bruges.example',
      ],
    ]);
  });

  test('has whole ids, the maker and the keys where it is wide', () => {
    const [, row] = invitationRows([{ ...open, forKeys: '7f:3a' }], nowMs, true);
    assert.deepEqual(row?.slice(0, 2), [open.id, 'bruges.example (keys bound)']);
    assert.deepEqual(row?.slice(-2), ['alice', '7f:3a']);
  });
});

suite('an invitation to cancel', () => {
  test('is found by the beginning of its id', () => {
    assert.equal(findInvitation([open, redeemed], 'ab12'), open);
    assert.equal(findInvitation([open, redeemed], redeemed.id), redeemed);
  });

  for (const [what, given, code] of [
    ['a beginning that several have', 'ab1', 'HANSA_USAGE'],
    ['what is no id', 'hansa1.eyJ1', 'HANSA_USAGE'],
    ['an id that no invitation has', 'ffff', 'HANSA_NOT_FOUND'],
  ] as const) {
    test(`is not found by ${what}`, () => {
      assert.throws(() => findInvitation([open, redeemed], given), { code });
    });
  }

  test('is not guessed where two begin alike', () => {
    const twin = { ...redeemed, id: 'ab12'.padEnd(64, '1') };
    assert.throws(() => findInvitation([open, twin], 'ab12'), { message: /Several invitations/ });
  });

  test('must be named', async () => {
    const { code, stderr } = await run(['peer', 'invitation', 'cancel']);
    assert.equal(code, 2);
    assert.match(stderr, /Missing required argument 'id'/);
  });
});

suite('a new invitation', () => {
  test('tells what it does not bind', () => {
    assert.match(inviteHints(undefined, false)[0] ?? '', /^Any site may redeem it/);
    assert.match(
      inviteHints('bruges.example', false)[0] ?? '',
      /--for bruges\.example@FINGERPRINT/,
    );
    assert.deepEqual(inviteHints('bruges.example', true), []);
  });
});
