import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { type Approval, approvalKind } from '../../api/kinds/approval.ts';
import { roleBindingKind } from '../../api/kinds/role-binding.ts';
import { roleKind } from '../../api/kinds/role.ts';
import { siteKind } from '../../api/kinds/site.ts';
import { apiVersion, timestamp } from '../../api/object.ts';
import {
  type Caller,
  controllerCaller,
  tokenCaller,
  tokenNameOf,
} from '../../core/access/identity.ts';
import { createToken, revokeToken } from '../../core/access/token-operations.ts';
import { Approvers } from '../../core/approvals/approvers.ts';
import { decideApproval } from '../../core/approvals/decide-approval.ts';
import { ada, ci, openApprovals, owner } from '../../core/approvals/test-approvals.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { patchWith } from '../resources/changes.ts';
import { decodeObject } from '../resources/decode.ts';
import { boatKind } from '../resources/test-kind.ts';
import { admitApprovalPolicy, writeApprovals } from './write-approvals.ts';
import { ResourceWriter, type WriteContext } from '../resources/writer.ts';

const kinds = [boatKind, roleKind, roleBindingKind, siteKind, approvalKind] as readonly Kind[];

/** The tokens `existing` exist from the start. Tests that create their own begin with none. */
async function scene(existing?: string[]) {
  const opened = await openApprovals(existing);
  const { store, clock, random, authorizer, tokens, gate, audit } = opened;
  const approvers = new Approvers({ clock, authorizer, tokens, gate });
  const parts = { gate, approvers, authorizer };
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    auditRow: () => undefined,
    approve: writeApprovals(parts),
    decide: (caller, kind, next, live) =>
      kind === (approvalKind as Kind)
        ? decideApproval(
            authorizer,
            caller,
            next as unknown as Approval | undefined,
            live as unknown as Approval | undefined,
            clock.now(),
          )
        : undefined,
    admit: (_caller, kind, next, live) => {
      admitApprovalPolicy(parts, kinds, kind, next, live);
      return [];
    },
  });
  const warnings: string[] = [];
  const context = (caller: Caller, verb: WriteContext['verb'], dryRun = false): WriteContext => ({
    caller,
    verb,
    options: { dryRun, manager: 'test', fieldValidation: 'Strict', force: false },
    requestId: 'r',
    address: undefined,
    warn: (text) => warnings.push(text),
  });
  const create = (caller: Caller, kind: Kind, metadata: object, spec: object, dryRun = false) => {
    const body = Buffer.from(JSON.stringify({ apiVersion, kind: kind.kind, metadata, spec }));
    const { options } = context(caller, 'create');
    const object = decodeObject(kind, body, undefined, options, () => undefined);
    return writer.create(kind, object, context(caller, 'create', dryRun));
  };
  const patch = (caller: Caller, kind: Kind, name: string, change: object, dryRun = false) =>
    writer.update(
      kind,
      name,
      undefined,
      context(caller, 'patch', dryRun),
      patchWith(
        {
          kind,
          name,
          subresource: undefined,
          options: context(caller, 'patch').options,
          timeIso: timestamp(clock.now()),
          warn: () => undefined,
        },
        'application/merge-patch+json',
        Buffer.from(JSON.stringify(change)),
      ),
    );
  const remove = (caller: Caller, kind: Kind, name: string, dryRun = false) =>
    writer.delete(
      kind,
      name,
      { dryRun, uid: undefined, resourceVersion: undefined },
      context(caller, 'delete'),
    );
  /** With the token of this name that exists now, as the API authenticates it. */
  const current = (by: Caller): Caller => {
    const token = tokens.get(tokenNameOf(by.user) ?? '');
    return token === undefined ? by : { ...by, tokenId: token.id };
  };
  const approve = (by: Caller, name: string) =>
    patch(current(by), approvalKind, name, { spec: { decision: 'approved' } });
  const tokenParts = { store, clock, random, authorizer, tokens, audit, approvers };
  const token = (by: Caller, name: string, role: string, ttlSeconds?: number) =>
    createToken(tokenParts, by, {
      name,
      role,
      ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
    });
  const revoke = (by: Caller, name: string) => revokeToken(tokenParts, by, name);
  await writer.create(
    siteKind,
    { apiVersion, kind: 'Site', metadata: { name: 'site' }, spec: {} },
    context(controllerCaller('site'), 'create'),
  );
  /** As a Site with this policy. */
  const policy = (by: Caller, rules: Readonly<Record<string, string>>) =>
    patch(by, siteKind, 'site', {
      spec: {
        approvals: { rules: Object.entries(rules).map(([action, mode]) => ({ action, mode })) },
      },
    });
  return { ...opened, create, patch, remove, approve, token, revoke, policy, warnings };
}

/** The name of the Approval that the write needs. */
async function needed(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  assert.ok(hasCode(error, 'HANSA_APPROVAL_REQUIRED'), String(error));
  return error.details?.name ?? '';
}

const forbids = (why: RegExp) => (error: unknown) =>
  hasCode(error, 'HANSA_FORBIDDEN') && why.test(error.message);

suite('a write that needs approval', () => {
  test('is refused with the name of an Approval, and passes once it is approved', async () => {
    const { create, approve, policy, approvals, store } = await scene();
    await policy(owner, { 'Boat.create': 'approver' });
    const write = () => create(ci, boatKind, { name: 'cog' }, { berths: 2 });
    const name = await needed(write());
    assert.equal(store.get('boats', 'cog'), undefined);
    const [approval] = approvals();
    assert.deepEqual(JSON.parse(approval?.spec.change ?? ''), {
      spec: { berths: 2, home: 'lubeck' },
    });
    await approve(ada, name);
    await write();
    assert.ok(store.get('boats', 'cog'));
    assert.equal(approvals()[0]?.status?.state, 'spent');
  });

  test('is for the spec, metadata, uid and generation that the approver saw', async () => {
    const { create, patch, remove, approve, policy, approvals } = await scene();
    await create(owner, boatKind, { name: 'cog' }, { berths: 2 });
    await policy(owner, { 'Boat.update': 'approver' });
    const name = await needed(patch(ci, boatKind, 'cog', { spec: { berths: 4 } }));
    await approve(ada, name);
    const more = { spec: { berths: 4 }, metadata: { labels: { a: 'b' } } };
    assert.notEqual(await needed(patch(ci, boatKind, 'cog', more)), name);
    assert.notEqual(await needed(patch(ci, boatKind, 'cog', { spec: { berths: 5 } })), name);
    // The live spec changes: the approved result would undo that change unseen.
    await patch(owner, boatKind, 'cog', { spec: { home: 'bruges' } });
    await needed(patch(ci, boatKind, 'cog', { spec: { berths: 4, home: 'lubeck' } }));
    await remove(owner, boatKind, 'cog');
    await create(owner, boatKind, { name: 'cog' }, { berths: 2 });
    await needed(patch(ci, boatKind, 'cog', { spec: { berths: 4 } }));
    assert.ok(approvals().every(({ status }) => status?.state !== 'spent'));
  });

  test('is done once by two concurrent writers', async () => {
    const { create, patch, approve, policy, approvals } = await scene();
    await create(owner, boatKind, { name: 'cog' }, { berths: 2 });
    await policy(owner, { 'Boat.update': 'approver', 'Boat.delete': 'approver' });
    const write = () => patch(ci, boatKind, 'cog', { spec: { berths: 4 } });
    await approve(ada, await needed(write()));
    const results = await Promise.allSettled([write(), write()]);
    assert.ok(results.some(({ status }) => status === 'fulfilled'));
    assert.equal(approvals().filter(({ status }) => status?.state === 'spent').length, 1);
  });

  test('can be a deletion', async () => {
    const { create, remove, approve, policy, store } = await scene();
    await create(owner, boatKind, { name: 'cog' }, { berths: 2 });
    await policy(owner, { 'Boat.delete': 'approver' });
    await approve(ada, await needed(remove(ci, boatKind, 'cog')));
    await remove(ci, boatKind, 'cog');
    assert.equal(store.get('boats', 'cog'), undefined);
  });

  test('is still one while the object is being deleted, except for the end of the deletion', async () => {
    const { create, patch, remove, policy, token, store } = await scene([]);
    await token(owner, 'ada', 'viewer');
    const metadata = { finalizers: ['example.dev/a', 'example.dev/b'] };
    await create(owner, roleKind, { name: 'sly', ...metadata }, { rules: [] });
    await create(owner, boatKind, { name: 'cog', ...metadata }, { berths: 2 });
    await policy(owner, { 'Boat.update': 'two-person' });
    await remove(owner, roleKind, 'sly');
    await remove(owner, boatKind, 'cog');
    const rules = [{ kinds: ['Approval'], verbs: ['*'] }];
    await needed(patch(owner, roleKind, 'sly', { spec: { rules } }));
    const release = { metadata: { finalizers: ['example.dev/a'] } };
    await needed(patch(owner, roleKind, 'sly', { ...release, spec: { rules } }));
    await needed(patch(owner, boatKind, 'cog', { metadata: { labels: { a: 'b' } } }));
    for (const [kind, name] of [
      [roleKind, 'sly'],
      [boatKind, 'cog'],
    ] as const) {
      await patch(owner, kind, name, release);
      assert.ok(store.get(kind.plural, name));
      await patch(owner, kind, name, { metadata: { finalizers: null } });
      assert.equal(store.get(kind.plural, name), undefined);
    }
  });

  test('makes no Approval as a dry run, and without a change', async () => {
    const { create, patch, remove, policy, approvals, warnings, store } = await scene();
    await create(owner, boatKind, { name: 'cog' }, { berths: 2 });
    const operations = ['create', 'update', 'delete'];
    await policy(owner, Object.fromEntries(operations.map((one) => [`Boat.${one}`, 'approver'])));
    await create(ci, boatKind, { name: 'hulk' }, { berths: 2 }, true);
    await patch(ci, boatKind, 'cog', { spec: { berths: 3 } }, true);
    await remove(ci, boatKind, 'cog', true);
    assert.ok(store.get('boats', 'cog'));
    assert.equal(warnings.length, operations.length);
    for (const [at, one] of operations.entries()) {
      assert.match(warnings[at] ?? '', new RegExp(`needs approval.*Boat\\.${one}`));
    }
    await patch(ci, boatKind, 'cog', { spec: { berths: 2 } });
    assert.deepEqual(approvals(), []);
  });

  test('needs a name', async () => {
    const { create, policy } = await scene();
    await policy(owner, { 'Boat.create': 'approver' });
    await assert.rejects(
      create(ci, boatKind, { generateName: 'cog-' }, { berths: 2 }),
      /set metadata\.name/,
    );
  });
});

suite('an Approval', () => {
  test('cannot be created, nor changed in anything but its decision', async () => {
    const { create, patch, policy, approvals } = await scene();
    await policy(owner, { 'Boat.create': 'approver' });
    const name = await needed(create(ci, boatKind, { name: 'cog' }, { berths: 2 }));
    const { spec } = approvals()[0] as Approval;
    await assert.rejects(
      create(owner, approvalKind, { name: 'mine' }, { ...spec, decision: 'approved' }),
      forbids(/the site creates Approvals/),
    );
    const edits = [
      { hash: 'a'.repeat(64) },
      { change: '{}' },
      { requester: { user: 'token:eve' } },
      { mode: 'two-person' },
      { expiresAt: '2099-01-01T00:00:00Z', decision: 'approved' },
      { target: { kind: 'Boat', name: 'other' } },
    ];
    for (const edit of edits) {
      await assert.rejects(
        patch(ada, approvalKind, name, { spec: edit }),
        forbids(/only spec\.decision/),
      );
    }
    await assert.rejects(
      patch(ada, approvalKind, name, { spec: { comment: 'hm' } }),
      forbids(/needs a spec\.decision/),
    );
    await patch(ada, approvalKind, name, { spec: { decision: 'approved', comment: 'fine' } });
    assert.equal(approvals()[0]?.status?.reason, 'approved by token:ada: fine');
    for (const decision of ['rejected', null]) {
      await assert.rejects(
        patch(ada, approvalKind, name, { spec: { decision } }),
        forbids(/already approved/),
      );
    }
  });

  test('is not decided by its requester, nor by a status that a user sends', async () => {
    const { create, patch, approve, policy, approvals, token } = await scene([]);
    await token(owner, 'ada', 'viewer');
    await policy(owner, { 'Boat.create': 'two-person' });
    const name = await needed(create(ada, boatKind, { name: 'cog' }, { berths: 2 }));
    await assert.rejects(approve(ada, name), forbids(/requested it/));
    await assert.rejects(approve(owner, name), forbids(/two-person rule/));
    await patch(ada, approvalKind, name, { status: { state: 'approved' } });
    assert.equal(approvals()[0]?.status?.state, 'pending');
  });
});

suite('the approval policy', () => {
  test('names known actions only, and needs a token that can approve', async () => {
    const { policy, token } = await scene([]);
    const isInvalid = (why: RegExp) => (error: unknown) =>
      hasCode(error, 'HANSA_INVALID') && why.test(error.message);
    await assert.rejects(policy(owner, { 'Ship.create': 'none' }), isInvalid(/rules\[0\]\.action/));
    await assert.rejects(policy(owner, { 'Approval.update': 'none' }), isInvalid(/Approval/));
    await assert.rejects(policy(owner, { 'Boat.create': 'two-person' }), isInvalid(/no token can/));
    await token(owner, 'ada', 'viewer');
    await policy(owner, { 'Boat.create': 'two-person' });
  });

  test('is weakened only with an approval under the old policy', async () => {
    const { policy, patch, token, approve } = await scene([]);
    await token(owner, 'ada', 'viewer');
    await policy(owner, { 'Boat.create': 'two-person' });
    const weaken = () => policy(owner, { 'Boat.create': 'approver' });
    const name = await needed(weaken());
    await needed(patch(owner, siteKind, 'site', { spec: { approvals: null } }));
    // What strengthens it, or changes something else, needs none.
    await patch(owner, siteKind, 'site', { spec: { location: 'quay' } });
    const stronger = { 'Boat.create': 'two-person', 'Boat.delete': 'two-person' };
    await policy(owner, stronger);
    await approve(ada, name);
    // The approved result would also drop the rule for deletions: the Site has another generation now.
    assert.notEqual(await needed(weaken()), name);
    await approve(ada, await needed(weaken()));
    await weaken();
  });

  test('protects the rights to approve: roles, bindings and tokens', async () => {
    const { policy, create, patch, remove, token, approve, bind } = await scene([]);
    await token(owner, 'ada', 'viewer');
    await bind('plain', { role: 'viewer', subjects: [{ kind: 'Token', name: 'eve' }] });
    await policy(owner, { 'Boat.create': 'two-person' });
    const eve = { role: 'approver', subjects: [{ kind: 'Token', name: 'eve' }] };
    await needed(create(owner, roleBindingKind, { name: 'eve' }, eve));
    await needed(create(owner, roleBindingKind, { name: 'eve' }, { ...eve, role: 'admin' }));
    await needed(patch(owner, roleBindingKind, 'approvers', { spec: eve }));
    await needed(remove(owner, roleBindingKind, 'approvers'));
    const rules = [{ kinds: ['Approval'], verbs: ['*'] }];
    await needed(create(owner, roleKind, { name: 'sly' }, { rules }));
    await needed(token(owner, 'eve', 'approver'));
    // Revoked and created again, the token would have the rights of the binding that names it.
    await needed(token(owner, 'bob', 'viewer'));
    await token(owner, 'carl', 'viewer');
    const name = await needed(token(owner, 'eve', 'admin'));
    await approve(ada, name);
    await assert.rejects(token(tokenCaller('cd'), 'eve', 'admin'), HansaError);
    await token(owner, 'eve', 'admin');
    await needed(token(owner, 'fay', 'admin'));
  });

  test('protects the roles of approvers: without the right to change an Approval nobody decides', async () => {
    const { policy, patch, token, bind, role } = await scene([]);
    await role('deciders', [{ kinds: ['Approval'], verbs: ['approve', 'update', 'patch'] }]);
    await bind('deciders', { role: 'deciders', subjects: [{ kind: 'Token', name: 'eve' }] });
    await token(owner, 'eve', 'viewer');
    await policy(owner, { 'Boat.create': 'two-person' });
    const rules = [{ kinds: ['Approval'], verbs: ['approve'] }];
    await needed(patch(owner, roleKind, 'deciders', { spec: { rules } }));
  });

  test('has its rule for new bindings also for new tokens, which come with one', async () => {
    const { policy, token, approve, clock, approvals } = await scene([]);
    await token(owner, 'ada', 'viewer', 86_400);
    await policy(owner, { 'RoleBinding.create': 'two-person' });
    const name = await needed(token(owner, 'eve', 'viewer'));
    assert.equal(approvals()[0]?.spec.summary, 'create the token eve with the role viewer');
    await approve(ada, name);
    await token(owner, 'eve', 'viewer');
    // After the last approver expired, the owner begins with another approver.
    await clock.advance(86_400_000);
    await needed(token(owner, 'fay', 'viewer'));
    await token(owner, 'gus', 'approver');
  });

  test('lets nobody revoke the approver who stays longest without approval', async () => {
    const { policy, token, revoke, approve, approvals, tokens } = await scene([]);
    const days = (count: number) => count * 86_400;
    await token(owner, 'ada', 'viewer', days(300));
    await token(owner, 'bob', 'viewer', days(1));
    await policy(owner, { 'Boat.create': 'two-person' });
    const name = await needed(revoke(owner, 'ada'));
    assert.ok(tokens.get('ada'));
    await approve(tokenCaller('bob'), name);
    await revoke(owner, 'ada');
    assert.equal(tokens.get('ada'), undefined);
    assert.equal(approvals()[0]?.status?.state, 'spent');
    // The last one still cannot be revoked, and one that others outlive can.
    await assert.rejects(revoke(owner, 'bob'), forbids(/no other token can approve/));
    await approve(tokenCaller('bob'), await needed(token(owner, 'eve', 'approver', days(2))));
    await token(owner, 'eve', 'approver', days(2));
    await revoke(owner, 'bob');
  });

  test('keeps the last token that can approve, and lets the owner recover when it expired', async () => {
    const { policy, token, revoke, clock, approve } = await scene([]);
    await token(owner, 'ada', 'viewer');
    await token(owner, 'bob', 'viewer');
    await policy(owner, { 'Boat.create': 'two-person' });
    const both = await Promise.allSettled([revoke(owner, 'ada'), revoke(owner, 'bob')]);
    assert.deepEqual(both.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    const left = both[0]?.status === 'rejected' ? 'ada' : 'bob';
    await assert.rejects(revoke(owner, left), forbids(/no other token can approve/));
    const other = await needed(token(owner, 'eve', 'approver'));
    await approve(tokenCaller(left), other);
    await token(owner, 'eve', 'approver');
    await revoke(owner, left);
    await clock.advance(31 * 86_400_000);
    await token(owner, 'fay', 'approver');
    await needed(token(owner, 'gus', 'approver'));
  });
});
