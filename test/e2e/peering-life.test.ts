// The life of a peering between two real sites: from the invitation to the revocation. Either site
// may be down in between.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { FederationPeer } from '../../src/api/kinds/federation-peer.ts';
import { type PeeringSite, startPair } from './peering-pair.ts';
import { until } from './until.ts';

const steps = [
  '✓ contract hard',
  '✓ invitation hard',
  '✓ accept hard',
  '✓ enrol hard',
  '– grants hard',
  '– attach soft',
  '– governance soft',
];

suite('two sites that peer', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;

  before(async () => {
    [lubeck, bruges] = (await startPair('lubeck', 'bruges')) as [PeeringSite, PeeringSite];
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop()]));

  test('are active on both sides after one invitation', async () => {
    const invitation = await lubeck.invite(['--for', 'bruges.example']);
    assert.match(invitation, /^hansa1\.[\w.-]+$/);
    const { code, stdout, stderr } = await bruges.accept(invitation);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^lubeck\.example is active\./);
    assert.match(stderr, /lubeck\.example invites bruges\.example/);
    assert.deepEqual(
      [...stderr.matchAll(/^ {2}([✓–✗]) (\w+) +(hard|soft)/gm)].map(([, ...step]) =>
        step.join(' '),
      ),
      steps,
    );
    assert.equal((await lubeck.until('bruges.example', 'active')).role, 'inviter');
    assert.equal((await bruges.peer('lubeck.example'))?.role, 'acceptor');
    for (const site of [lubeck, bruges]) {
      assert.match(await site.must(['get', 'spiffefederations']), /https_spiffe +True +True/);
    }
  });

  test('tell who invites the other one again that it is a peer already', async () => {
    const invite = ['peer', 'invite', '--ttl', '30s', '--for'];
    const again = await lubeck.run([...invite, 'bruges.example']);
    assert.equal(again.code, 0);
    assert.match(again.stderr, /Warning: bruges\.example is already a peer \(active\)/);
    assert.match(again.stderr, /hansa peer reenrol bruges\.example/);
    assert.match(again.stderr, /\(expires in (?:30|29)s; works once/);
    const other = await lubeck.run([...invite, 'reval.example']);
    assert.doesNotMatch(other.stderr, /already a peer/);
  });

  test('repeat the soft steps of their acceptance', async () => {
    const { code, stdout, stderr } = await bruges.run(['peer', 'retry', 'lubeck.example']);
    assert.equal(code, 0, stderr);
    assert.deepEqual(
      [...stdout.matchAll(/^ {2}([✓–✗]) (\w+) +(hard|soft)/gm)].map(([, ...step]) =>
        step.join(' '),
      ),
      steps,
    );
    assert.match(stdout, /attach +soft +this site has no overlay/);
    const unknown = await bruges.run(['peer', 'retry', 'reval.example']);
    assert.notEqual(unknown.code, 0);
    assert.match(unknown.stderr, /reval\.example/);
  });

  test('tell each other at once what is granted', async () => {
    const offer = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'ServiceOffer',
      metadata: { name: 'db' },
      spec: { spiffeID: 'spiffe://lubeck.example/db' },
    };
    await lubeck.must(['apply', '-f', '-'], JSON.stringify(offer));
    const web = 'spiffe://bruges.example/web';
    const grant = ['grant', 'create', 'bruges-db', '--peer', 'bruges.example', '--offer', 'db'];
    await lubeck.must([...grant, '--identity', web, '--any-network', '--any-address']);
    let offers: readonly unknown[] = [];
    await until(async () => {
      offers = (await bruges.peer('lubeck.example'))?.offers ?? [];
      return offers.length > 0;
    });
    assert.deepEqual(offers, [{ name: 'db', grantedTo: [web] }]);
    assert.match(await lubeck.must(['grant', 'list', '--peer', 'bruges.example']), /bruges-db/);
    const check = ['grant', 'check', '--from', web, '--offer', 'db', '--method'];
    assert.equal(await lubeck.must([...check, 'GET']), 'allowed: grant bruges-db covers it\n');
    const denied = await lubeck.run([...check, 'POST']);
    assert.equal(denied.code, 10);
    assert.match(denied.stdout, /^denied: .*POST needs the scope write.*\n.*--scope write/);
    await until(async () => / True /.test(await lubeck.must(['grant', 'list'])));
    const catalog = await bruges.must(['peer', 'catalog', 'lubeck.example']);
    assert.match(catalog, /^offer +db +read +spiffe:\/\/lubeck\.example\/db/m);
    await lubeck.must(['grant', 'delete', 'bruges-db']);
    assert.equal((await lubeck.run([...check, 'GET'])).code, 10);
  });

  test('deny the catalog without a grant, which shows that they are reachable', async () => {
    const { code, stdout, stderr } = await bruges.run(['peer', 'catalog', 'lubeck.example']);
    assert.equal(code, 0, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, /lubeck\.example is reachable and denied the question/);
    const json = await bruges.must(['peer', 'catalog', 'lubeck.example', '-o', 'json']);
    assert.deepEqual(JSON.parse(json), { name: 'lubeck.example', denied: true });
    // A grant for another address is a denial, too, and only lubeck can see why.
    const from = ['--from', '203.0.113.0/24', '--any-network', '--any-identity'];
    const grant = ['grant', 'create', 'far', '--peer', 'bruges.example', '--offer', 'db'];
    await lubeck.must([...grant, ...from]);
    const denied = await bruges.run(['peer', 'catalog', 'lubeck.example']);
    assert.match(denied.stderr, /denied the question/);
    assert.doesNotMatch(denied.stderr, /far|203|address/);
    await until(async () =>
      /grant far does not cover calls from 127\.0\.0\.1/.test(lubeck.daemon.log()),
    );
    await lubeck.must(['grant', 'delete', 'far']);
  });

  test('are degraded while one is dead, and active again by themselves', async () => {
    await bruges.stop('SIGKILL');
    const { lastSeen } = await lubeck.until('bruges.example', 'degraded', /cannot connect/);
    // The resource API has the same moment, in one object, in a list and in the table of kubectl.
    const got = await lubeck.must(['get', 'federationpeers', 'bruges.example', '-o', 'json']);
    const listed = await lubeck.must(['get', 'federationpeers', '-o', 'json']);
    const shown = (peer: unknown) => (peer as FederationPeer).status?.lastHeartbeatAt;
    assert.equal(shown(JSON.parse(got)), lastSeen);
    const { items } = JSON.parse(listed) as { readonly items: readonly unknown[] };
    assert.deepEqual(items.map(shown), [lastSeen]);
    const table = await lubeck.must(['get', 'federationpeers']);
    assert.match(table, /STATE +SINCE +LAST-SEEN.*\nbruges\.example +degraded +\d+s +\d+s /);
    await bruges.start();
    await lubeck.until('bruges.example', 'active');
    await bruges.until('lubeck.example', 'active');
  });

  test('can be suspended and resumed by one side, with the other dead', async () => {
    await bruges.stop('SIGKILL');
    assert.match(await lubeck.must(['peer', 'suspend', 'bruges.example']), /is suspended/);
    const federation = await lubeck.must(['get', 'sf', 'bruges.example', '-o', 'yaml']);
    assert.match(federation, /quarantined: true/);
    await bruges.start();
    await bruges.until('lubeck.example', 'degraded', /rejects this site/);
    await lubeck.must(['peer', 'resume', 'bruges.example']);
    await lubeck.until('bruges.example', 'active');
    await bruges.until('lubeck.example', 'active');
  });

  test('show in metrics and in status', async () => {
    const { metrics } = lubeck.daemon.endpoints;
    const text = await (await fetch(metrics)).text();
    assert.match(text, /^hansa_peers\{state="active"\} 1$/m);
    assert.match(text, /^hansa_peer_heartbeats_total\{.*direction="sent".*\} \d+/m);
    assert.match(await lubeck.must(['status']), /bruges\.example +active/);
  });

  test('are no peers any more after one side revoked, until a new invitation is confirmed', async () => {
    await lubeck.must(['peer', 'revoke', 'bruges.example']);
    assert.equal((await lubeck.peer('bruges.example'))?.state, 'revoked');
    const { stdout } = await lubeck.run(['get', 'spiffefederations']);
    assert.doesNotMatch(stdout, /bruges/);
    await bruges.until('lubeck.example', 'degraded');
    const again = await lubeck.run(['peer', 'suspend', 'bruges.example']);
    assert.equal(again.code, 5);
    assert.match(again.stderr, /new invitation.*HANSA_PEER_STATE/);
    await bruges.must(['peer', 'revoke', 'lubeck.example']);
    // It was a peer before: somebody looks first.
    const { code, stdout: told } = await bruges.accept(
      await lubeck.invite(['--for', 'bruges.example']),
    );
    assert.equal(code, 0);
    assert.match(told, /is proposed: waits for the operator of lubeck\.example/);
    await lubeck.must(['peer', 'confirm', 'bruges.example']);
    await bruges.until('lubeck.example', 'active');
    await lubeck.until('bruges.example', 'active');
  });

  test('go on with a handshake through which both were killed', async () => {
    await lubeck.must(['peer', 'revoke', 'bruges.example']);
    await bruges.must(['peer', 'revoke', 'lubeck.example']);
    await bruges.accept(await lubeck.invite());
    await Promise.all([lubeck.stop('SIGKILL'), bruges.stop('SIGKILL')]);
    await lubeck.start();
    await lubeck.must(['peer', 'confirm', 'bruges.example']);
    await lubeck.stop('SIGKILL');
    await Promise.all([lubeck.start(), bruges.start()]);
    await bruges.until('lubeck.example', 'active');
    await lubeck.until('bruges.example', 'active');
  });

  test('have all of it in audit logs that verify', async () => {
    for (const site of [lubeck, bruges]) {
      assert.match(await site.must(['audit', 'verify']), /verified/);
      const log = await site.must(['audit', 'list', '-o', 'json']);
      for (const verb of ['peer.accept', 'peer.enroll', 'peer.activate', 'peer.revoke']) {
        assert.ok(log.includes(`"${verb}"`), `${verb} at ${site.name}`);
      }
      const ofOperators = await site.must(['audit', 'list', '--user', 'admin', '-o', 'json']);
      assert.ok(ofOperators.includes('"peer.revoke"'), `who revoked at ${site.name}`);
    }
  });
});
