// Probes of real TLS servers on this machine.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:https';
import { type AddressInfo, type Server } from 'node:net';
import { after, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { systemClock } from '../../core/clock/system.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { svidServerOptions } from '../../core/identity/tls/server.ts';
import { TlsTransport } from '../../core/identity/tls/tls-transport.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import {
  credentialOf,
  type Forged,
  forgeLeaf,
  forgeRoot,
  hourMs,
} from '../../core/identity/x509/test-forge.ts';
import { probeEndpoint, type ProbeTarget } from './probe-endpoint.ts';

const root = forgeRoot('a.example');
const otherRoot = forgeRoot('a.example');
const server = forgeLeaf(root, 'spiffe://a.example/spire/server');
const workload = forgeLeaf(root, 'spiffe://a.example/web');
const transport = new TlsTransport({ clock: systemClock, credential: () => credentialOf(server) });
const servers: Server[] = [];
after(() => {
  for (const each of servers) each.close();
});

const documentOf = (authority: Forged): string =>
  encodeSpiffeBundle(new Bundle(TrustDomain.parse('a.example'), [authority.certificate]), {
    sequence: 1,
    refreshHintSeconds: 300,
  });

async function serve(credential: Forged, body: string, status = 200): Promise<number> {
  const listening = createServer(
    svidServerOptions(credentialOf(credential)),
    (_request, response) => {
      response.writeHead(status).end(body);
    },
  );
  servers.push(listening);
  listening.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  return (listening.address() as AddressInfo).port;
}

const probe = (port: number, target: Partial<ProbeTarget> = {}) =>
  probeEndpoint(
    {
      host: '127.0.0.1',
      port,
      profile: 'https_spiffe',
      trustDomain: 'a.example',
      authorities: certificatePem(root.der),
      ...target,
    },
    { transport, clock: systemClock, signal: new AbortController().signal },
  );

test('an endpoint that serves the bundle of this server is reached', async () => {
  const found = await probe(await serve(server, documentOf(root)));
  assert.deepEqual([found.status, found.reason], ['True', 'Reached']);
});

for (const [what, credential, body, status, verdict] of [
  ['the SVID of another workload', workload, documentOf(root), 200, 'False OtherIdentity'],
  [
    'an SVID that expired',
    forgeLeaf(root, 'spiffe://a.example/spire/server', { notAfterMs: Date.now() - hourMs }),
    documentOf(root),
    200,
    'False CertificateExpired',
  ],
  [
    'an SVID that is not valid yet',
    forgeLeaf(root, 'spiffe://a.example/spire/server', { notBeforeMs: Date.now() + hourMs }),
    documentOf(root),
    200,
    'False CertificateNotYetValid',
  ],
  [
    'the bundle of another trust domain',
    server,
    documentOf(forgeRoot('b.example')),
    200,
    'False OtherBundle',
  ],
  [
    'an SVID of another authority',
    forgeLeaf(otherRoot, 'spiffe://a.example/spire/server'),
    documentOf(root),
    200,
    'False CertificateRefused',
  ],
  ['the bundle of another server', server, documentOf(otherRoot), 200, 'False OtherBundle'],
  ['no JSON', server, 'hello', 200, 'False NoBundle'],
  ['an error', server, documentOf(root), 503, 'False Unreachable'],
  ['a body beyond the limit', server, 'x'.repeat(1_000_000), 200, 'False NoBundle'],
] as const) {
  test(`an endpoint with ${what} is ${verdict}`, async () => {
    const found = await probe(await serve(credential, body, status));
    assert.equal(`${found.status} ${found.reason}`, verdict, found.message);
    assert.match(found.message, /[Cc]heck|Renew|Compare|Let|let|must/, 'it says what to do');
  });
}

test('an endpoint that nothing listens on is not reached', async () => {
  const found = await probe(1);
  assert.equal(`${found.status} ${found.reason}`, 'False Unreachable');
});

for (const authorities of [undefined, '', 'no certificate']) {
  test(`without the authorities of the server (${authorities}), the site cannot tell`, async () => {
    const found = await probe(1, { authorities });
    assert.equal(`${found.status} ${found.reason}`, 'Unknown BundleUnknown');
  });
}

test('a certificate of an unknown CA does not prove that others are refused', async () => {
  const port = await serve(server, documentOf(root));
  const found = await probe(port, { profile: 'https_web' });
  assert.equal(`${found.status} ${found.reason}`, 'Unknown AuthorityUnknown');
});
