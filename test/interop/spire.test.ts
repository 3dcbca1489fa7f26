// A site and a real SPIRE server federate with https_spiffe. Each fetches from the bundle endpoint
// of the other.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { SPIFFEFederation } from '../../src/api/kinds/spiffe-federation.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { parseSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import { type Daemon, execute, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type SpireServer, startSpireBeside } from './spire.ts';
import { missingTools } from './tool.ts';

const lubeck = 'lubeck.example';
const hamburg = 'hamburg.example';

suite('a site and a SPIRE server', { skip: await missingTools('spire-server') }, () => {
  let site: Daemon;
  let spire: SpireServer;

  before(async () => {
    site = await startDaemon(join(temporaryFolder(), 'lubeck'));
    spire = await startSpireBeside(site, hamburg);
  });
  after(async () => {
    await Promise.all([site?.signal('SIGTERM'), spire?.stop()]);
  });

  const run = async (args: readonly string[], stdin = ''): Promise<string> => {
    const ran = await hansa([...args, '--data-dir', site.dataDir], { stdin });
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  const apply = (spec: object): Promise<string> =>
    run(
      ['apply', '-f', '-'],
      JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'SPIFFEFederation',
        metadata: { name: hamburg },
        spec,
      }),
    );
  const federation = async (): Promise<SPIFFEFederation> =>
    JSON.parse(await run(['get', 'spiffefederation', hamburg, '-o', 'json'])) as SPIFFEFederation;
  const specOf = async () => ({
    bundleSource: {
      httpsSpiffe: {
        bundleEndpointURL: spire.bundleEndpoint,
        endpointSpiffeID: `spiffe://${hamburg}/spire/server`,
        bundleBootstrap: await spire.bundle(),
      },
    },
  });
  const fingerprints = (document: string): string[] =>
    parseSpiffeBundle(document, TrustDomain.parse(hamburg))
      .bundle.authorities.map(({ fingerprint }) => fingerprint)
      .toSorted();

  test('the site fetches the bundle of SPIRE and believes it', async () => {
    await apply(await specOf());
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
    assert.equal(status?.refreshHintSeconds, 60);
    assert.deepEqual(fingerprints(status?.bundle ?? ''), fingerprints(await spire.bundle()));
  });

  test('SPIRE fetches the bundle of the site and keeps it', async () => {
    const published = await bundleOf(site);
    const path = join(spire.folder, 'lubeck.json');
    await writeFile(path, published);
    await spire.run(
      'federation',
      'create',
      `-trustDomain=${lubeck}`,
      `-bundleEndpointURL=${federationUrl(site)}/`,
      '-bundleEndpointProfile=https_spiffe',
      `-endpointSpiffeID=spiffe://${lubeck}/hansa/site`,
      `-trustDomainBundlePath=${path}`,
      '-trustDomainBundleFormat=spiffe',
    );
    await spire.run('federation', 'refresh', '-id', lubeck);
    const kept = await spire.run(
      'bundle',
      'list',
      '-id',
      `spiffe://${lubeck}`,
      '-format',
      'spiffe',
    );
    const read = (text: string) => parseSpiffeBundle(text, TrustDomain.parse(lubeck));
    assert.equal(read(kept).bundle.hash, read(published).bundle.hash);
  });

  test('SPIRE refuses the site where another identity is expected of it', async () => {
    await spire.run('federation', 'update', ...updateArguments('spiffe://lubeck.example/web'));
    await assert.rejects(
      spire.run('federation', 'refresh', '-id', lubeck),
      /unexpected ID "spiffe:\/\/lubeck\.example\/hansa\/site"/,
    );
    await spire.run('federation', 'update', ...updateArguments(`spiffe://${lubeck}/hansa/site`));
    await spire.run('federation', 'refresh', '-id', lubeck);
  });

  test('the site refuses SPIRE where another identity is expected of it', async () => {
    const { bundleSource } = await specOf();
    const wrong = { ...bundleSource.httpsSpiffe, endpointSpiffeID: `spiffe://${hamburg}/web` };
    await apply({ bundleSource: { httpsSpiffe: wrong } });
    await until(async () => (await federation()).status?.lastError?.class === 'identity');
    assert.match(
      (await federation()).status?.lastError?.message ?? '',
      /the endpoint is spiffe:\/\/hamburg\.example\/spire\/server/,
    );
    await apply({ bundleSource });
    await until(async () => (await federation()).status?.lastError === undefined);
  });

  test('an SVID of SPIRE verifies with the bundle that the site holds, by OpenSSL', async () => {
    await spire.run('x509', 'mint', '-spiffeID', `spiffe://${hamburg}/web`, '-write', spire.folder);
    const pem = join(spire.folder, 'hamburg.pem');
    await writeFile(pem, await run(['trust', 'bundle', 'show', hamburg, '--format', 'pem']));
    const verified = await execute('openssl', [
      'verify',
      '-CAfile',
      pem,
      '-untrusted',
      join(spire.folder, 'svid.pem'),
      join(spire.folder, 'svid.pem'),
    ]);
    assert.equal(verified.code, 0, verified.stderr);
  });

  test('an authority that SPIRE prepares reaches the site, which records the rotation', async () => {
    await spire.run('localauthority', 'x509', 'prepare');
    const prepared = fingerprints(await spire.bundle());
    assert.equal(prepared.length, 2);
    // As a peer's announcement would, instead of waiting for the hint of a minute.
    await apply({ ...(await specOf()), announcedSequence: 1_000 });
    await until(async () => (await federation()).status?.authorities?.length === 2);
    const { status } = await federation();
    assert.deepEqual(fingerprints(status?.bundle ?? ''), prepared);
    const log = await run(['audit', 'list', '--verb', 'spiffe.federation.rotation']);
    assert.match(log, /hamburg\.example/);
  });

  test('a SPIRE that is gone leaves the last good bundle, and says so', async () => {
    await spire.stop();
    await apply({ ...(await federation()).spec, announcedSequence: 1_001 });
    await run([
      'wait',
      '--timeout=2m',
      'spiffefederation',
      hamburg,
      '--for',
      'condition=EndpointReachable=False',
    ]);
    const { status } = await federation();
    assert.equal(status?.lastError?.class, 'connect');
    assert.equal(status?.authorities?.length, 2);
    assert.equal(status?.conditions?.find(({ type }) => type === 'Ready')?.status, 'True');
  });

  const updateArguments = (endpoint: string): string[] => [
    `-trustDomain=${lubeck}`,
    `-bundleEndpointURL=${federationUrl(site)}/`,
    '-bundleEndpointProfile=https_spiffe',
    `-endpointSpiffeID=${endpoint}`,
  ];
});

function federationUrl({ endpoints }: Daemon): string {
  return (endpoints as unknown as { readonly federation: string }).federation;
}

async function bundleOf(site: Daemon): Promise<string> {
  const ran = await hansa(['trust', 'bundle', 'show', '--data-dir', site.dataDir]);
  assert.equal(ran.code, 0, ran.stderr);
  return ran.stdout;
}
