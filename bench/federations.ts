// Measures the cost of refreshing the bundles of 1 to 10,000 federations.
// `node bench/federations.ts` prints one JSON object per line. Each federation has its own endpoint
// on this machine. The benchmark requests refreshes over the admin socket, 64 at once, as
// `hansa trust refresh` does. A refresh is complete when the site has fetched the bundle over a new
// connection, verified it and written the status. The endpoints use CPU time of the same machine.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { adminClient, type ApiClient, resources } from '../test/e2e/api-client.ts';
import { startDaemon, temporaryFolder } from '../test/e2e/daemon.ts';
import type { Endpoint } from './federation-endpoints.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { done } from './peered-sites.ts';
import { cpuSeconds, residentBytes } from './process-stat.ts';
import { sized } from './size.ts';

const counts = (process.argv[2] ?? sized('1,10,50,1000,10000', '1,10,50,1000,10000', '1,5'))
  .split(',')
  .map(Number);
const atOnce = 64;
const leastRefreshes = sized(200, 100, 5);
const settleMs = sized(2000, 1000, 100);

const most = Math.max(...counts);
const program = fileURLToPath(new URL('federation-endpoints.ts', import.meta.url));
const child = spawn(process.execPath, [program, String(most)], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
process.once('exit', () => child.kill());
const endpoints: Endpoint[] = [];
for await (const line of createInterface({ input: child.stdout })) {
  if (line === '') break;
  endpoints.push(JSON.parse(line) as Endpoint);
}

/** Of each item, so many at once. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const rest = items.values();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const item of rest) await work(item);
    }),
  );
}

async function federate(admin: ApiClient, endpoint: Endpoint): Promise<void> {
  const { trustDomain, url: bundleEndpointURL, bundle: bundleBootstrap } = endpoint;
  const endpointSpiffeID = `spiffe://${trustDomain}/hansa/site`;
  await done(
    admin.request('POST', `${resources}/spiffefederations`, {
      body: {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'SPIFFEFederation',
        metadata: { name: trustDomain },
        spec: {
          bundleSource: { httpsSpiffe: { bundleEndpointURL, endpointSpiffeID, bundleBootstrap } },
        },
      },
    }),
  );
}

async function refresh(admin: ApiClient, { trustDomain }: Endpoint): Promise<void> {
  const answer = await done(
    admin.request('POST', `/hansa/v1/trust/refresh/${trustDomain}`, { body: { waitSeconds: 30 } }),
  );
  const { done: isDone, status } = JSON.parse(answer.text) as {
    readonly done: boolean;
    readonly status?: { readonly lastError?: unknown };
  };
  if (!isDone || status?.lastError !== undefined) {
    throw new Error(`${trustDomain} was not refreshed: ${answer.text}`);
  }
}

const daemon = await startDaemon(join(temporaryFolder(), 'lubeck'), [
  '--max-federations',
  String(most),
]);
const admin = adminClient(daemon.dataDir);
const { pid } = daemon;

/** How many federations have a bundle that their endpoint confirmed. */
async function fresh(): Promise<number> {
  const answer = await fetch(daemon.endpoints.metrics);
  const found = /^hansa_federations\{state="fresh"\} (\d+)$/m.exec(await answer.text());
  return Number(found?.[1]);
}

try {
  const baseline = residentBytes([pid]);
  let known = 0;
  for (const count of counts) {
    const more = endpoints.slice(known, count);
    await each(more, (endpoint) => federate(admin, endpoint));
    known = count;
    const all = endpoints.slice(0, count);
    // A new federation is looked at by itself.
    // To tell of ten thousand is work for the site too: it is asked seldom.
    while ((await fresh()) < count) await sleep(Math.max(settleMs, count));
    await sleep(settleMs);
    // The kernel counts CPU time in hundredths of a second: a few refreshes are measured many times.
    const rounds = Math.max(1, Math.ceil(leastRefreshes / count));
    const times: number[] = [];
    const spent = cpuSeconds([pid]);
    for (let round = 0; round < rounds; round++) {
      const started = performance.now();
      await each(all, (endpoint) => refresh(admin, endpoint));
      times.push(performance.now() - started);
    }
    const cpu = (cpuSeconds([pid]) - spent) / rounds;
    const rss = residentBytes([pid]);
    const name = `federations: refresh of ${count.toLocaleString('en')}`;
    print({
      bench: name,
      value: rounded(median(times)),
      unit: 'ms',
      ...spread(times),
      cpuMicrosEach: rounded((cpu / count) * 1e6),
    });
    print({ bench: `${name}, memory of the site`, value: rounded(rss / 2 ** 20), unit: 'MiB' });
    if (count === most) {
      const kibibytes = (rss - baseline) / count / 1024;
      const bench = 'federations: memory for each';
      print({ bench, value: rounded(kibibytes), unit: 'KiB' });
    }
  }
} finally {
  admin.close();
  await daemon.signal('SIGTERM');
  child.kill();
  await once(child, 'exit');
}

function print(figure: Figure): void {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}
