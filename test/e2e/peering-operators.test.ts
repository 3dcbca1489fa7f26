// The operators' commands for invitations and peers at two real sites, and the output at each site.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditEvent } from '../../src/core/audit/event.ts';
import { hansa, temporaryFolder } from './daemon.ts';
import type { InvitationSummary } from '../../src/peering/routes/invitation-routes.ts';
import { type PeeringSite, startPair } from './peering-pair.ts';
import { until } from './until.ts';

suite('operators of two sites', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;

  /** Calls itself bruges.example too, with keys of its own. */
  let thief: PeeringSite;

  before(async () => {
    [lubeck, bruges] = (await startPair('lubeck', 'bruges')) as [PeeringSite, PeeringSite];
    [thief] = (await startPair('bruges')) as [PeeringSite];
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop(), thief?.stop()]));

  const fingerprint = async (site: PeeringSite): Promise<string> =>
    (JSON.parse(await site.must(['status', '-o', 'json'])) as { fingerprint: string }).fingerprint;
  const invitations = async (): Promise<readonly InvitationSummary[]> => {
    const list = await lubeck.must(['peer', 'invitation', 'list', '-o', 'json']);
    return (JSON.parse(list) as { invitations: InvitationSummary[] }).invitations;
  };

  /** The flags of a remote user with a new token. */
  const withToken = async (name: string, role: string): Promise<readonly string[]> => {
    const made = await lubeck.must(['access', 'token', 'create', name, '--role', role]);
    const { dataDir, endpoints } = lubeck.daemon;
    const [token, caFile] = [join(temporaryFolder(), 'token'), join(dataDir, 'ca.pem')];
    writeFileSync(token, made, { mode: 0o600 });
    return ['--site', endpoints.api, '--ca-file', caFile, '--token-file', token];
  };

  test('list invitations and cancel one, after which nobody redeems it', async () => {
    const line = await lubeck.invite(['--for', 'bruges.example']);
    const [made] = await invitations();
    assert.equal(made?.state, 'open');
    assert.equal(made?.createdBy, 'admin');
    const table = await lubeck.must(['peer', 'invitation', 'list']);
    assert.match(table, new RegExp(`^${made?.id.slice(0, 12)} +bruges\\.example +open`, 'm'));
    assert.match(
      await lubeck.must(['peer', 'invitation', 'cancel', made?.id.slice(0, 8) ?? '']),
      /cancelled/,
    );
    const { code, stderr } = await bruges.accept(line);
    assert.equal(code, 7);
    assert.match(stderr, /lubeck\.example cancelled it.*HANSA_INVITATION_REFUSED/);
    assert.match(await lubeck.must(['audit', 'list', '--verb', 'invitation.cancel']), /admin/);
  });

  test('bind an invitation to the keys that the status of the invited site shows', async () => {
    assert.match(await bruges.must(['status']), new RegExp(await fingerprint(bruges)));
    const line = await lubeck.invite(['--for', `bruges.example@${await fingerprint(bruges)}`]);
    const stolen = await thief.accept(line);
    assert.notEqual(stolen.code, 0);
    assert.match(stolen.stderr, /it is for other keys of bruges\.example/);
    assert.equal((await bruges.accept(line)).code, 0);
    await lubeck.until('bruges.example', 'active');
    await lubeck.must(['peer', 'revoke', 'bruges.example']);
    await bruges.must(['peer', 'revoke', 'lubeck.example']);
    await lubeck.must(['delete', 'peer', 'bruges.example']);
  });

  test('both see that another site redeemed the invitation first', async () => {
    const line = await lubeck.invite(['--for', 'bruges.example']);
    assert.equal((await thief.accept(line)).code, 0);
    await lubeck.until('bruges.example', 'active');
    const { code, stderr } = await bruges.accept(line);
    assert.equal(code, 5);
    assert.match(
      stderr,
      /a bruges\.example with other keys .* already redeemed .*If that was not your site, ask the operator of lubeck\.example to revoke bruges\.example/,
    );
    const shown = await bruges.must(['peer', 'show', 'lubeck.example']);
    assert.match(shown, /state +revoked/);
    assert.match(shown, /with other keys/);
    const [own, others] = [await fingerprint(bruges), await fingerprint(thief)];
    await until(async () => (await lubeck.peer('bruges.example'))?.alert !== undefined);
    assert.match(
      await lubeck.must(['peer', 'list']),
      /bruges\.example +active .*another site tried to redeem its invitation/,
    );
    const told = await lubeck.must(['peer', 'show', 'bruges.example']);
    assert.match(told, new RegExp(`fingerprint ${own} tried to redeem the same invitation`));
    assert.match(told, new RegExp(`the peer has the fingerprint ${others}`));
    const log = await lubeck.must(['audit', 'list', '--verb', 'invitation.contest', '-o', 'json']);
    assert.match(log, /HANSA_INVITATION_REDEEMED/);
    assert.equal((await invitations())[0]?.contestedBy, 'bruges.example');
  });

  test('keep a peer after an alert by confirming it', async () => {
    await lubeck.must(['peer', 'confirm', 'bruges.example']);
    const peer = await lubeck.peer('bruges.example');
    assert.equal(peer?.state, 'active');
    assert.equal(peer?.alert, undefined);
    assert.match(await lubeck.must(['audit', 'list', '--verb', 'peer.confirm']), /admin/);
  });

  test('find in the audit log who suspended a peer, and with which request', async () => {
    const remote = await hansa([
      'peer',
      'suspend',
      'bruges.example',
      ...(await withToken('ops', 'admin')),
    ]);
    assert.equal(remote.code, 0, remote.stderr);
    const events = async (...args: string[]): Promise<readonly AuditEvent[]> => {
      const text = await lubeck.must(['audit', 'list', ...args, '-o', 'json']);
      return (JSON.parse(text) as { events: AuditEvent[] }).events;
    };
    const [suspension] = await events('--verb', 'peer.suspend');
    assert.equal(suspension?.actor.user, 'token:ops');
    assert.match(suspension?.reason ?? '', /token:ops suspended it/);
    const request = (await events('--verb', 'patch')).find(
      ({ requestId }) => requestId === suspension?.requestId,
    );
    assert.equal(request?.reason, 'asks to suspend the peer');
    assert.match(await lubeck.must(['peer', 'show', 'bruges.example']), /token:ops suspended it/);
  });

  test('are asked before a peer is deleted, as before it is revoked', async () => {
    const peer = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'FederationPeer',
      metadata: { name: 'reval.example' },
      spec: { url: 'https://reval.example:8443/' },
    };
    await lubeck.must(['apply', '-f', '-'], JSON.stringify(peer));
    const { dataDir } = lubeck.daemon;
    const asked = await hansa(['delete', 'peer', 'reval.example', '--data-dir', dataDir]);
    assert.equal(asked.code, 2);
    assert.match(asked.stderr, /reval\.example\? .*immediately stop trusting each other.*--yes/);
    const tried = ['delete', 'peer', 'reval.example', '--dry-run', '--data-dir', dataDir];
    assert.equal((await hansa(tried)).code, 0);
    await lubeck.must(['get', 'peer', 'reval.example']);
    await lubeck.must(['delete', 'peer', 'reval.example']);
    assert.equal((await lubeck.run(['get', 'peer', 'reval.example'])).code, 4);
  });

  test('revoke in an emergency without an approval, and another one reviews it', async () => {
    const ada = await withToken('ada', 'approver');
    const approvals = { rules: [{ action: 'peer.revoke', mode: 'two-person' }] };
    const site = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Site',
      metadata: { name: 'site' },
      spec: { advertiseURL: lubeck.federationUrl, approvals },
    };
    await lubeck.must(['apply', '-f', '-'], JSON.stringify(site));
    const revoke = ['peer', 'revoke', 'bruges.example'];
    const waits = await lubeck.run(revoke);
    assert.equal(waits.code, 7, waits.stderr);
    assert.match(waits.stderr, /waits for another user with a token and the role approver/);
    assert.notEqual((await lubeck.peer('bruges.example'))?.state, 'revoked');

    const done = await lubeck.run([...revoke, '--emergency', 'its signing key was stolen']);
    assert.equal(done.code, 0, done.stderr);
    assert.match(done.stdout, /^bruges\.example is revoked/);
    assert.equal((await lubeck.peer('bruges.example'))?.state, 'revoked');
    const review = /hansa approval show (\S+)/.exec(done.stderr)?.[1] ?? '';
    assert.match(await lubeck.must(['approval', 'list']), new RegExp(review));
    assert.match(await lubeck.must(['approval', 'show', review]), /its signing key was stolen/);
    const own = await lubeck.run(['approval', 'approve', review]);
    assert.notEqual(own.code, 0);
    assert.match(own.stderr, /another user must review it/);
    const reviewed = await hansa(['approval', 'approve', review, '--yes', ...ada]);
    assert.equal(reviewed.code, 0, reviewed.stderr);
    const log = await lubeck.must(['audit', 'list', '--peer', 'bruges.example']);
    for (const verb of ['approval.requested', 'peer.revoke', 'approval.approved']) {
      assert.ok(log.includes(verb), `${verb} is missing in:\n${log}`);
    }
  });
});
