// Clients that choose their own address with headers, at a real site: directly, and through a proxy
// that the site trusts.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { after, before, suite, test } from 'node:test';
import { siteKind } from '../../src/api/kinds/site.ts';
import type { AuditEvent } from '../../src/core/audit/event.ts';
import { paths } from '../../src/peering/messages.ts';
import { peeringPlane } from '../../src/peering/plane.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { startWorkloadSite, type WorkloadSite } from '../interop/workload-site.ts';
import { Attacker } from './thread-attacker.ts';
import { until } from './until.ts';

const stranger = new Attacker('mallory.example');

const denials = async (site: WorkloadSite): Promise<readonly AuditEvent[]> => {
  const { text } = await site.admin.get('/hansa/v1/audit/events?limit=1000');
  const { events } = JSON.parse(text) as { readonly events: readonly AuditEvent[] };
  return events.filter(({ outcome }) => outcome === 'deny');
};

/** Waits for a denial with this verb and reason. Denials are gathered for a minute. */
async function denial(site: WorkloadSite, verb: string, why: RegExp): Promise<AuditEvent> {
  let found: AuditEvent | undefined;
  site.clock.move(61_000);
  await until(async () => {
    found = (await denials(site)).find(
      (event) => event.verb === verb && why.test(event.reason ?? ''),
    );
    return found !== undefined;
  }, `${verb} ${why} in the audit log`);
  return found as AuditEvent;
}

const message = JSON.stringify({ contractVersion: 1, bundleSequence: 1, offers: [] });

/** Over TLS with a certificate of the client. */
const heartbeat = (site: WorkloadSite, forwarded: string) =>
  stranger.post(site, paths.heartbeat, message, { 'x-forwarded-for': forwarded });

/** As a proxy that ends TLS: over its own connection, which has no certificate. */
async function proxiedHeartbeat(site: WorkloadSite, forwarded: string) {
  const out = request(new URL(paths.heartbeat, site.url), {
    method: 'POST',
    rejectUnauthorized: false,
    agent: false,
    headers: { 'x-forwarded-for': forwarded, 'content-type': 'application/json' },
  });
  out.end(message);
  const [response] = (await once(out, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  return { status: response.statusCode, text: Buffer.concat(chunks).toString('utf8') };
}

suite('a client that sends X-Forwarded-For', () => {
  let plain: WorkloadSite;
  let proxied: WorkloadSite;

  before(async () => {
    const planes = [trustPlane, peeringPlane];
    plain = await startWorkloadSite('lubeck.example', planes);
    proxied = await startWorkloadSite('bruges.example', planes, {
      HANSA_FEDERATION_TRUSTED_PROXIES: '127.0.0.1/32',
    });
    for (const site of [plain, proxied])
      await site.apply(siteKind, 'site', { advertiseURL: site.url });
  });
  after(() => Promise.all([plain?.stop(), proxied?.stop()]));

  test('keeps its own address where no proxy is listed, and the attempt is in the audit log', async () => {
    assert.equal((await heartbeat(plain, '192.0.2.66')).status, 403);
    assert.equal((await denial(plain, 'peer.heartbeat', /(?:)/)).actor.address, '127.0.0.1');
    const ignored = await denial(plain, 'source.forwarded', /federation.*ignored the header/);
    assert.equal(ignored.actor.address, '127.0.0.1');
    assert.match(
      plain.metrics.expose(),
      /hansa_forwarded_headers_total\{listener="federation",result="ignored"\} 1/,
    );
  });

  test('has the address that a listed proxy saw, and not the one that it sent itself', async () => {
    assert.equal((await proxiedHeartbeat(proxied, '10.66.66.66, 192.0.2.1')).status, 403);
    assert.equal((await denial(proxied, 'peer.heartbeat', /(?:)/)).actor.address, '192.0.2.1');
  });

  test('keeps the address of the proxy where its own certificate shows that the proxy passes TLS through', async () => {
    assert.equal((await heartbeat(proxied, '192.0.2.77')).status, 403);
    const ignored = await denial(proxied, 'source.forwarded', /federation.*client certificate/);
    assert.equal(ignored.actor.address, '127.0.0.1');
    assert.ok(
      !(await denials(proxied)).some(({ actor }) => actor.address === '192.0.2.77'),
      'the address in the header is in the audit log',
    );
    assert.match(
      proxied.metrics.expose(),
      /hansa_forwarded_headers_total\{listener="federation",result="ignored"\} 1/,
    );
  });

  test('is refused where the proxy passes on what is no address', async () => {
    const told = await proxiedHeartbeat(proxied, '192.0.2.1, unknown');
    assert.equal(told.status, 400);
    assert.match(told.text, /X-Forwarded-For/);
    const refused = await denial(proxied, 'source.forwarded', /not an IP address/);
    assert.equal(refused.actor.address, '127.0.0.1');
  });

  test('does not share the limits of other clients of the proxy', async () => {
    // Half-sent bodies hold the places of one address.
    const waiting = new AbortController();
    const hold = (forwarded: string) =>
      new Promise<number>((resolve) => {
        const out = request(new URL(paths.preview, proxied.url), {
          method: 'POST',
          rejectUnauthorized: false,
          agent: false,
          signal: waiting.signal,
          headers: {
            'x-forwarded-for': forwarded,
            'content-type': 'application/json',
            'content-length': '1000',
          },
        });
        out.on('error', () => resolve(0));
        out.on('response', (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        });
        out.write('{');
      });
    const held = Array.from({ length: 40 }, () => hold('192.0.2.2'));
    assert.equal(await Promise.race(held), 429);
    assert.equal((await proxiedHeartbeat(proxied, '192.0.2.3')).status, 403);
    waiting.abort();
    await Promise.all(held);
  });
});
