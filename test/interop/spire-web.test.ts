// A site and a real SPIRE server federate with https_web. Each fetches from the bundle endpoint of
// the other and accepts a certificate for its name. Each rejects a certificate for another name, or
// from a root that it does not trust.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { SPIFFEFederation } from '../../src/api/kinds/spiffe-federation.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { parseSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type SpireServer, startSpireBeside } from './spire.ts';
import { missingTools } from './tool.ts';
import { makeWebPki, type WebPki } from './web-pki.ts';

const lubeck = 'lubeck.example';
const hamburg = 'hamburg.example';

const skip = await missingTools('spire-server');

suite('a site and a SPIRE server over the Web PKI', { skip }, () => {
  let pki: WebPki;
  let stranger: WebPki;
  let site: Daemon;
  let spire: SpireServer;

  before(async () => {
    const folder = temporaryFolder();
    for (const name of ['pki', 'stranger']) mkdirSync(join(folder, name));
    pki = makeWebPki(join(folder, 'pki'));
    stranger = makeWebPki(join(folder, 'stranger'));
    site = await startDaemon(join(folder, 'lubeck'), [
      '--web',
      '127.0.0.1:0',
      '--serving-cert-cert-file',
      pki.certificateFile,
      '--serving-cert-key-file',
      pki.keyFile,
    ]);
    spire = await startSpireBeside(site, hamburg, { web: pki, webRootsFile: pki.rootFile });
  });
  after(async () => {
    await Promise.all([site?.signal('SIGTERM'), spire?.stop()]);
  });

  const run = async (args: readonly string[], stdin = ''): Promise<string> => {
    const ran = await hansa([...args, '--data-dir', site.dataDir], { stdin });
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  const apply = (httpsWeb: object): Promise<string> =>
    run(
      ['apply', '-f', '-'],
      JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'SPIFFEFederation',
        metadata: { name: hamburg },
        spec: { bundleSource: { httpsWeb } },
      }),
    );
  const federation = async (): Promise<SPIFFEFederation> =>
    JSON.parse(await run(['get', 'spiffefederation', hamburg, '-o', 'json'])) as SPIFFEFederation;
  const hashOf = (document: string, trustDomain: string): string =>
    parseSpiffeBundle(document, TrustDomain.parse(trustDomain)).bundle.hash;
  const web = (): { port: string } => {
    const { web: url = '' } = site.endpoints as unknown as { readonly web?: string };
    return new URL(url);
  };

  test('the site fetches the bundle of SPIRE by the root that it was given', async () => {
    await apply({ bundleEndpointURL: spire.bundleEndpoint, caBundle: pki.root });
    await run([
      'wait',
      '--timeout=2m',
      'spiffefederation',
      hamburg,
      '--for',
      'condition=EndpointReachable',
    ]);
    const { status } = await federation();
    assert.equal(status?.lastError, undefined);
    assert.equal(hashOf(status?.bundle ?? '', hamburg), hashOf(await spire.bundle(), hamburg));
  });

  for (const [what, change] of [
    ['whose certificate is of another root', () => ({ caBundle: stranger.root })],
    ['whose certificate is for another name', () => ({ bundleEndpointURL: byAddress() })],
    [
      'that has another key than the pinned one',
      () => ({ pinnedKeys: [`sha256/${'A'.repeat(43)}=`] }),
    ],
  ] as const) {
    test(`the site refuses a SPIRE ${what}, and keeps its bundle`, async () => {
      const good = { bundleEndpointURL: spire.bundleEndpoint, caBundle: pki.root };
      await apply({ ...good, ...change() });
      await until(async () => (await federation()).status?.lastError?.class === 'identity');
      assert.notEqual((await federation()).status?.bundle, undefined);
      await apply(good);
      await until(async () => (await federation()).status?.lastError === undefined);
    });
  }
  const byAddress = (): string => spire.bundleEndpoint.replace('localhost', '127.0.0.1');

  const create = (port: string, host = 'localhost'): Promise<string> =>
    spire.run(
      'federation',
      'create',
      `-trustDomain=${lubeck}`,
      `-bundleEndpointURL=https://${host}:${port}/webapi/spiffe/bundle.json`,
      '-bundleEndpointProfile=https_web',
    );
  const listed = async (): Promise<string> =>
    spire.run('bundle', 'list', '-id', `spiffe://${lubeck}`, '-format', 'spiffe');

  test('SPIRE refuses the site under a name that its certificate is not for', async () => {
    await create(web().port, '127.0.0.1');
    await assert.rejects(
      spire.run('federation', 'refresh', '-id', lubeck),
      /cannot validate certificate for 127\.0\.0\.1/,
    );
    await spire.run('federation', 'delete', '-id', lubeck);
  });

  test('SPIRE fetches the bundle of the site, with the keys of both kinds', async () => {
    await create(web().port);
    await spire.run('federation', 'refresh', '-id', lubeck);
    assert.equal(
      hashOf(await listed(), lubeck),
      hashOf(await run(['trust', 'bundle', 'show']), lubeck),
    );
  });
});
