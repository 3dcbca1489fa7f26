import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { exportPkcs8, generateP256, PublicKey } from '../../core/identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../../core/identity/x509/pem.ts';
import { svidServerOptions } from '../../core/identity/tls/server.ts';
import { joinBySecret } from './join-client.ts';
import { joinSite, ownKey, type TestJoinSite } from '../join/test-join-site.ts';

let site: TestJoinSite;
before(async () => {
  site = await joinSite();
});
after(() => site.stop());

/** With the SVID of the site. */
async function silentServer() {
  const key = await generateP256(systemRandom);
  const { chain } = await site.authority.issueSite({ publicKey: PublicKey.of(key) });
  const server = createSecureServer(
    svidServerOptions({
      certificateChain: chain.map((der) => certificatePem(der)).join(''),
      privateKey: privateKeyPem(exportPkcs8(key)),
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { server, url: new URL(`https://127.0.0.1:${port}`) };
}

test('a site that takes the call and never answers is not waited for without end', async () => {
  const { server, url } = await silentServer();
  const waits = new Map<number, () => void>();
  const clock = {
    ...systemClock,
    timer: (delayMs: number, fire: () => void) => {
      waits.set(delayMs, fire);
      return { cancel: () => void waits.delete(delayMs) };
    },
  };
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    waits.get(30_000)?.();
  });
  const parts = {
    server: { url, bundle: site.authority.bundle },
    clock,
    random: systemRandom,
    key: ownKey,
  };
  const wish = { token: 'machines', role: 'agent', name: 'crane-1' };
  await assert.rejects(joinBySecret(parts, wish, Buffer.alloc(32, 1)), {
    code: 'HANSA_TIMEOUT',
    message:
      /^Cannot join at https:\/\/127\.0\.0\.1:\d+: it did not answer within 30 s\. Try again\.$/,
  });
  assert.equal(waits.size, 0, 'no timer is left');
  server.close();
});

test('a server that speaks no gRPC, such as the api listener, is named as the mistake', async () => {
  for (const headers of [
    { ':status': 401, 'content-type': 'application/json' },
    { ':status': 200 },
  ]) {
    const { server, url } = await silentServer();
    server.on('stream', (stream) => {
      stream.on('error', () => undefined);
      stream.respond(headers);
      stream.end('{"kind":"Status"}');
    });
    const parts = {
      server: { url, bundle: site.authority.bundle },
      clock: systemClock,
      random: systemRandom,
      key: ownKey,
    };
    const wish = { token: 'machines', role: 'agent', name: 'crane-1' };
    await assert.rejects(joinBySecret(parts, wish, Buffer.alloc(32, 1)), {
      code: 'HANSA_UNREACHABLE',
      message: new RegExp(
        `HTTP status ${headers[':status']}, and not with gRPC\\. .*federation listener`,
      ),
    });
    server.close();
  }
});
