// Serves the bundle endpoints (https_spiffe) of many trust domains in one process, for bench/federations.ts
// and bench/spire-operator.ts. Each has its own address in 127.0.0.0/8, and all share one port. Prints one
// JSON object per line for each endpoint, then an empty line.

import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { TrustDomain } from '../src/api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../src/core/clock/system.ts';
import { SiteAuthority } from '../src/core/identity/authority/authority.ts';
import { exportPkcs8, generateP256, PublicKey } from '../src/core/identity/x509/keys.ts';
import { certificatePem } from '../src/core/identity/x509/pem.ts';
import { encodeSpiffeBundle } from '../src/core/identity/bundle/spiffe-bundle.ts';
import { MemoryVault } from '../src/core/identity/authority/test-vault.ts';

export interface Endpoint {
  readonly trustDomain: string;
  readonly url: string;
  readonly bundle: string;
}

const count = Number(process.argv[2]);
const refreshHintSeconds = Number(process.argv[3] ?? 3600);
// One key for all leaves: what differs is who signed them.
const leafKey = await generateP256(systemRandom);
const publicKey = PublicKey.of(leafKey);
const key = exportPkcs8(leafKey).toString('base64');
const keyPem = `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`;

interface Known {
  readonly bundle: string;
  readonly certificate: string;
  context?: SecureContext;
}

const byAddress = new Map<string, Known>();

const http = createHttpServer((request, response) => {
  const address = request.socket.localAddress ?? '';
  const known = byAddress.get(address);
  response.setHeader('content-type', 'application/json');
  response.end(known?.bundle);
});
// Contexts are made when they are first needed: ten thousand at once would take seconds.
const contextOf = (known: Known): SecureContext =>
  (known.context ??= createSecureContext({
    key: keyPem,
    cert: known.certificate,
    minVersion: 'TLSv1.3',
  }));
const server = createServer((socket) => {
  const known = byAddress.get(socket.localAddress ?? '');
  if (known === undefined) {
    socket.destroy();
    return;
  }
  const secure = new TLSSocket(socket, { isServer: true, secureContext: contextOf(known) });
  secure.on('error', () => secure.destroy());
  http.emit('connection', secure);
});
server.listen(0, '0.0.0.0');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
for (let index = 0; index < count; index++) {
  const address = `127.${1 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
  const trustDomain = TrustDomain.parse(`td-${index}.example`);
  const authority = await SiteAuthority.open({
    trustDomain,
    vault: new MemoryVault(),
    clock: systemClock,
    random: systemRandom,
  });
  const { chain } = await authority.issueSite({ publicKey });
  const bundle = encodeSpiffeBundle(authority.bundle, { sequence: 1, refreshHintSeconds });
  const certificate = chain.map((der) => certificatePem(der)).join('');
  byAddress.set(address, { bundle, certificate });
  const endpoint: Endpoint = {
    trustDomain: trustDomain.name,
    url: `https://${address}:${port}/`,
    bundle,
  };
  process.stdout.write(`${JSON.stringify(endpoint)}\n`);
}
process.stdout.write('\n');
