// `hansa doctor --peer`: which step of the connection to a peer fails, and the remedy. The peers
// are on loopback, and each has a different fault.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { Bundle } from '../../src/core/identity/bundle/bundle.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import { encodeSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import {
  credentialOf,
  type Forged,
  forge,
  forgeLeaf,
  forgeRoot,
  hourMs,
  purposes,
} from '../../src/core/identity/x509/test-forge.ts';
import { type Daemon, hansa, type Ran, startDaemon, temporaryFolder } from './daemon.ts';
import { freePort } from './free-ports.ts';
import { PeeringSite } from './peering-pair.ts';

interface Line {
  readonly check: string;
  readonly level: 'ok' | 'warning' | 'problem';
  readonly text: string;
  readonly remedy?: string;
}

const name = 'reval.example';
const id = `spiffe://${name}/hansa/site`;
const root = forgeRoot(name);
const bundle = (roots: readonly Forged[] = [root], sequence = 7): string =>
  encodeSpiffeBundle(
    new Bundle(
      TrustDomain.parse(name),
      roots.map(({ certificate }) => certificate),
    ),
    { sequence, refreshHintSeconds: 300 },
  );

suite('hansa doctor --peer', () => {
  let lubeck: Daemon;
  const servers: Server[] = [];

  before(async () => {
    lubeck = await startDaemon(join(temporaryFolder(), 'lubeck'));
  });
  after(async () => {
    for (const server of servers) server.close();
    await lubeck?.signal('SIGTERM');
  });

  const run = (args: readonly string[], stdin = ''): Promise<Ran> =>
    hansa([...args, '--data-dir', lubeck.dataDir], { stdin });

  async function listen(server: Server): Promise<string> {
    servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  /** A bundle endpoint that presents this. */
  function serve(
    leaf: Forged,
    listener: RequestListener = (_request, response) =>
      response.setHeader('content-type', 'application/json').end(bundle()),
  ): Promise<string> {
    const { certificateChain, privateKey } = credentialOf(leaf);
    return listen(createServer({ cert: certificateChain, key: privateKey }, listener));
  }

  async function apply(bundleSource: object): Promise<void> {
    const federation = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'SPIFFEFederation',
      metadata: { name },
      spec: { bundleSource },
    };
    const { code, stderr } = await run(['apply', '-f', '-'], JSON.stringify(federation));
    assert.equal(code, 0, stderr);
  }

  /** Until the site has come so far with it. */
  async function isSo(what: string): Promise<void> {
    const { code, stderr } = await run(['wait', 'sf', name, '--for', what, '--timeout=2m']);
    assert.equal(code, 0, stderr);
  }

  const bySpiffe = (url: string): Promise<void> =>
    apply({
      httpsSpiffe: {
        bundleEndpointURL: url,
        endpointSpiffeID: id,
        bundleBootstrap: bundle(),
      },
    });

  async function looked(): Promise<{ readonly code: number | null; readonly lines: Line[] }> {
    const { code, stdout, stderr } = await run(['doctor', '--peer', name, '-o', 'json']);
    assert.match(stdout, /^\[/, stderr);
    return { code, lines: JSON.parse(stdout) as Line[] };
  }

  /** What was well, and then what was not. */
  async function failing(url: string, wells: readonly string[]): Promise<Line> {
    await bySpiffe(url);
    const { code, lines } = await looked();
    assert.equal(code, 10);
    const problems = lines.filter(({ level }) => level === 'problem');
    assert.equal(problems.length, 1, JSON.stringify(lines));
    const [found] = problems as [Line];
    assert.deepEqual(
      lines.slice(0, lines.indexOf(found)).map(({ check, level }) => `${check} ${level}`),
      wells.map((check) => `${check} ok`),
    );
    assert.notEqual(found.remedy ?? '', '');
    return found;
  }

  test('says that it knows nobody of that name', async () => {
    const { code, stderr } = await run(['doctor', '--peer', 'nobody.example']);
    assert.equal(code, 4);
    assert.match(stderr, /no peer and no SPIFFEFederation nobody\.example/);
  });

  test('tells of each step that all is well, and changes nothing', async () => {
    await bySpiffe(await serve(forgeLeaf(root, id)));
    await isSo('condition=EndpointReachable');
    const version = async (): Promise<string> =>
      (await run(['get', 'sf', name, '-o', 'jsonpath={.metadata.resourceVersion}'])).stdout;
    const was = await version();
    const { code, stdout } = await run(['doctor', '--peer', name]);
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^✓ DNS +127\.0\.0\.1 is an address$/m);
    assert.match(stdout, /^✓ TCP +127\.0\.0\.1:\d+ answers in [\d.]+ ms$/m);
    assert.match(stdout, /^✓ TLS +spiffe:\/\/reval\.example\/hansa\/site, valid until \d/m);
    assert.match(stdout, /^✓ bundle +1 authority, sequence 7: same as the held bundle$/m);
    assert.match(stdout, /^✓ held +fresh, next fetch in /m);
    assert.equal(await version(), was);
  });

  test('tells a name that is not known', async () => {
    // Longer than a label can be: no resolver is asked for it.
    const found = await failing(`https://${'a'.repeat(64)}.example/`, []);
    assert.equal(found.check, 'DNS');
    assert.match(found.text, /its DNS name does not exist/);
  });

  test('tells that nobody listens', async () => {
    const found = await failing(`https://127.0.0.1:${await freePort()}/`, ['DNS']);
    assert.equal(found.check, 'TCP');
    assert.match(found.text, /connection refused/);
  });

  test('tells what does not finish a handshake', async () => {
    const url = await listen(createTcpServer((socket) => socket.end('SSH-2.0-x\r\n')));
    const found = await failing(url, ['DNS', 'TCP']);
    assert.equal(found.check, 'TLS');
    assert.match(found.remedy ?? '', /another program may listen on that port/);
  });

  test('tells who answers in the place of whom', async () => {
    const old = forgeLeaf(forgeRoot('old.reval.example'), 'spiffe://old.reval.example/hansa/site');
    const found = await failing(await serve(old), ['DNS', 'TCP']);
    assert.deepEqual(
      [found.check, found.text],
      ['TLS', `presented spiffe://old.reval.example/hansa/site, expected ${id}`],
    );
    assert.match(found.remedy ?? '', /changed its trust domain, or another host answers/);
  });

  test('tells a certificate that has expired, and one of a foreign authority', async () => {
    const notAfterMs = Date.now() - hourMs;
    const expired = await failing(await serve(forgeLeaf(root, id, { notAfterMs })), ['DNS', 'TCP']);
    assert.match(expired.text, /expired/);
    assert.match(expired.remedy ?? '', /Compare the clocks/);
    const foreign = await failing(await serve(forgeLeaf(forgeRoot(name), id)), ['DNS', 'TCP']);
    assert.match(foreign.remedy ?? '', /hansa trust bundle bootstrap reval\.example/);
  });

  test('tells an answer that is no bundle, and shows nothing of it that a terminal would obey', async () => {
    const url = await serve(forgeLeaf(root, id), (_request, response) =>
      response.setHeader('content-type', 'text/html\u00a0x').end('\u001b]0;owned\u0007'),
    );
    const found = await failing(url, ['DNS', 'TCP', 'TLS']);
    assert.equal(found.check, 'bundle');
    const { stdout } = await run(['doctor', '--peer', name]);
    // oxlint-disable-next-line no-control-regex -- none may be left
    assert.doesNotMatch(stdout, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    const rolledBack = await serve(forgeLeaf(root, id));
    await bySpiffe(rolledBack);
    await run(['trust', 'refresh', name, '--wait']);
    const older = await serve(forgeLeaf(root, id), (_request, response) =>
      response.end(bundle([root], 3)),
    );
    const sequence = await failing(older, ['DNS', 'TCP', 'TLS']);
    assert.match(sequence.remedy ?? '', /--accept-rollback/);
  });

  test('tells a certificate of the Web PKI for another name, and all well by its authority', async () => {
    const authority = forge({ ca: true });
    const forName = (dnsName: string): Forged =>
      forge({ issuer: authority, ca: false, dnsNames: [dnsName], purposes: [purposes.server] });
    const named = async (leaf: Forged): Promise<string> =>
      (await serve(leaf)).replace('127.0.0.1', 'localhost');
    const caBundle = certificatePem(authority.der);
    const wrong = await named(forName('old.reval.example'));
    await apply({ httpsWeb: { bundleEndpointURL: wrong, caBundle } });
    const { lines } = await looked();
    const found = lines.find(({ level }) => level === 'problem');
    assert.equal(found?.check, 'TLS', JSON.stringify(lines));
    assert.match(found.text, /old\.reval\.example/);
    assert.match(found.remedy ?? '', /a certificate for localhost/);
    assert.match(lines[0]?.text ?? '', /^localhost → .*127\.0\.0\.1/);
    await apply({ httpsWeb: { bundleEndpointURL: await named(forName('localhost')), caBundle } });
    const well = await looked();
    assert.deepEqual(
      well.lines.slice(0, 4).map(({ check, level }) => `${check} ${level}`),
      ['DNS ok', 'TCP ok', 'TLS ok', 'bundle ok'],
    );
  });

  test('asks nobody where the bundle is static', async () => {
    await apply({ static: { bundle: bundle() } });
    await isSo('jsonpath={.status.source}=static');
    const { code, lines } = await looked();
    assert.equal(code, 0);
    assert.match(lines[0]?.text ?? '', /^static/);
  });
});

test('hansa doctor --peer tells of a peer how it stands, and why it cannot be reached', async () => {
  const folder = temporaryFolder();
  const lubeck = new PeeringSite(folder, 'lubeck');
  const bruges = new PeeringSite(folder, 'bruges');
  try {
    await Promise.all([lubeck.start(), bruges.start()]);
    const { code, stderr } = await bruges.accept(await lubeck.invite(['--for', bruges.name]));
    assert.equal(code, 0, stderr);
    await lubeck.until(bruges.name, 'active');
    const well = await lubeck.run(['doctor', '--peer', bruges.name]);
    assert.equal(well.code, 0, well.stdout);
    assert.match(well.stdout, /^✓ peer +active since \d/m);
    assert.match(well.stdout, /^✓ bundle /m);
    await bruges.stop('SIGKILL');
    const dead = await lubeck.run(['doctor', '--peer', bruges.name]);
    assert.equal(dead.code, 10, dead.stdout);
    assert.match(dead.stdout, /^✗ TCP +.*connection refused/m);
    await lubeck.must(['peer', 'revoke', bruges.name]);
    const revoked = await lubeck.run(['doctor', '--peer', bruges.name]);
    assert.match(revoked.stdout, /^! peer +revoked since /m);
    assert.match(revoked.stdout, /hansa peer invite --for bruges\.example/);
  } finally {
    await Promise.all([lubeck.stop(), bruges.stop()]);
  }
});
