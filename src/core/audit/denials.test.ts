import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DenialGroups } from './denials.ts';
import type { AuditDraft } from './event.ts';

const denied: AuditDraft = {
  actor: { user: 'spiffe://bruges.example/web', groups: [], via: 'ext_authz' },
  verb: 'offer.access',
  outcome: 'deny',
};

test('of what strangers write no more waits than is written in the end', () => {
  const groups = new DenialGroups();
  const long = 'x'.repeat(250_000);
  for (let at = 0; at < 100; at++) {
    const address = `${at}${long}`;
    groups.add({ ...denied, actor: { ...denied.actor, address }, name: long, reason: long }, '');
    groups.add({ ...denied, verb: 'svid.fetch', reason: `${at}${long}` }, '');
  }
  const drafts = groups.take();
  assert.equal(drafts.length, 101);
  assert.ok(JSON.stringify(drafts).length < 101 * 8000);
  assert.equal(drafts[0]?.actor.address?.length, 256);
});

test('what is short waits as it is', () => {
  const groups = new DenialGroups();
  const draft = { ...denied, kind: 'ServiceOffer', name: 'web', code: 'HANSA_FORBIDDEN' };
  groups.add(draft, '');
  assert.deepEqual(groups.take(), [draft]);
});
