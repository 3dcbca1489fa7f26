// Two sites federate only through manifests. The user who applies an invalid manifest gets the
// error.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { SPIFFEFederation } from '../../src/api/kinds/spiffe-federation.ts';
import type { RotationStatus } from '../../src/trust/rotation/rotation.ts';
import { type Daemon, hansa, type Ran, startDaemon, temporaryFolder } from './daemon.ts';
import { freePort } from './free-ports.ts';

suite('two sites and their bundles', () => {
  const folder = temporaryFolder();
  const brugesDir = join(folder, 'bruges');
  let lubeck: Daemon;
  let bruges: Daemon;
  let brugesBundle: string;

  before(async () => {
    const port = await freePort();
    [lubeck, bruges] = await Promise.all([
      startDaemon(join(folder, 'lubeck')),
      startBruges(String(port)),
    ]);
    brugesBundle = (await run(bruges, ['trust', 'bundle', 'show'])).stdout.trim();
  });
  after(() => Promise.all([lubeck?.signal('SIGTERM'), bruges?.signal('SIGTERM')]));

  const startBruges = (port: string): Promise<Daemon> =>
    startDaemon(brugesDir, [
      '--trust-domain',
      'bruges.example',
      '--federation',
      `127.0.0.1:${port}`,
    ]);
  const run = ({ dataDir }: Daemon, args: readonly string[], stdin = ''): Promise<Ran> =>
    hansa([...args, '--data-dir', dataDir], { stdin });
  const federationUrl = ({ endpoints }: Daemon): string =>
    (endpoints as unknown as { readonly federation: string }).federation;
  const apply = (httpsSpiffe: object, name = 'bruges.example'): Promise<Ran> =>
    run(
      lubeck,
      ['apply', '-f', '-'],
      JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'SPIFFEFederation',
        metadata: { name },
        spec: { bundleSource: { httpsSpiffe } },
      }),
    );
  const endpoint = (changes: object = {}) => ({
    bundleEndpointURL: `${federationUrl(bruges)}/`,
    endpointSpiffeID: 'spiffe://bruges.example/hansa/site',
    bundleBootstrap: brugesBundle,
    ...changes,
  });
  const federation = async (): Promise<SPIFFEFederation> => {
    const { stdout } = await run(lubeck, ['get', 'sf', 'bruges.example', '-o', 'json']);
    return JSON.parse(stdout) as SPIFFEFederation;
  };

  const refused: Record<string, [() => Promise<Ran>, RegExp]> = {
    'our own trust domain': [
      () => apply(endpoint(), 'lubeck.example'),
      /is the trust domain of this site/,
    ],
    'a bundle with one of our own authorities': [
      async () => {
        const own = (await run(lubeck, ['trust', 'bundle', 'show'])).stdout;
        return apply(endpoint({ bundleBootstrap: own }));
      },
      /contains an authority of this site, lubeck\.example/,
    ],
    'a bundle that is cut off': [
      () => apply(endpoint({ bundleBootstrap: brugesBundle.slice(0, 200) })),
      /not a JSON object/,
    ],
    'an endpoint without TLS': [
      () => apply(endpoint({ bundleEndpointURL: 'http://bruges.example/' })),
      /bundleEndpointURL/,
    ],
    'an endpoint without an identity': [
      () => apply(endpoint({ endpointSpiffeID: undefined })),
      /endpointSpiffeID must be set.*spiffe:\/\/TRUST-DOMAIN\/spire\/server/,
    ],
  };
  for (const [what, [attempt, why]] of Object.entries(refused)) {
    test(`${what} is refused in plain words`, async () => {
      const { code, stderr } = await attempt();
      assert.equal(code, 3, stderr);
      assert.match(stderr, why);
    });
  }

  test('a federation is ready within a moment, and status tells', async () => {
    assert.equal((await apply(endpoint())).code, 0);
    await run(lubeck, [
      'wait',
      '--timeout=2m',
      'sf',
      'bruges.example',
      '--for',
      'condition=EndpointReachable',
    ]);
    const { stdout } = await run(lubeck, ['trust', 'status']);
    assert.match(stdout, /^lubeck\.example +this site +own/m);
    assert.match(stdout, /^bruges\.example +https_spiffe +fresh +\S+ +\S+ ago +in \S+ +2$/m);
    const wide = await run(lubeck, ['trust', 'status', '-o', 'wide']);
    assert.match(wide.stdout, /SEQUENCE +EXPIRES +FAILURES/);
    const table = await run(lubeck, ['get', 'sf']);
    assert.match(table.stdout, /^NAME +SOURCE +READY +FRESH +SYNCED +NEXT +AUTHORITIES +AGE$/m);
    assert.match(table.stdout, /^bruges\.example +https_spiffe +True +True +\S+ +\S+ +2 +\S+$/m);
  });

  test('a refresh that is waited for tells what came of it, and moves no revision where nothing is new', async () => {
    const first = await federation();
    const { code, stdout, stderr } = await run(lubeck, [
      'trust',
      'refresh',
      'bruges.example',
      '--wait',
    ]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^The bundle of bruges\.example is fresh: 2 authorities, sequence 1\.$/m);
    const then = await federation();
    assert.equal(then.metadata.resourceVersion, first.metadata.resourceVersion);
    assert((then.status?.syncedAt ?? '') >= (first.status?.syncedAt ?? ''));
    const nobody = await run(lubeck, ['trust', 'refresh', 'nobody.example']);
    assert.equal(nobody.code, 4);
  });

  test('a bundle is judged without a site', async () => {
    const judged = await hansa(['trust', 'bundle', 'verify', '-'], { stdin: brugesBundle });
    assert.equal(judged.code, 0, judged.stderr);
    assert.match(judged.stdout, /^A bundle of bruges\.example: 1 X\.509 and 1 JWT authorities/);
    const other = await hansa(
      ['trust', 'bundle', 'verify', '-', '--trust-domain', 'reval.example'],
      { stdin: brugesBundle },
    );
    assert.notEqual(other.code, 0);
    assert.match(
      other.stderr,
      /its authorities belong to another trust domain, spiffe:\/\/bruges\.example/,
    );
    const { keys, ...rest } = JSON.parse(brugesBundle) as { keys: object[] };
    const odd = JSON.stringify({ ...rest, keys: [{ use: 'tea', kty: 'pot' }, ...keys] });
    const leftOut = await hansa(['trust', 'bundle', 'verify', '-'], { stdin: odd });
    assert.match(leftOut.stdout, /skipped: key 0, because/);
  });

  test('a manifest of Teleport is converted, and one without an endpoint ID refused with a hint', async () => {
    const manifest = (source: object) =>
      JSON.stringify({
        kind: 'spiffe_federation',
        version: 'v1',
        metadata: { name: 'reval.example' },
        spec: { bundle_source: source },
      });
    const bundle_endpoint_url = 'https://127.0.0.1:1/webapi/spiffe/bundle.json';
    const applied = await run(
      lubeck,
      ['apply', '-f', '-'],
      manifest({ https_web: { bundle_endpoint_url } }),
    );
    assert.equal(applied.code, 0, applied.stderr);
    const refresh = await run(lubeck, ['trust', 'refresh', 'reval.example', '--wait']);
    assert.equal(refresh.code, 9);
    assert.match(refresh.stderr, /connection refused/);
    await run(lubeck, ['delete', 'sf', 'reval.example', '--yes']);
    const refusedOne = await run(
      lubeck,
      ['apply', '-f', '-'],
      manifest({ https_spiffe: { bundle_endpoint_url, bundle_bootstrap: brugesBundle } }),
    );
    assert.notEqual(refusedOne.code, 0);
    assert.match(refusedOne.stderr, /endpoint_spiffe_id is missing/);
  });

  test('both sites name the same fingerprint of a bundle', async () => {
    const told = await run(bruges, ['trust', 'bundle', 'fingerprint']);
    const held = await run(lubeck, ['trust', 'bundle', 'fingerprint', 'bruges.example']);
    assert.match(told.stdout, /^(?:[0-9a-f]{2}:){31}[0-9a-f]{2}\n$/);
    assert.equal(held.stdout, told.stdout);
  });

  test('an authority that one site prepares is published, and fetched by the other', async () => {
    const prepared = await run(bruges, ['trust', 'rotate', 'prepare', '-o', 'json']);
    assert.equal(prepared.code, 0, prepared.stderr);
    const { bundle } = JSON.parse(prepared.stdout) as RotationStatus;
    assert.equal(bundle.sequence, 2);
    // As peers do by themselves when it is announced to them.
    await apply(endpoint({ bundleEndpointURL: `${federationUrl(bruges)}/?prepared` }));
    const waited = await run(lubeck, [
      'wait',
      '--timeout=2m',
      'sf',
      'bruges.example',
      '--for',
      'jsonpath={.status.authorityCount}=3',
    ]);
    assert.equal(waited.code, 0, waited.stderr);
    const told = await run(lubeck, ['audit', 'list', '--verb', 'spiffe.federation.rotation']);
    assert.match(told.stdout, /SPIFFEFederation\/bruges\.example/);
    const log = await run(bruges, ['audit', 'list', '--verb', 'authority.prepare']);
    assert.match(log.stdout, /authority\.prepare/);
    brugesBundle = (await run(bruges, ['trust', 'bundle', 'show'])).stdout.trim();
    const twice = await run(bruges, ['trust', 'rotate', 'prepare']);
    assert.equal(twice.code, 5);
  });

  test('an endpoint that ends shows in the status, and is found again by itself', async () => {
    const { port } = new URL(federationUrl(bruges));
    await bruges.signal('SIGKILL');
    await apply(endpoint({ bundleEndpointURL: `${federationUrl(bruges)}/?again` }));
    await run(lubeck, [
      'wait',
      '--timeout=2m',
      'sf',
      'bruges.example',
      '--for',
      'condition=EndpointReachable=False',
    ]);
    assert.equal((await federation()).status?.lastError?.class, 'connect');
    bruges = await startBruges(port);
    const waited = await run(lubeck, [
      'wait',
      '--timeout=2m',
      'sf',
      'bruges.example',
      '--for',
      'condition=EndpointReachable',
    ]);
    assert.equal(waited.code, 0, waited.stderr);
    const { status } = await federation();
    assert.equal(status?.lastError, undefined);
    // The same authorities have the same sequence, however often the site starts.
    assert.equal(status?.sequence, 2);
  });

  test('another site at its address is not believed', async () => {
    const { port } = new URL(federationUrl(bruges));
    await bruges.signal('SIGTERM');
    const impostor = await startDaemon(join(folder, 'impostor'), [
      '--trust-domain',
      'bruges.example',
      '--federation',
      `127.0.0.1:${port}`,
    ]);
    try {
      await apply(endpoint({ bundleEndpointURL: `https://127.0.0.1:${port}/?impostor` }));
      const waited = await run(lubeck, [
        'wait',
        '--timeout=2m',
        'sf',
        'bruges.example',
        '--for',
        'jsonpath={.status.lastError.class}=identity',
      ]);
      assert.equal(waited.code, 0, waited.stderr);
      assert.equal((await federation()).status?.bundle, brugesBundle);
      // Until an operator says that it is the one, by what its own operator tells.
      const { stdout: fingerprint } = await run(impostor, ['trust', 'bundle', 'fingerprint']);
      const wrong = await run(lubeck, [
        'trust',
        'bundle',
        'bootstrap',
        'bruges.example',
        '--fingerprint',
        `00${fingerprint.trim().slice(2)}`,
      ]);
      assert.match(wrong.stderr, /its fingerprint is/);
      const rebuilt = await run(lubeck, [
        'trust',
        'bundle',
        'bootstrap',
        'bruges.example',
        '--fingerprint',
        fingerprint.trim(),
      ]);
      assert.equal(rebuilt.code, 0, rebuilt.stderr);
      assert.match(rebuilt.stdout, /is fresh: 2 authorities, sequence 1\./);
    } finally {
      await impostor.signal('SIGTERM');
    }
  });

  test('each step is in the audit log under its name', async () => {
    const { stdout } = await run(lubeck, ['audit', 'list']);
    assert.match(stdout, /spiffe\.federation\.create +SPIFFEFederation\/bruges\.example/);
    assert.match(stdout, /spiffe\.federation\.update +SPIFFEFederation\/bruges\.example/);
    const deleted = await run(lubeck, ['delete', 'sf', 'bruges.example', '--yes']);
    assert.equal(deleted.code, 0, deleted.stderr);
    const shown = await run(lubeck, ['trust', 'bundle', 'show', 'bruges.example']);
    assert.equal(shown.code, 4);
    const log = await run(lubeck, ['audit', 'list']);
    assert.match(log.stdout, /spiffe\.federation\.delete/);
    assert.equal((await run(lubeck, ['audit', 'verify'])).code, 0);
  });
});
