import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { openStore } from '../../core/store/open.ts';
import type { MemberRecord } from '../leaving/member-record.ts';
import { MemberRecords } from '../leaving/member-records.ts';
import { leavingRoute } from './leaving-route.ts';

async function setUp(leaving?: MemberRecord['leaving']) {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  const records = new MemberRecords(store);
  const record: MemberRecord = {
    settings: { clusterID: 'app1' },
    federation: { uid: 'u', generation: 1 },
    ...(leaving && { leaving }),
  };
  await records.save(new Map([['app1', record]]), new Map());
  const audited: AuditDraft[] = [];
  const audit = {
    record: (draft: AuditDraft) => {
      audited.push(draft);
      return { encode: () => Buffer.from('row') };
    },
    deny: () => undefined,
    later: () => undefined,
  };
  const route = leavingRoute({ store, audit });
  const forget = async (id: string): Promise<unknown> => {
    const { status, body } = await callRoute(route, { caller: socketOwner, params: { id } });
    assert.equal(status, 200);
    return JSON.parse(body.toString());
  };
  return { records, audited, forget };
}

describe('forgetting a cluster that left', () => {
  test('ends the work of the site, with an audit row', async () => {
    const { records, audited, forget } = await setUp({ sinceMs: 1, cause: 'Removed' });
    assert.deepEqual(await forget('app1'), { clusterID: 'app1', forgotten: true });
    assert.equal(records.get('app1'), undefined);
    assert.deepEqual(
      audited.map(({ verb, name, outcome }) => [verb, name, outcome]),
      [['member.forget', 'app1', 'allow']],
    );
  });

  test('does nothing to a member that Federation lists, or that is unknown', async () => {
    const { records, audited, forget } = await setUp();
    assert.deepEqual(await forget('app1'), { clusterID: 'app1', forgotten: false });
    assert.deepEqual(await forget('app9'), { clusterID: 'app9', forgotten: false });
    assert.ok(records.get('app1') !== undefined);
    assert.deepEqual(audited, []);
  });
});
