import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  actionOfWrite,
  actionProblem,
  compilePolicy,
  type DeclaredAction,
  weakeningOf,
} from './policy.ts';

const declared: readonly DeclaredAction[] = [
  { action: 'peer.confirm', mode: 'approver', description: '' },
  {
    action: 'peer.revoke',
    mode: 'approver',
    description: '',
    write: { kind: 'FederationPeer', operation: 'delete' },
  },
];
const policy = (...rules: readonly (readonly [string, string])[]) =>
  compilePolicy({ rules: rules.map(([action, mode]) => ({ action, mode })) }, declared);

suite('the policy', () => {
  test('has the defaults of the planes where the Site says nothing', () => {
    for (const approvals of [undefined, {}, { rules: [] }, { rules: 'x' }, null]) {
      const { modeOf, strongest } = compilePolicy(approvals, declared);
      assert.deepEqual(
        [modeOf('peer.confirm'), modeOf('Role.create'), strongest],
        ['approver', 'none', 'approver'],
      );
    }
  });

  test('follows the rules of the Site, and ignores unreadable ones', () => {
    const { modeOf, strongest } = compilePolicy(
      {
        rules: [
          { action: 'peer.confirm', mode: 'none' },
          { action: 'Role.create', mode: 'two-person' },
          { action: 'peer.revoke', mode: 'sometimes' },
          { action: 7, mode: 'none' },
          null,
        ],
      },
      declared,
    );
    assert.deepEqual(
      [modeOf('peer.confirm'), modeOf('Role.create'), modeOf('peer.revoke'), strongest],
      ['none', 'two-person', 'approver', 'two-person'],
    );
  });

  test('is weaker where an action needs less, or a rule is removed', () => {
    const strong = policy(['peer.confirm', 'two-person'], ['Role.create', 'approver']);
    assert.deepEqual(weakeningOf(strong, policy()), {
      actions: ['Role.create', 'peer.confirm'],
      mode: 'two-person',
    });
    assert.deepEqual(weakeningOf(policy(), policy(['peer.revoke', 'none'])), {
      actions: ['peer.revoke'],
      mode: 'approver',
    });
  });

  test('is not weaker where it stays or needs more', () => {
    assert.equal(weakeningOf(policy(), policy()), undefined);
    assert.equal(weakeningOf(policy(), policy(['Role.create', 'two-person'])), undefined);
    assert.equal(weakeningOf(policy(), policy(['peer.confirm', 'two-person'])), undefined);
    assert.equal(weakeningOf(policy(['Role.create', 'none']), policy()), undefined);
  });
});

suite('an action', () => {
  test('of a resource is its kind and operation, unless a plane has a name for it', () => {
    assert.equal(actionOfWrite(declared, 'Role', 'create'), 'Role.create');
    assert.equal(actionOfWrite(declared, 'FederationPeer', 'delete'), 'peer.revoke');
  });

  test('can be in a rule only if the site knows it', () => {
    const kinds = ['Role', 'FederationPeer', 'Approval'];
    const problem = (action: string) => actionProblem(action, declared, kinds);
    assert.equal(problem('peer.confirm'), undefined);
    assert.equal(problem('Role.update'), undefined);
    assert.match(problem('FederationPeer.delete') ?? '', /called peer\.revoke/);
    for (const action of ['Role.get', 'Rôle.create', 'Approval.update', 'peer.dance', '', 'Role']) {
      assert.match(problem(action) ?? '', /peer\.confirm, peer\.revoke, or KIND\.create/, action);
    }
  });
});
