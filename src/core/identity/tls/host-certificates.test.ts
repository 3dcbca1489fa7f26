import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SecureContext } from 'node:tls';
import { createLog } from '../../log/json-log.ts';
import { testSite } from '../authority/test-vault.ts';
import { HostCertificates } from './host-certificates.ts';

const hourMs = 3_600_000;

async function scene() {
  const site = await testSite();
  const { authority, clock } = site;
  const hosts = new Map([
    ['api.app1.base', ['api.app1.base', 'api.app1']],
    ['api.app1', ['api.app1.base', 'api.app1']],
    ['api.app2.base', ['api.app2.base']],
  ]);
  const issued: (readonly string[])[] = [];
  let changed = (): void => undefined;
  let fail = false;
  const certificates = new HostCertificates({
    authority: {
      isTainted: (id) => authority.isTainted(id),
      onChange: (listener) => authority.onChange(listener),
      issueSite: (request) => {
        issued.push(request.dnsNames ?? []);
        return fail ? Promise.reject(new Error('no key')) : authority.issueSite(request);
      },
    },
    clock,
    random: site.random,
    log: createLog({ clock, sink: { write: () => {} }, level: 'error', format: 'json' }),
    hosts: {
      namesFor: (name) => hosts.get(name),
      onChange: (listener) => {
        changed = listener;
        return () => undefined;
      },
    },
  });
  const choose = (name: string): Promise<SecureContext | undefined> =>
    new Promise((resolve, reject) => {
      certificates.choose(name, (error, context) => (error ? reject(error) : resolve(context)));
    });
  const setFail = (value: boolean): void => {
    fail = value;
  };
  return { site, hosts, issued, certificates, choose, setFail, changed: () => changed() };
}

suite('the certificate of a host name', () => {
  test('is issued when a client first asks, once for all names of its group', async () => {
    const { choose, issued } = await scene();
    assert.deepEqual(issued, []);
    const [first, second] = await Promise.all([choose('api.app1.base'), choose('api.app1.base')]);
    assert.ok(first);
    assert.equal(second, first);
    assert.equal(await choose('api.app1'), first);
    assert.deepEqual(issued, [['api.app1.base', 'api.app1']]);
    assert.notEqual(await choose('api.app2.base'), first);
  });

  test('is that of the site for a name that the site does not answer to', async () => {
    const { choose, issued } = await scene();
    for (const name of ['', 'localhost', 'api.unknown.base', 'x'.repeat(300)])
      assert.equal(await choose(name), undefined);
    assert.deepEqual(issued, []);
  });

  test('is renewed at half of its lifetime, while the old one still serves', async () => {
    const { choose, issued, site, certificates } = await scene();
    const first = await choose('api.app1.base');
    await site.clock.advance(hourMs * 0.6);
    // The lifetime of the site's SVIDs is an hour at most.
    const during = await choose('api.app1.base');
    assert.ok(during);
    while (issued.length < 2) await choose('api.app1.base');
    await new Promise(setImmediate);
    assert.notEqual(await choose('api.app1.base'), first);
    assert.equal(certificates.size, 1);
  });

  test('that has expired is not served any more', async () => {
    const { choose, issued, site } = await scene();
    const first = await choose('api.app1.base');
    await site.clock.advance(2 * hourMs);
    assert.notEqual(await choose('api.app1.base'), first);
    assert.equal(issued.length, 2);
  });

  test('is dropped with its name, and with its authority', async () => {
    const { choose, hosts, changed, certificates, site, issued } = await scene();
    await choose('api.app1.base');
    await choose('api.app2.base');
    hosts.delete('api.app2.base');
    changed();
    assert.equal(certificates.size, 1);
    assert.equal(await choose('api.app2.base'), undefined);
    const first = await choose('api.app1.base');
    await site.authority.prepare('x509', () => []);
    await site.authority.activate('x509', undefined, () => []);
    assert.equal(await choose('api.app1.base'), first, 'the old authority is still trusted');
    await site.authority.taint('x509', undefined, () => []);
    assert.equal(certificates.size, 0);
    assert.notEqual(await choose('api.app1.base'), first);
    assert.equal(issued.length, 3);
  });

  test('is that of the site where it cannot be issued, and the next handshake tries again', async () => {
    const { choose, setFail } = await scene();
    setFail(true);
    assert.equal(await choose('api.app1.base'), undefined);
    setFail(false);
    assert.ok(await choose('api.app1.base'));
  });
});
