import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { personCaller, tokenCaller } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import type { WriteContext } from '../../server/resources/writer.ts';
import { type TestPeerSite, testPeerSite } from '../handshake/test-peer-site.ts';
import { wishesCollection } from './wishes.ts';

const name = 'bruges.example';
/** May approve, so that resuming and deleting need nobody else. */
const owner = personCaller('admin', '0a');
const ci = tokenCaller('ci');

suite('what an operator asks of a peer', () => {
  let site: TestPeerSite;

  beforeEach(async () => {
    site = await testPeerSite();
    await site.redeem(name);
    await site.handshake.admit(name);
    await site.peers.step(name, 'activate', 'for the test');
    site.rows.length = 0;
  });

  const context = (caller: WriteContext['caller'], requestId: string): WriteContext => ({
    caller,
    verb: 'patch',
    options: { dryRun: false, manager: 'kubectl', fieldValidation: 'Strict', force: false },
    requestId,
    address: '192.0.2.7',
  });
  const patch = (desiredState: string, caller: WriteContext['caller'], requestId: string) =>
    site.writer.update(federationPeerKind, name, undefined, context(caller, requestId), (live) => ({
      ...(live as NonNullable<typeof live>),
      spec: { url: 'https://bruges.example:8443/', desiredState },
    }));
  const rowOf = (verb: string): AuditDraft | undefined =>
    site.rows.find((row) => row.verb === verb);

  test('is suspended in the name of the caller, with the request, when the controller comes to it', async () => {
    await patch('suspended', ci, 'request-1');
    await site.handshake.distrust(name);
    const row = rowOf('peer.suspend');
    assert.equal(row?.actor.user, 'token:ci');
    assert.equal(row?.actor.via, 'token');
    assert.equal(row?.actor.address, '192.0.2.7');
    assert.equal(row?.requestId, 'request-1');
    assert.equal(row?.reason, 'active → suspended: token:ci suspended it');
    assert.equal((await site.peers.get(name))?.status?.reason, 'token:ci suspended it');
  });

  test('is told by the row of the request itself', async () => {
    await patch('suspended', ci, 'request-1');
    assert.equal(rowOf('patch')?.reason, 'asks to suspend the peer');
    assert.equal(rowOf('patch')?.requestId, 'request-1');
    await patch('active', owner, 'request-2');
    assert.equal(site.rows.at(-1)?.reason, 'asks to resume the peer');
  });

  test('records the user who resumed it, not the one who suspended it', async () => {
    await patch('suspended', ci, 'request-1');
    await site.handshake.distrust(name);
    await patch('active', owner, 'request-2');
    await site.handshake.reconcile(name, new AbortController().signal);
    const row = rowOf('peer.resume');
    assert.equal(row?.actor.user, 'admin');
    assert.equal(row?.requestId, 'request-2');
  });

  test('records the user who deleted the object as the one who revoked it', async () => {
    const asked = { dryRun: false, uid: undefined, resourceVersion: undefined };
    await site.writer.delete(federationPeerKind, name, asked, {
      ...context(owner, 'request-3'),
      verb: 'delete',
    });
    await site.handshake.distrust(name);
    const row = rowOf('peer.revoke');
    assert.equal(row?.actor.user, 'admin');
    assert.equal(row?.requestId, 'request-3');
    assert.match(row?.reason ?? '', /admin deleted it$/);
    assert.equal(site.store.get(wishesCollection, name), undefined);
  });

  test('records the user who called the revoke route', async () => {
    await site.handshake.revoke(name, { caller: owner, origin: { requestId: 'request-4' } });
    assert.equal(rowOf('peer.revoke')?.actor.user, 'admin');
    assert.equal(rowOf('peer.revoke')?.requestId, 'request-4');
  });

  test('is not changed by a write that asks for nothing', async () => {
    await patch('suspended', ci, 'request-1');
    await site.writer.update(
      federationPeerKind,
      name,
      undefined,
      context(owner, 'request-5'),
      (live) => ({
        ...(live as NonNullable<typeof live>),
        metadata: { ...live?.metadata, labels: { zone: 'harbour' } },
      }),
    );
    await site.handshake.distrust(name);
    assert.equal(rowOf('peer.suspend')?.actor.user, 'token:ci');
  });

  test('is the controller’s where nothing tells who asked, as in data of earlier versions', async () => {
    await patch('suspended', ci, 'request-1');
    await site.store.commit({ delete: [{ collection: wishesCollection, name }] });
    await site.handshake.distrust(name);
    assert.equal(rowOf('peer.suspend')?.actor.via, 'controller');
    assert.match(rowOf('peer.suspend')?.reason ?? '', /an operator of this site suspended it/);
  });
});
