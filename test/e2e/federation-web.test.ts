// Federation with https_web: the site verifies the name in the certificate, the authority that the
// operator configured, and the pinned key. Also tests the maximum number of federations.

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { SPIFFEFederation } from '../../src/api/kinds/spiffe-federation.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import {
  credentialOf,
  type Forged,
  forge,
  purposes,
} from '../../src/core/identity/x509/test-forge.ts';
import { pinOf } from '../../src/core/identity/tls/web-transport.ts';
import { type Daemon, hansa, type Ran, startDaemon, temporaryFolder } from './daemon.ts';

const root = forge({ ca: true });
const serving = forge({
  issuer: root,
  ca: false,
  dnsNames: ['localhost'],
  purposes: [purposes.server],
});
const pem = ({ der }: Forged): string => certificatePem(der);
const pin = ({ der }: Forged): string => pinOf(new X509Certificate(der));

suite('a site that believes another by https_web', () => {
  const folder = temporaryFolder();
  let lubeck: Daemon;
  let bruges: Daemon;
  let url: string;

  before(async () => {
    const tls = join(folder, 'tls');
    mkdirSync(tls);
    const { certificateChain, privateKey } = credentialOf(serving);
    writeFileSync(join(tls, 'tls.crt'), certificateChain);
    writeFileSync(join(tls, 'tls.key'), privateKey);
    [lubeck, bruges] = await Promise.all([
      startDaemon(join(folder, 'lubeck'), ['--max-federations', '2']),
      startDaemon(join(folder, 'bruges'), [
        '--trust-domain',
        'bruges.example',
        '--web',
        '127.0.0.1:0',
        '--serving-cert-cert-file',
        join(tls, 'tls.crt'),
        '--serving-cert-key-file',
        join(tls, 'tls.key'),
      ]),
    ]);
    const { web } = bruges.endpoints as unknown as { readonly web: string };
    url = `${web.replace('127.0.0.1', 'localhost')}/webapi/spiffe/bundle.json`;
  });
  after(() => Promise.all([lubeck?.signal('SIGTERM'), bruges?.signal('SIGTERM')]));

  const run = (args: readonly string[], stdin = ''): Promise<Ran> =>
    hansa([...args, '--data-dir', lubeck.dataDir], { stdin });
  const apply = (httpsWeb: object, name = 'bruges.example'): Promise<Ran> =>
    run(
      ['apply', '-f', '-'],
      JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'SPIFFEFederation',
        metadata: { name },
        spec: { bundleSource: { httpsWeb: { bundleEndpointURL: url, ...httpsWeb } } },
      }),
    );
  const refreshed = async (httpsWeb: object): Promise<Ran> => {
    assert.equal((await apply(httpsWeb)).code, 0);
    return run(['trust', 'refresh', 'bruges.example', '--wait']);
  };

  test('is not given it where no authority that it accepts signed for the name', async () => {
    const { code, stderr } = await refreshed({});
    assert.equal(code, 9);
    assert.match(stderr, /web-authority.*\(identity\)/);
    const shown = await run(['trust', 'bundle', 'show', 'bruges.example']);
    assert.equal(shown.code, 4);
  });

  test('is given it by the authority that the operator names', async () => {
    const { code, stderr } = await refreshed({ caBundle: pem(root) });
    assert.equal(code, 0, stderr);
    const { stdout } = await run(['get', 'sf', 'bruges.example', '-o', 'json']);
    const { status } = JSON.parse(stdout) as SPIFFEFederation;
    assert.equal(status?.source, 'https_web');
    assert.equal(status?.authorities?.length, 1);
    assert.equal(status?.jwtAuthorities?.length, 1);
    const theirs = await hansa(['trust', 'bundle', 'show', '--data-dir', bruges.dataDir], {});
    assert.equal(status?.bundle, theirs.stdout.trim());
  });

  test('is given it with a key that is pinned, and not with another', async () => {
    const caBundle = pem(root);
    for (const pinned of [serving, root]) {
      const { code, stderr } = await refreshed({ caBundle, pinnedKeys: [pin(pinned)] });
      assert.equal(code, 0, stderr);
    }
    const { code, stderr } = await refreshed({ caBundle, pinnedKeys: [pin(forge({}))] });
    assert.equal(code, 9);
    assert.match(stderr, /pinned-key/);
  });

  test('hears that the limit is near, and is refused one more than it allows', async () => {
    const warned = await apply({ caBundle: pem(root) }, 'second.example');
    assert.equal(warned.code, 0, warned.stderr);
    assert.match(warned.stderr, /Warning: 2 of at most 2 federations are in use/);
    const refused = await apply({ caBundle: pem(root) }, 'third.example');
    assert.match(refused.stderr, /reached its limit of 2 federations.*HANSA_LIMIT/s);
    assert.notEqual(refused.code, 0);
    // That bundle is another's: the name of a federation is no label.
    const { stderr } = await run(['trust', 'refresh', 'second.example', '--wait']);
    assert.match(
      stderr,
      /its authorities belong to another trust domain, spiffe:\/\/bruges\.example.*\(trust-domain\)/,
    );
  });

  test('tells the operator who accepts an invitation that there is no room for its peer', async () => {
    await run(['delete', 'sf', 'bruges.example', '--yes']);
    assert.equal((await apply({ caBundle: pem(root) }, 'fourth.example')).code, 0);
    for (const { dataDir, endpoints } of [lubeck, bruges]) {
      const { federation } = endpoints as unknown as { readonly federation: string };
      const manifest = {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Site',
        metadata: { name: 'site' },
        spec: { advertiseURL: federation },
      };
      const stdin = JSON.stringify(manifest);
      await hansa(['apply', '-f', '-', '--data-dir', dataDir], { stdin });
    }
    const line = await hansa(
      ['peer', 'invite', '--for', 'lubeck.example', '--data-dir', bruges.dataDir],
      {},
    );
    const [invitation = ''] = /hansa1\.\S+/.exec(line.stdout) ?? [];
    const accepted = await run(['peer', 'accept', invitation, '--yes']);
    const { stdout } = await run(['peer', 'list']);
    assert.match(accepted.stdout + accepted.stderr + stdout, /maxFederations/);
  });
});
