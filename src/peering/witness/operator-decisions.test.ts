import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Approval, approvalKind } from '../../api/kinds/approval.ts';
import { type Caller, socketOwner, tokenCaller } from '../../core/access/identity.ts';
import { decideIn } from '../../core/approvals/test-approvals.ts';
import { signCheckpoint } from '../../core/audit/checkpoint.ts';
import { latestRestore, restoreCollection } from '../../core/audit/restore-record.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { hasCode } from '../../core/errors/error.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { withErrorCode } from '../../core/store/conformance/harness.ts';
import { kindReader } from '../../core/store/reader.ts';
import { peeringPaths } from '../paths.ts';
import { type WitnessedSummary, witnessRoutes } from '../routes/witness-routes.ts';
import { findingId } from './finding.ts';
import {
  acquainted,
  beat,
  cosigns,
  finding,
  testWitnessSite,
  type TestWitnessSite,
} from './test-witness-site.ts';

const peer = 'lubeck.example';
const ci = tokenCaller('ci');
const approvals = kindReader(approvalKind);

async function call<T>(
  site: TestWitnessSite,
  path: string,
  body: object | undefined,
  caller: Caller = socketOwner,
): Promise<T> {
  const route = witnessRoutes(site.witness, site.publicLog, site.decisions).find(
    (each) => each.path === path,
  );
  const text = body === undefined ? '' : JSON.stringify(body);
  const answer = await callRoute(route, { caller, params: { name: peer }, body: text });
  return JSON.parse(String(answer.body)) as T;
}

/** What `hansa witness show` prints. */
async function shown(site: TestWitnessSite): Promise<WitnessedSummary> {
  const path = peeringPaths.witness;
  const { logs } = await call<{ readonly logs: readonly WitnessedSummary[] }>(site, path, {});
  return logs.find(({ name }) => name === peer) as WitnessedSummary;
}

const acknowledge = (site: TestWitnessSite, body: object | undefined, caller?: Caller) =>
  call<WitnessedSummary>(site, peeringPaths.witnessAcknowledge, body, caller);

async function unsigned() {
  const lubeck = await testWitnessSite(peer, { seed: 1 });
  const bruges = await testWitnessSite('bruges.example', { seed: 2 });
  await acquainted(lubeck, bruges);
  await beat(lubeck, bruges, ({ checkpoint: _gone, ...part }) => part);
  assert.equal(finding(bruges, peer), 'Unsigned');
  return { lubeck, bruges };
}

async function needed(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  assert.ok(hasCode(error, 'HANSA_APPROVAL_REQUIRED'), String(error));
  return error.details?.name ?? '';
}

const approvalOf = ({ store }: TestWitnessSite, name: string): Approval | undefined =>
  approvals.get(store, name);

describe('an acknowledgement', () => {
  test('ends the finding that was shown', async () => {
    const { bruges } = await unsigned();
    const { finding: found } = await shown(bruges);
    const after = await acknowledge(bruges, { finding: found?.id });
    assert.equal(after.finding, undefined);
    assert.equal(await bruges.condition(peer), 'Consistent');
  });

  test('does not end a graver finding that came after it was shown', async () => {
    const { lubeck, bruges } = await unsigned();
    const { finding: found } = await shown(bruges);
    const size = bruges.witness.logs.get(peer)?.value.size ?? 0;
    const fork = await signCheckpoint(testSigner(peer, 1), { size, rootHash: Buffer.alloc(32, 7) });
    await beat(lubeck, bruges, (part) => ({ ...part, checkpoint: fork }));
    await assert.rejects(acknowledge(bruges, { finding: found?.id }), (error) => {
      assert.ok(hasCode(error, 'HANSA_CONFLICT'));
      assert.match(error.message, /another one now, [0-9a-f]{16} \(Forked\)/);
      return true;
    });
    assert.equal(finding(bruges, peer), 'Forked');
    assert.equal(await cosigns(bruges, peer), false);
    assert.deepEqual(await bruges.events('witness.acknowledge'), []);
  });

  test('must name a finding', async () => {
    const { bruges } = await unsigned();
    for (const body of [undefined, {}, { finding: '' }, { finding: 7 }, { finding: null }]) {
      await assert.rejects(acknowledge(bruges, body), withErrorCode('HANSA_BAD_REQUEST'));
    }
    assert.equal(finding(bruges, peer), 'Unsigned');
  });

  test('of a log without a finding, or of no log, is refused', async () => {
    const { bruges } = await unsigned();
    const { finding: found } = await shown(bruges);
    await acknowledge(bruges, { finding: found?.id });
    const again = acknowledge(bruges, { finding: found?.id });
    await assert.rejects(again, withErrorCode('HANSA_CONFLICT'));
    const stranger = await testWitnessSite('novgorod.example', { seed: 3 });
    const none = acknowledge(stranger, { finding: found?.id });
    await assert.rejects(none, withErrorCode('HANSA_NOT_FOUND'));
  });

  test('waits for an approver, who sees the finding and its proof, and spends the Approval', async () => {
    const { bruges } = await unsigned();
    const { finding: found } = await shown(bruges);
    const body = { finding: found?.id };
    const name = await needed(acknowledge(bruges, body, ci));
    assert.equal(finding(bruges, peer), 'Unsigned');
    const { spec } = approvalOf(bruges, name) ?? {};
    assert.equal(spec?.action, 'witness.acknowledge');
    const { finding: id, proof } = JSON.parse(spec.change) as Record<string, unknown>;
    assert.equal(id, found?.id);
    assert.deepEqual(proof, found?.proof);
    await decideIn(bruges, socketOwner, name, 'approved');
    await acknowledge(bruges, body, ci);
    assert.equal(finding(bruges, peer), undefined);
    assert.equal(approvalOf(bruges, name)?.status?.state, 'spent');
    const [row] = await bruges.events('witness.acknowledge');
    assert.equal(row?.actor.user, ci.user);
  });

  test('with the Approval for another finding is refused', async () => {
    const { lubeck, bruges } = await unsigned();
    const { finding: found } = await shown(bruges);
    const name = await needed(acknowledge(bruges, { finding: found?.id }, ci));
    await decideIn(bruges, socketOwner, name, 'approved');
    const size = bruges.witness.logs.get(peer)?.value.size ?? 0;
    const fork = await signCheckpoint(testSigner(peer, 1), { size, rootHash: Buffer.alloc(32, 7) });
    await beat(lubeck, bruges, (part) => ({ ...part, checkpoint: fork }));
    const { finding: graver } = await shown(bruges);
    const another = await needed(acknowledge(bruges, { finding: graver?.id }, ci));
    assert.notEqual(another, name);
    assert.equal(finding(bruges, peer), 'Forked');
    assert.equal(approvalOf(bruges, name)?.status?.state, 'approved');
  });

  test('that a heartbeat overtakes is repeated', async () => {
    const { lubeck, bruges } = await unsigned();
    const { logs } = bruges.witness;
    const put = logs.put.bind(logs);
    let overtaken = 0;
    logs.put = async (name, before, value, audit, spent) => {
      if (overtaken++ === 0) {
        const current = logs.get(name);
        assert.ok(current);
        await put(name, current, { ...current.value, uid: 'another' });
      }
      return put(name, before, value, audit, spent);
    };
    const { finding: found } = await shown(bruges);
    await acknowledge(bruges, { finding: found?.id });
    assert.equal(bruges.witness.logs.get(lubeck.name)?.value.uid, 'another');
    assert.equal(finding(bruges, peer), undefined);
  });

  test('names findings that differ in anything differently', () => {
    const found = { reason: 'Shrank', message: 'm', proof: ['a', 'b'], atMs: 1 } as const;
    const others = [
      { ...found, reason: 'Forked' },
      { ...found, message: 'n' },
      { ...found, proof: ['ab'] },
      { ...found, atMs: 2 },
    ] as const;
    const ids = [found, ...others].map(findingId);
    assert.equal(new Set(ids).size, ids.length);
  });
});

describe('the confirmation of a size', () => {
  test('waits for an approver, for this restore, however the log grows', async () => {
    const lubeck = await testWitnessSite(peer, { seed: 1 });
    const bruges = await testWitnessSite('bruges.example', { seed: 2 });
    await acquainted(lubeck, bruges);
    const restore = (text: string) =>
      bruges.store.commit({
        put: [
          { collection: restoreCollection, name: latestRestore, encode: () => Buffer.from(text) },
        ],
      });
    await restore('the first restore');
    const confirm = (caller: Caller) =>
      call<WitnessedSummary>(bruges, peeringPaths.witnessConfirm, undefined, caller);
    const name = await needed(confirm(ci));
    assert.equal(approvalOf(bruges, name)?.spec.action, 'witness.confirm');
    await decideIn(bruges, socketOwner, name, 'approved');
    await restore('the second restore');
    const another = await needed(confirm(ci));
    assert.notEqual(another, name);
    await decideIn(bruges, socketOwner, another, 'approved');
    await lubeck.write(3);
    await beat(lubeck, bruges);
    assert.equal((await confirm(ci)).confirmed, true);
    assert.ok(await cosigns(bruges, peer));
    await assert.rejects(confirm(socketOwner), withErrorCode('HANSA_CONFLICT'));
  });
});
