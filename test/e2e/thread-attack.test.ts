// An attacker on the network, with a stolen invitation, or with an account at a site. The site
// rejects every attempt with a clear error and records it in its audit log.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { siteKind } from '../../src/api/kinds/site.ts';
import type { AuditEvent } from '../../src/core/audit/event.ts';
import {
  credentialOf,
  forge,
  forgeRoot,
  purposes,
} from '../../src/core/identity/x509/test-forge.ts';
import { encodeInvitation, parseInvitation } from '../../src/peering/handshake/invitation.ts';
import { paths } from '../../src/peering/messages.ts';
import { peeringPlane } from '../../src/peering/plane.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { startWorkloadSite, type WorkloadSite } from '../interop/workload-site.ts';
import { type Answer, ApiClient, createToken, resources } from './api-client.ts';
import { Attacker, mintedBy, standIn, type Told } from './thread-attacker.ts';
import { until } from './until.ts';

const forgedHeaders = {
  'x-forwarded-for': '198.51.100.66',
  forwarded: 'for=198.51.100.66',
  'x-real-ip': '198.51.100.66',
  'x-forwarded-client-cert': 'URI=spiffe://bruges.example/hansa/site',
  'x-ssl-client-cert': 'bruges.example',
  'x-calling-instance': 'spiffe://bruges.example/hansa/site',
  'x-sdwan-network': 'backbone',
  'x-remote-user': 'admin',
  authorization: 'Bearer bruges.example',
};

suite('somebody hostile', () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  const mallory = new Attacker('mallory.example');
  const lines: string[] = [];

  const post = (site: WorkloadSite, what: string, body: object = {}): Promise<Answer> =>
    site.admin.request('POST', `/hansa/v1/peering/${what}`, { body });
  const invite = async (body: object = {}): Promise<string> => {
    const answer = await post(lubeck, 'invite', body);
    assert.equal(answer.status, 200, answer.text);
    const { invitation } = JSON.parse(answer.text) as { readonly invitation: string };
    lines.push(invitation);
    return invitation;
  };
  const accept = (site: WorkloadSite, invitation: string) => post(site, 'accept', { invitation });
  const stateAt = async (site: WorkloadSite, name: string): Promise<string | undefined> => {
    const answer = await site.admin.get(`${resources}/federationpeers/${name}`);
    return (answer.body.status as { readonly state?: string } | undefined)?.state;
  };
  const events = async (site: WorkloadSite): Promise<readonly AuditEvent[]> => {
    const answer = await site.admin.get('/hansa/v1/audit/events?limit=1000');
    return (JSON.parse(answer.text) as { readonly events: readonly AuditEvent[] }).events;
  };
  /** Denials are gathered for a minute. */
  const isAudited = async (site: WorkloadSite, fits: Partial<AuditEvent>, why: RegExp) => {
    for (const each of [lubeck, bruges]) each.clock.move(61_000);
    const found = async () =>
      (await events(site)).some(
        (event) =>
          event.outcome === 'deny' &&
          why.test(event.reason ?? '') &&
          Object.entries(fits).every(([key, value]) => event[key as keyof AuditEvent] === value),
      );
    await until(found, `${JSON.stringify(fits)} ${why} in the audit log of ${site.trustDomain}`);
  };
  const isRefused = (told: Told | Answer, status: number, why: RegExp): void => {
    assert.equal(told.status, status, told.text);
    assert.match((JSON.parse(told.text) as { readonly message: string }).message, why);
  };

  /** Runs of the peering controller at lubeck that have ended; undefined while it has work. */
  const runsOfController = (): number | undefined => {
    const text = lubeck.metrics.expose();
    const sum = (metric: string): number =>
      [...text.matchAll(new RegExp(`^${metric}\\{controller="peering"[^}]*\\} (\\d+)`, 'gm'))]
        .map(([, value]) => Number(value))
        .reduce((all, each) => all + each, 0);
    const isIdle = sum('hansa_reconcile_queue_depth') === 0 && sum('hansa_reconcile_running') === 0;
    return isIdle ? sum('hansa_reconcile_total') : undefined;
  };
  /**
   * Lets time pass, far more than until any retry. The controller of lubeck then has nothing more to do:
   * changes reach it in order, and it has worked on one that came after everything else.
   */
  const passTenMinutes = async (): Promise<void> => {
    for (const site of [lubeck, bruges]) site.clock.move(600_000);
    await until(() => runsOfController() !== undefined, 'the controller is done');
    const ended = runsOfController() ?? 0;
    const last = await new Attacker('last.example').redeem(lubeck, await invite());
    assert.equal(last.status, 200, last.text);
    await until(() => (runsOfController() ?? 0) > ended, 'the controller is done again');
  };

  before(async () => {
    const start = (name: string) => startWorkloadSite(name, [trustPlane, peeringPlane]);
    [lubeck, bruges] = await Promise.all([start('lubeck.example'), start('bruges.example')]);
    for (const site of [lubeck, bruges]) {
      await site.apply(siteKind, 'site', { advertiseURL: site.url });
    }
  });
  after(async () => {
    await Promise.all([lubeck?.stop(), bruges?.stop()]);
  });

  test('gets nothing with a line that was cut or changed', async () => {
    const line = await invite({ for: 'bruges.example' });
    isRefused(await accept(bruges, line.slice(0, -5)), 400, /its end is missing\. Copy the whole/);
    const changed = line.replace(/.(?=.{40}$)/, (character) => (character === 'A' ? 'B' : 'A'));
    isRefused(await accept(bruges, changed), 400, /its checksum does not match/);
    await isAudited(bruges, { code: 'HANSA_INVITATION_INVALID' }, /Cannot read the invitation/);
  });

  test('gets nothing with a line whose time is over', async () => {
    const line = await invite({ ttlSeconds: 30 });
    for (const site of [lubeck, bruges]) site.clock.move(31_000);
    isRefused(await accept(bruges, line), 410, /it expired less than a minute ago\. Ask lubeck/);
    isRefused(await mallory.redeem(lubeck, line), 410, /it expired .* Ask lubeck\.example/);
    await isAudited(bruges, { code: 'HANSA_INVITATION_EXPIRED' }, /expired/);
    await isAudited(
      lubeck,
      { code: 'HANSA_INVITATION_EXPIRED', name: 'mallory.example' },
      /expired/,
    );
  });

  test('cannot use a line that is for another site', async () => {
    const line = await invite({ for: 'novgorod.example' });
    isRefused(await accept(bruges, line), 403, /it is for novgorod\.example, but this site is/);
    isRefused(await mallory.redeem(lubeck, line), 403, /it is not for mallory/);
    await isAudited(bruges, { code: 'HANSA_INVITATION_REFUSED' }, /novgorod\.example/);
    await isAudited(
      lubeck,
      { verb: 'invitation.redeem', name: 'mallory.example' },
      /the invitation is for novgorod\.example/,
    );
  });

  test('learns and gets nothing where he answers in the place of the inviting site', async () => {
    const genuine = await lubeck.bundle();
    const line = await invite({ for: 'bruges.example' });
    const web = forgeRoot('ca.example', { uris: [], dnsNames: ['ca.example'] });
    const domain = forge({
      issuer: web,
      dnsNames: ['lubeck.example'],
      purposes: [purposes.server],
    });
    const double = new Attacker('lubeck.example');
    const faces = [
      ['a certificate for websites', credentialOf(domain, web), genuine],
      ['a site of his own', mallory.credential, genuine],
      ['the same name, other keys', double.credential, double.bundle()],
      ['the same name, his keys beside the true ones', double.credential, double.bundle(genuine)],
    ] as const;
    for (const [what, credential, bundle] of faces) {
      const { url, asked, server } = await standIn(credential, bundle);
      const moved = { ...parseInvitation(line, 0), url: new URL(url) };
      const answer = await accept(bruges, encodeInvitation(moved));
      server.close();
      assert.ok(answer.status >= 400, what);
      assert.match(answer.text, /is not the lubeck\.example of the invitation/, what);
      assert.match(answer.text, /This site sent it no secret/, what);
      assert.deepEqual(asked, ['GET /'], what);
    }
    await isAudited(
      bruges,
      { verb: 'peer.accept', code: 'HANSA_PEER_UNTRUSTED', name: 'lubeck.example' },
      /is not the lubeck\.example of the invitation/,
    );
    assert.equal(await stateAt(bruges, 'lubeck.example'), undefined);
  });

  test('cannot be the inviting site itself, nor bring its keys', async () => {
    const line = await invite();
    isRefused(
      await new Attacker('lubeck.example').redeem(lubeck, line),
      403,
      /lubeck\.example is the trust domain of the inviting site/,
    );
    const borrowed = { bundle: mallory.bundle(await lubeck.bundle()) };
    isRefused(
      await mallory.redeem(lubeck, line, borrowed),
      403,
      /the bundle of mallory\.example contains an authority of lubeck\.example/,
    );
    await isAudited(lubeck, { verb: 'invitation.redeem' }, /trust domain of the inviting site/);
    await isAudited(
      lubeck,
      { verb: 'invitation.redeem' },
      /contains an authority of lubeck\.example/,
    );
  });

  test('cannot send this site to places that are no sites', async () => {
    const line = await invite();
    for (const url of [
      'http://127.0.0.1:9464/metrics',
      'file:///etc/passwd',
      'https://root:secret@127.0.0.1/',
      'https://127.0.0.1/?a=b',
      'gopher://127.0.0.1/',
    ]) {
      isRefused(await mallory.redeem(lubeck, line, { url }), 400, /url/);
    }
  });

  test('redeems one line once, however many of him there are', async () => {
    const line = await invite();
    const crowd = Array.from({ length: 8 }, (_, index) => new Attacker(`m${index}.example`));
    const told = await Promise.all(crowd.map((each) => each.redeem(lubeck, line)));
    const winners = told.filter(({ status }) => status === 200);
    assert.equal(winners.length, 1);
    const { state, contractVersion } = JSON.parse(winners[0]?.text ?? '') as Record<
      string,
      unknown
    >;
    assert.deepEqual({ state, contractVersion }, { state: 'pending', contractVersion: 1 });
    for (const each of told) {
      if (each.status !== 200) isRefused(each, 409, /m\d\.example already redeemed/);
    }
    await isAudited(lubeck, { verb: 'invitation.replay' }, /replay: m\d\S* already redeemed/);
    const winner = crowd[told.findIndex(({ status }) => status === 200)] as Attacker;
    // The same name with other keys is another.
    const twin = new Attacker(winner.trustDomain);
    isRefused(await twin.redeem(lubeck, line), 409, /a .* with other keys .* already redeemed/);
    const name = winner.trustDomain;
    const revoked = await post(lubeck, `revoke/${name}`);
    assert.equal(revoked.status, 200, revoked.text);
    assert.ok((await winner.redeem(lubeck, line)).status >= 400, 'a revoked one comes back');
    const confirmed = await post(lubeck, `confirm/${name}`);
    assert.ok(confirmed.status >= 400 || (await stateAt(lubeck, name)) === 'revoked');
    assert.notEqual(await stateAt(lubeck, name), 'enrolled');
  });

  test('is not brought back by what is left of his line when he is deleted', async () => {
    const line = await invite({ for: 'mallet.example' });
    const mallet = new Attacker('mallet.example');
    assert.equal((await mallet.redeem(lubeck, line)).status, 200);
    const confirmed = await stateAt(lubeck, 'mallet.example');
    assert.equal(confirmed, 'enrolled');
    await lubeck.delete('federationpeers', 'mallet.example');
    await until(
      async () => (await stateAt(lubeck, 'mallet.example')) === undefined,
      'the peer is gone',
    );
    assert.ok((await mallet.redeem(lubeck, line)).status >= 400);
    await passTenMinutes();
    assert.equal(await stateAt(lubeck, 'mallet.example'), undefined);
    assert.equal((await mallet.heartbeat(lubeck)).status, 403);
  });

  test('cannot take the name or the keys of a peer', async () => {
    const accepted = await accept(bruges, await invite({ for: 'bruges.example' }));
    assert.equal(accepted.status, 200, accepted.text);
    const line = await invite();
    const double = new Attacker('bruges.example');
    isRefused(
      await double.redeem(lubeck, line),
      403,
      /bruges\.example is already a peer \(active\)/,
    );
    const borrowed = { bundle: mallory.bundle(await bruges.bundle()) };
    isRefused(
      await mallory.redeem(lubeck, line, borrowed),
      403,
      /authority of another trust domain/,
    );
    await isAudited(lubeck, { verb: 'invitation.redeem' }, /bruges\.example is already a peer/);
    await isAudited(
      lubeck,
      { verb: 'invitation.redeem' },
      /contains an authority of bruges\.example/,
    );
    // Degraded, where the clock was moved over some heartbeats.
    assert.match((await stateAt(lubeck, 'bruges.example')) ?? '', /^(?:active|degraded)$/);
  });

  test('is nobody at the federation API, whatever he presents and whatever headers say', async () => {
    const callers = [
      mallory,
      new Attacker('bruges.example'),
      new Attacker('bruges.example', await mintedBy(bruges, 'spiffe://bruges.example/web')),
      new Attacker('lubeck.example', await mintedBy(lubeck, 'spiffe://lubeck.example/web')),
    ];
    for (const caller of callers) {
      for (const headers of [{}, forgedHeaders]) {
        const why = /does not accept the certificate of the caller as that of a peer/;
        isRefused(await caller.heartbeat(lubeck, headers), 403, why);
        const announcement = '{"bundleSequence":9007199254740991}';
        isRefused(await caller.post(lubeck, paths.announce, announcement, headers), 403, why);
      }
    }
    await isAudited(lubeck, { verb: 'peer.heartbeat' }, /the caller presented no SVID of a peer/);
    await isAudited(lubeck, { verb: 'peer.heartbeat' }, /bruges\.example\/web is not another site/);
    await isAudited(lubeck, { verb: 'peer.announce' }, /lubeck\.example\/web is not another site/);
    // A name that was only claimed is told, but is nobody who did something.
    await isAudited(lubeck, {}, /claims to be spiffe:\/\/mallory\.example\/hansa\/site/);
    for (const { actor, outcome } of await events(lubeck)) {
      if (outcome === 'deny') assert.doesNotMatch(actor.user, /mallory|\/hansa\/site/);
    }
    const seen = JSON.stringify(await events(lubeck));
    assert.doesNotMatch(seen, /198\.51\.100\.66|backbone|x-remote-user/);
  });

  test('cannot send more than the federation API takes, nor nonsense', async () => {
    const large = 'x'.repeat(300_000);
    isRefused(await mallory.post(lubeck, paths.preview, large), 413, /limit is 262144/);
    isRefused(await mallory.post(lubeck, paths.preview, '{'), 400, /it is not JSON/);
    isRefused(await mallory.post(lubeck, paths.redeem, '[]'), 400, /not a JSON object/);
  });

  test('with the rights of a viewer or an editor makes no peer, no identity and no grant', async () => {
    const { api: origin } = JSON.parse(
      readFileSync(join(lubeck.dataDir, 'endpoints.json'), 'utf8'),
    ) as { readonly api: string };
    const attempts = [
      ['POST', '/hansa/v1/peering/invite', {}],
      ['POST', '/hansa/v1/peering/accept', { invitation: lines[0] }],
      ['POST', '/hansa/v1/peering/confirm/bruges.example', {}],
      ['POST', '/hansa/v1/peering/revoke/bruges.example', {}],
      ['POST', `${resources}/workloadentries`, {}],
      ['POST', `${resources}/spiffefederations`, {}],
      ['POST', `${resources}/federationpeers`, {}],
      ['POST', `${resources}/federationgrants`, {}],
      ['POST', `${resources}/serviceoffers`, {}],
      ['PUT', `${resources}/spiffefederations/bruges.example/status`, {}],
      ['POST', '/hansa/v1/svids', {}],
    ] as const;
    for (const role of ['viewer', 'editor']) {
      const token = await createToken(lubeck.admin, role, role);
      const client = new ApiClient({ origin, token, verify: false });
      for (const [method, path, body] of attempts) {
        const { status, text } = await client.request(method, path, { body });
        assert.equal(status, 403, `${role}: ${method} ${path}: ${text}`);
      }
      client.close();
    }
    await isAudited(lubeck, { code: 'HANSA_FORBIDDEN' }, /federationpeers/);
  });

  test('finds no secret of an invitation in logs, audit, metrics or resources', async () => {
    for (const site of [lubeck, bruges]) {
      const places = [
        site.log(),
        (await site.admin.get('/hansa/v1/audit/export')).text,
        site.metrics.expose(),
        (await site.admin.get(`${resources}/federationpeers`)).text,
        (await site.admin.get(`${resources}/spiffefederations`)).text,
      ];
      assert.ok(lines.length > 5);
      for (const line of lines) {
        const { secret } = parseInvitation(line, 0);
        for (const form of ['base64url', 'base64', 'hex'] as const) {
          const text = secret.toString(form).slice(0, 24);
          assert.ok(places.every((place) => !place.includes(text)));
        }
      }
      assert.ok(places.every((place) => !place.includes('PRIVATE KEY')));
    }
  });
});
