import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock, systemRandom } from '../core/clock/system.ts';
import { FederatedBundles } from './federation/federated-bundles.ts';
import { credentialOf, forge } from '../core/identity/x509/test-forge.ts';
import { MetricsRegistry } from '../core/metrics/registry.ts';
import type { PlaneContext } from '../core/plane/plane.ts';
import { openStore } from '../core/store/open.ts';
import { trustPlane } from './plane.ts';
import { defaultTrustSettings } from './settings.ts';
import { openAuthority } from './workload/test-workload-site.ts';
import { silentLog } from '../core/log/test-log.ts';

test('a plane that cannot start leaves nothing running', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-trust-plane-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [certFile, keyFile] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  const root = forge({ ca: true });
  const pair = credentialOf(forge({ issuer: root, ca: false, dnsNames: ['web.example'] }));
  writeFileSync(certFile, pair.certificateChain);
  writeFileSync(keyFile, pair.privateKey);
  const timers = new Set<number>();
  const clock = {
    ...systemClock,
    timer: (delayMs: number, fire: () => void) => {
      const timer = systemClock.timer(delayMs, fire);
      timers.add(delayMs);
      return {
        cancel: () => {
          timer.cancel();
          timers.delete(delayMs);
        },
      };
    },
  };
  const store = await openStore({ driver: 'memory' }, { clock: systemClock });
  t.after(() => store.close());
  const authority = await openAuthority('lubeck.example', clock);
  const context = {
    trustDomain: authority.trustDomain,
    store,
    clock,
    random: systemRandom,
    log: silentLog,
    metrics: new MetricsRegistry(),
    authority,
    bundles: new FederatedBundles(store, authority, clock),
    credentials: { current: { chain: [forge({ issuer: root }).der] } },
    // There is no folder for the workload socket.
    dataDir: join(folder, 'missing'),
    resources: () => ({}),
    reservedDomains: [],
  } as unknown as PlaneContext;
  const web = { from: 'files', certFile, keyFile, fileSyncSeconds: 300 } as const;
  await assert.rejects(trustPlane.start(context, { ...defaultTrustSettings, web }), {
    code: 'HANSA_CONFIG_INVALID',
  });
  assert.deepEqual([...timers], []);
});
