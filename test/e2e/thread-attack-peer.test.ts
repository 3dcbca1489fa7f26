// A hostile peer: the site admitted it through an invitation and trusts its keys.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { federationGrantKind } from '../../src/api/kinds/federation-grant.ts';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { siteKind } from '../../src/api/kinds/site.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import type { AuditEvent } from '../../src/core/audit/event.ts';
import { credentialOf, forgeLeaf } from '../../src/core/identity/x509/test-forge.ts';
import { paths } from '../../src/peering/messages.ts';
import { peeringPlane } from '../../src/peering/plane.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { startWorkloadSite, type WorkloadSite } from '../interop/workload-site.ts';
import { RawConnection, resources, type Thing } from './api-client.ts';
import { Attacker } from './thread-attacker.ts';
import { until } from './until.ts';

interface PeerStatus {
  readonly state?: string;
  readonly reason?: string;
  readonly conditions?: readonly { readonly type: string; readonly message: string }[];
}

suite('a hostile peer', () => {
  let lubeck: WorkloadSite;

  const post = (what: string, body: object = {}) =>
    lubeck.admin.request('POST', `/hansa/v1/peering/${what}`, { body });
  /** Let in, with the address that it gave of itself. */
  const peerOf = async (name: string, url: string): Promise<Attacker> => {
    const { text } = await post('invite', { for: name });
    const { invitation } = JSON.parse(text) as { readonly invitation: string };
    const attacker = new Attacker(name);
    const told = await attacker.redeem(lubeck, invitation, { url });
    assert.equal(told.status, 200, told.text);
    return attacker;
  };
  const get = async (plural: string, name: string): Promise<Thing> =>
    (await lubeck.admin.get(`${resources}/${plural}/${name}`)).body;
  const status = async (name: string): Promise<PeerStatus | undefined> =>
    (await get('federationpeers', name)).status as PeerStatus | undefined;
  const events = async (): Promise<readonly AuditEvent[]> => {
    const { text } = await lubeck.admin.get('/hansa/v1/audit/events?limit=1000');
    return (JSON.parse(text) as { readonly events: readonly AuditEvent[] }).events;
  };
  /** Denials are gathered for a minute. */
  const isAudited = (verb: string, why: RegExp): Promise<void> => {
    lubeck.clock.move(61_000);
    return until(
      async () =>
        (await events()).some(
          (event) =>
            event.outcome === 'deny' && event.verb === verb && why.test(event.reason ?? ''),
        ),
      `${verb} ${why} in the audit log`,
    );
  };
  const suspend = (name: string, desiredState: 'active' | 'suspended') =>
    lubeck.admin.request('PATCH', `${resources}/federationpeers/${name}`, {
      headers: { 'content-type': 'application/merge-patch+json' },
      body: { spec: { desiredState } },
    });
  const nowhere = 'https://127.0.0.1:9/';

  before(async () => {
    lubeck = await startWorkloadSite('lubeck.example', [trustPlane, peeringPlane]);
    await lubeck.apply(siteKind, 'site', { advertiseURL: lubeck.url });
  });
  after(() => lubeck?.stop());

  test('offers nothing but its own, to nobody but us', async () => {
    const mallory = await peerOf('a.example', nowhere);
    const offer = { name: 'db', spiffeID: 'spiffe://a.example/db', grantedTo: ['*'] };
    for (const [changes, why] of [
      [
        { spiffeID: 'spiffe://lubeck.example/db' },
        /SPIFFE ID spiffe:\/\/lubeck\.example\/db of another/,
      ],
      [
        { spiffeID: 'spiffe://bruges.example/db' },
        /SPIFFE ID spiffe:\/\/bruges\.example\/db of another/,
      ],
      [
        { grantedTo: ['spiffe://bruges.example/web'] },
        /granted to a SPIFFE ID of another trust domain/,
      ],
      [{ name: '../../etc' }, /name has the wrong format/],
      [{ grantedTo: Array(1025).fill('*') }, /more than 1024 entries/],
    ] as const) {
      const told = await mallory.heartbeat(lubeck, {}, [{ ...offer, ...changes }]);
      assert.equal(told.status, 400, told.text);
      assert.match(told.text, why);
    }
    assert.equal((await status('a.example'))?.state, 'enrolled');
    assert.equal((await mallory.heartbeat(lubeck, {}, [offer])).status, 200);
    assert.equal((await status('a.example'))?.state, 'active');
  });

  test('cannot make this site send anything to its own API, or to whoever is not that peer', async () => {
    const { api } = JSON.parse(readFileSync(join(lubeck.dataDir, 'endpoints.json'), 'utf8')) as {
      readonly api: string;
    };
    await peerOf('b.example', api);
    const why =
      /the TLS certificate is for spiffe:\/\/lubeck\.example\/hansa\/site, expected spiffe:\/\/b\.example/;
    await until(
      async () =>
        (await status('b.example'))?.conditions?.some(({ message }) => why.test(message)) === true,
      'the status tells who answered',
    );
    assert.equal((await status('b.example'))?.state, 'enrolled');
    // Nothing came there: a request without a credential would be counted as refused.
    assert.doesNotMatch(lubeck.metrics.expose(), /hansa_api_requests_total\{[^}]*code="40[134]"/);
  });

  test('is out at once when it is suspended or revoked, with the body half sent', async () => {
    const mallory = await peerOf('c.example', nowhere);
    const body = JSON.stringify({ contractVersion: 1, bundleSequence: 1, offers: [] });
    const half = async (): Promise<RawConnection> => {
      const { certificateChain: certificate, privateKey: key } = mallory.credential;
      const raw = await RawConnection.open({
        origin: lubeck.url,
        verify: false,
        certificate,
        key,
      });
      raw.send(
        `POST ${paths.heartbeat} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nexpect: 100-continue\r\n\r\n${body.slice(0, 9)}`,
      );
      // The site says so when it has read the head and begins to wait for the body.
      await raw.until(/^HTTP\/1\.1 100 Continue\r\n\r\n/);
      return raw;
    };
    const answered = /\r\n\r\nHTTP\/1\.1 403 /;
    const waiting = [await half(), await half()];
    assert.equal((await suspend('c.example', 'suspended')).status, 200);
    await until(async () => (await status('c.example'))?.state === 'suspended', 'suspended');
    waiting[0]?.send(body.slice(9));
    assert.match((await waiting[0]?.until(answered)) ?? '', answered);
    assert.equal((await mallory.heartbeat(lubeck)).status, 403);
    assert.equal((await post('revoke/c.example')).status, 200);
    waiting[1]?.send(body.slice(9));
    assert.match((await waiting[1]?.until(answered)) ?? '', answered);
    for (const raw of waiting) raw.close();
    assert.equal((await mallory.heartbeat(lubeck)).status, 403);
    assert.equal((await get('spiffefederations', 'c.example')).reason, 'NotFound');
    await isAudited('peer.heartbeat', /no SVID of a peer|c\.example is suspended/);
  });

  test('reads no catalog without a grant, and learns nothing about grants from denials', async () => {
    const mallory = await peerOf('g.example', nowhere);
    assert.equal((await mallory.heartbeat(lubeck)).status, 200);
    await lubeck.apply(serviceOfferKind, 'secret-db', {
      spiffeID: 'spiffe://lubeck.example/secret-db',
    });
    const open = { unrestricted: true };
    const grant = (spec: object) =>
      lubeck.apply(federationGrantKind, 'e-db', {
        peer: 'g.example',
        scopes: ['read'],
        offers: ['secret-db'],
        nodeInstances: open,
        networks: open,
        sourceCIDRs: open,
        ...spec,
      });
    const forged = {
      'x-forwarded-for': '203.0.113.7',
      forwarded: 'for=203.0.113.7',
      'x-calling-instance': 'spiffe://g.example/web',
      'x-sdwan-network': 'backbone',
    };
    for (const spec of [
      { peer: 'other.example' },
      { nodeInstances: { ids: [] } },
      { networks: { ids: ['backbone'] } },
      { sourceCIDRs: { cidrs: ['203.0.113.0/24'] } },
      { scopes: ['write'] },
      { expiresAt: '2020-01-01T00:00:00Z' },
    ]) {
      await grant(spec);
      for (const path of [paths.catalog, paths.capabilities]) {
        const told = await mallory.get(lubeck, `${path}?offer=secret-db`, forged);
        assert.equal(told.status, 403);
        const { message } = JSON.parse(told.text) as { readonly message: string };
        assert.equal(message, 'Denied.', JSON.stringify(spec));
        assert.doesNotMatch(told.text, /secret-db|e-db|203\.0/);
      }
    }
    await isAudited('peer.catalog', /does not name this identity/);
    await grant({});
    const told = await mallory.get(lubeck, paths.catalog);
    assert.equal(told.status, 200, told.text);
    assert.match(told.text, /secret-db/);
    // Somebody else with a name of that peer, a workload of the peer, a write.
    const thief = new Attacker('g.example');
    assert.equal((await thief.get(lubeck, paths.catalog)).status, 403);
    const workload = credentialOf(forgeLeaf(mallory.root, 'spiffe://g.example/web'));
    const other = new Attacker('g.example', workload);
    assert.equal((await other.get(lubeck, paths.catalog)).status, 403);
    assert.equal((await mallory.post(lubeck, paths.catalog, '{}')).status, 405);
    await suspend('g.example', 'suspended');
    await until(async () => (await status('g.example'))?.state === 'suspended', 'suspended');
    assert.equal((await mallory.get(lubeck, paths.catalog)).status, 403);
  });

  test('cannot read the catalog without end', async () => {
    const mallory = await peerOf('h.example', nowhere);
    assert.equal((await mallory.heartbeat(lubeck)).status, 200);
    const open = { unrestricted: true };
    await lubeck.apply(federationGrantKind, 'f-db', {
      peer: 'h.example',
      offers: ['secret-db'],
      nodeInstances: open,
      networks: open,
      sourceCIDRs: open,
    });
    const statuses = new Set<number>();
    for (let count = 0; count < 25; count++) {
      statuses.add((await mallory.get(lubeck, paths.catalog)).status);
    }
    assert.deepEqual([...statuses], [200, 429]);
    // Its heartbeats have a limit of their own.
    assert.equal((await mallory.heartbeat(lubeck)).status, 200);
  });

  test('that is suspended before it was confirmed is not believed for a moment', async () => {
    const { text } = await post('invite');
    const { invitation } = JSON.parse(text) as { readonly invitation: string };
    const mallory = new Attacker('e.example');
    assert.equal((await mallory.redeem(lubeck, invitation, { url: nowhere })).status, 200);
    assert.equal((await suspend('e.example', 'suspended')).status, 200);
    const watch = await lubeck.admin.watch(`${resources}/spiffefederations?watch=true`);
    const confirmed = await post('confirm/e.example');
    assert.equal(confirmed.status, 200, confirmed.text);
    const seen = await watch.until(({ object }) => object.metadata.name === 'e.example');
    assert.equal(seen.at(-1)?.object.spec?.['quarantined'], true);
    watch.close();
    await until(async () => (await status('e.example'))?.state === 'suspended', 'suspended');
    assert.equal((await mallory.heartbeat(lubeck)).status, 403);
  });

  test('is nobody under another trust domain, and cannot take its keys there', async () => {
    const mallory = await peerOf('i.example', nowhere);
    assert.equal((await mallory.heartbeat(lubeck)).status, 200);
    // One is a peer already, and the other is not.
    for (const name of ['a.example', 'j.example']) {
      const site = `spiffe://${name}/hansa/site`;
      const renamed = new Attacker(name, credentialOf(forgeLeaf(mallory.root, site)));
      const told = await renamed.heartbeat(lubeck);
      assert.equal(told.status, 403, told.text);
      assert.match(told.text, /does not accept the certificate of the caller as that of a peer/);
      await isAudited('peer.heartbeat', new RegExp(`claims to be ${site}`));
      const { text } = await post('invite');
      const { invitation } = JSON.parse(text) as { readonly invitation: string };
      const bundle = renamed.bundle(mallory.bundle());
      const redeemed = await renamed.redeem(lubeck, invitation, { bundle, url: nowhere });
      assert.equal(redeemed.status, 403, redeemed.text);
      const why = new RegExp(`it is in ${name}, but its authority is \\\\?"spiffe://i.example`);
      assert.match(redeemed.text, why);
      await isAudited('invitation.redeem', why);
    }
    assert.equal((await get('federationpeers', 'j.example')).reason, 'NotFound');
    assert.match((await status('i.example'))?.state ?? '', /^(?:active|degraded)$/);
    assert.equal((await mallory.heartbeat(lubeck)).status, 200);
  });

  test('cannot fill the audit log with announcements', async () => {
    const mallory = await peerOf('d.example', nowhere);
    const known = (await events()).length;
    for (let sequence = 2; sequence < 102; sequence++) {
      await mallory.post(lubeck, paths.announce, JSON.stringify({ bundleSequence: sequence }));
    }
    const written = (await events()).length - known;
    assert.ok(written < 30, `${written} records for 100 announcements`);
  });

  test('gets no identity of this site: an entry for what is reserved is refused and recorded', async () => {
    for (const spiffeID of [
      'spiffe://lubeck.example/hansa/site',
      'spiffe://lubeck.example/hansa/user/admin',
    ]) {
      const answer = await lubeck.apply(workloadEntryKind, 'mine', {
        spiffeID,
        selectors: ['unix:uid:0'],
      });
      assert.equal(answer.status, 403, answer.text);
      assert.match(answer.text, /\/hansa and everything below it is reserved/);
    }
    await isAudited('patch', /\/hansa and everything below it is reserved/);
    const named = await lubeck.apply(workloadEntryKind, 'mine', {
      spiffeID: 'spiffe://lubeck.example/mine',
      selectors: ['unix:uid:0'],
      dnsNames: ['localhost'],
    });
    assert.equal(named.status, 403, named.text);
    await isAudited('patch', /localhost, a name of the site itself/);
  });

  test('is named in each event of the audit log that concerns it', async () => {
    const { text } = await lubeck.admin.get('/hansa/v1/audit/events?name=c.example&limit=1000');
    const { events: told } = JSON.parse(text) as { readonly events: readonly AuditEvent[] };
    const verbs = new Set(told.map(({ verb }) => verb));
    for (const verb of [
      'peer.invite',
      'invitation.redeem',
      'peer.propose',
      'peer.accept',
      'peer.enroll',
      'peer.suspend',
      'peer.revoke',
    ]) {
      assert.ok(verbs.has(verb), `${verb} is missing among ${[...verbs].join(', ')}`);
    }
  });
});
