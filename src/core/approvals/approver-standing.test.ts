// An approval counts only while its approver is one: it is checked again when it is used.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { personCaller } from '../access/identity.ts';
import { hasCode } from '../errors/error.ts';
import { ada, bob, ci, confirmBruges, openApprovals, owner } from './test-approvals.ts';

async function approvedBy(by = ada) {
  const scene = await openApprovals();
  const { act, decide, approvals } = scene;
  const refused = async () => {
    await assert.rejects(act(ci), (error) => hasCode(error, 'HANSA_APPROVAL_REQUIRED'));
    return approvals().at(-1)?.metadata.name ?? '';
  };
  const name = await refused();
  await decide(by, name, 'approved');
  return { ...scene, name, refused };
}

suite('an approval does not count any more', () => {
  test('after the token of its approver was revoked', async () => {
    const { revoke, refused, name, approvals, decide, act } = await approvedBy();
    await revoke('access.tokens', 'ada');
    const again = await refused();
    assert.notEqual(again, name);
    assert.equal(approvals().filter(({ status }) => status?.state === 'spent').length, 0);
    // Another approver can still decide the new request.
    await decide(bob, again, 'approved');
    await act(ci);
  });

  test('after another token of the same name was created', async () => {
    const { revoke, putToken, refused, name } = await approvedBy();
    await revoke('access.tokens', 'ada');
    await putToken('ada', 'ada-2');
    assert.notEqual(await refused(), name);
  });

  test('after that token expired, although the approval has time left', async () => {
    const { putToken, clock, refused, name, approvals } = await approvedBy();
    await putToken('ada', 'ada-1', clock.now() + 60_000);
    await clock.advance(60_000);
    assert.notEqual(await refused(), name);
    assert.ok(Date.parse(approvals()[0]?.spec.expiresAt ?? '') > clock.now());
  });

  test('after the binding of its approver was deleted', async () => {
    const { revoke, refused, name } = await approvedBy();
    await revoke('rolebindings', 'approvers');
    assert.notEqual(await refused(), name);
  });

  test('after the role of its approver lost the right to approve, or to change Approvals', async () => {
    const deciding = [{ kinds: ['Approval'], verbs: ['approve', 'patch'] }];
    for (const left of [['patch'], ['approve']]) {
      const { bind, role, revoke, refused, name, decide, act, approvals } = await approvedBy();
      await revoke('rolebindings', 'approvers');
      await role('deciders', deciding);
      await bind('ada', { role: 'deciders', subjects: [{ kind: 'Token', name: 'ada' }] });
      // The rights come another way, and still count.
      await act(ci);
      assert.equal(approvals()[0]?.status?.state, 'spent');
      const next = await refused();
      await decide(ada, next, 'approved');
      await role('deciders', [{ kinds: ['Approval'], verbs: left }]);
      assert.ok(![name, next].includes(await refused()));
    }
  });

  test('after a person who approved by the admin socket lost the role', async () => {
    const { decide, bind, act, revoke, refused } = await approvedBy(owner);
    await act(ci);
    await bind('eve', { role: 'approver', subjects: [{ kind: 'User', name: 'eve' }] });
    const name = await refused();
    await decide(personCaller('eve', '1'), name, 'approved');
    await revoke('rolebindings', 'eve');
    assert.notEqual(await refused(), name);
  });

  test('if it does not say which token decided', async () => {
    const { tokenId: _tokenId, ...unnamed } = ada;
    const { refused, name } = await approvedBy(unnamed);
    assert.notEqual(await refused(), name);
  });
});

suite('the commit of the action', () => {
  for (const [what, collection, record] of [
    ['the token of its approver was revoked', 'access.tokens', 'ada'],
    ['the binding of its approver was deleted', 'rolebindings', 'approvers'],
  ] as const) {
    test(`fails where ${what} since the approval was checked`, async () => {
      const { gate, store, revoke, approvals, name } = await approvedBy();
      const spent = await gate.allow(confirmBruges, { caller: ci, origin: {} });
      assert.equal(spent?.name, name);
      await revoke(collection, record);
      await assert.rejects(
        store.commit({ expect: spent?.expect ?? [], put: spent?.put ?? [] }),
        (error) => hasCode(error, 'HANSA_CONFLICT'),
      );
      assert.equal(approvals()[0]?.status?.state, 'approved');
    });
  }
});
