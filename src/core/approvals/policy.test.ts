import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  actionOfWrite,
  actionProblem,
  compilePolicy,
  type DeclaredAction,
  strongestActionOf,
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

suite('a write that is an action of its own only sometimes', () => {
  const spec = (value: string) => ({ spec: { desiredState: value } });
  const resume: DeclaredAction = {
    action: 'peer.resume',
    mode: 'approver',
    description: '',
    write: {
      kind: 'FederationPeer',
      operation: 'update',
      when: (next, live) => next !== undefined && live !== undefined && next.spec !== live.spec,
    },
  };
  const actions = [...declared, resume];
  const [before, after] = [spec('suspended'), spec('active')];
  const of = (modes: Readonly<Record<string, string>>, next: object, live: object) => {
    const rules = Object.entries(modes).map(([action, mode]) => ({ action, mode }));
    const compiled = compilePolicy({ rules }, actions);
    return strongestActionOf(compiled, actions, 'FederationPeer', 'update', next, live);
  };

  test('needs what the policy has for it', () => {
    assert.deepEqual(of({}, after, before), { action: 'peer.resume', mode: 'approver' });
    assert.deepEqual(of({}, before, before), { action: 'FederationPeer.update', mode: 'none' });
    const off = { 'peer.resume': 'none' };
    assert.deepEqual(of(off, after, before), { action: 'peer.resume', mode: 'none' });
  });

  test('needs at least what every such write needs', () => {
    const all = { 'FederationPeer.update': 'two-person' };
    const expected = { action: 'FederationPeer.update', mode: 'two-person' };
    assert.deepEqual(of(all, after, before), expected);
    assert.deepEqual(of({ ...all, 'peer.resume': 'none' }, after, before), expected);
  });

  test('leaves the name of every other such write as it is', () => {
    assert.equal(actionProblem('FederationPeer.update', actions, ['FederationPeer']), undefined);
    assert.equal(actionProblem('peer.resume', actions, []), undefined);
  });
});
