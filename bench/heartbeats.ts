// Compares a heartbeat over a kept connection with one that needs a TLS handshake. `node
// bench/heartbeats.ts` prints one JSON object per line. A real site answers the heartbeats of peers in
// this process, which send them through the connections that a site uses.

import { TrustDomain } from '../src/api/values/trust-domain.ts';
import { systemClock } from '../src/core/clock/system.ts';
import { parseSpiffeBundle } from '../src/core/identity/bundle/spiffe-bundle.ts';
import { KeptConnections } from '../src/core/identity/tls/kept-connections.ts';
import { TlsTransport } from '../src/core/identity/tls/tls-transport.ts';
import { encodeMessage, maxHeartbeatBytes, paths } from '../src/peering/messages.ts';
import { messageCost, messageLimit } from '../src/peering/timing.ts';
import { adminClient } from '../test/e2e/api-client.ts';
import { startDaemon, temporaryFolder } from '../test/e2e/daemon.ts';
import { freePort } from '../test/e2e/free-ports.ts';
import { Attacker } from '../test/e2e/thread-attacker.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { done, invitationFor } from './peered-sites.ts';
import { cpuSeconds } from './process-stat.ts';
import { sized } from './size.ts';

const rounds = sized(7, 3, 1);
const warmUps = sized(2, 1, 0);
const peerCount = sized(16, 16, 2);
/** Half of what the rate limit of one peer admits at once. */
const beatsEach = sized(
  messageLimit.burst / messageCost / 2,
  messageLimit.burst / messageCost / 2,
  4,
);
/** Until the rate limit admits as many again. */
const refillMs = (beatsEach * messageCost * 1000) / messageLimit.perSecond;

interface Spent {
  /** CPU time of both sides for one heartbeat. */
  readonly microsEach: number;
  readonly siteMicrosEach: number;
}

const address = `127.0.0.1:${await freePort()}`;
const url = new URL(`https://${address}`);
const daemon = await startDaemon(temporaryFolder(), [
  '--trust-domain',
  'lubeck.example',
  '--federation',
  address,
  '--advertise',
  url.href,
  // The peers of this benchmark only send.
  '--peering-heartbeat-seconds',
  '300',
]);
const admin = adminClient(daemon.dataDir);
const lubeck = TrustDomain.parse('lubeck.example');
const senders: { readonly connections: KeptConnections; readonly body: Buffer }[] = [];
try {
  const site = { url: url.href };
  const published = await done(admin.get('/hansa/v1/trust/bundle'));
  const { bundle: document } = JSON.parse(published.text) as { readonly bundle: string };
  const { bundle } = parseSpiffeBundle(document, lubeck);
  for (let i = 0; i < peerCount; i++) {
    const peer = new Attacker(`peer-${i}.example`);
    const told = await peer.redeem(site, await invitationFor({ admin }, peer.trustDomain));
    if (told.status !== 200) throw new Error(`cannot enrol ${peer.trustDomain}: ${told.text}`);
    const connections = new KeptConnections({
      transport: new TlsTransport({ clock: systemClock, credential: () => peer.credential }),
      clock: systemClock,
      bundles: { bundleFor: () => bundle },
      mayCall: () => true,
    });
    const body = encodeMessage({
      contractVersion: 1,
      bundleSequence: 1,
      offers: [],
      holds: { sequence: 1, hash: bundle.hash },
    });
    senders.push({ connections, body });
  }

  const measured: { kept: Spent[]; fresh: Spent[] } = { kept: [], fresh: [] };
  for (let round = -warmUps; round < rounds; round++) {
    // Turn by turn, so that other work of the machine affects both.
    for (const way of ['kept', 'fresh'] as const) {
      const spent = await send(way);
      if (round >= 0) measured[way].push(spent);
      await new Promise((resolve) => void systemClock.timer(refillMs, () => resolve(undefined)));
    }
  }
  const of = (way: 'kept' | 'fresh', what: keyof Spent): readonly number[] =>
    measured[way].map((each) => each[what]);
  print(
    'heartbeat over a kept connection, both sites',
    of('kept', 'microsEach'),
    of('fresh', 'microsEach'),
    5,
  );
  print(
    'heartbeat over a kept connection, the site that answers',
    of('kept', 'siteMicrosEach'),
    of('fresh', 'siteMicrosEach'),
  );
} finally {
  for (const { connections } of senders) connections.stop();
  admin.close();
  await daemon.signal('SIGTERM');
}

/** Every peer sends its heartbeats one after another, all peers at once. */
async function send(way: 'kept' | 'fresh'): Promise<Spent> {
  const site = cpuSeconds([daemon.pid]);
  const own = process.cpuUsage();
  await Promise.all(
    senders.map(async ({ connections, body }) => {
      for (let i = 0; i < beatsEach; i++) {
        if (way === 'fresh') connections.retireAll();
        const { status } = await connections.call(
          { trustDomain: lubeck, url },
          {
            method: 'POST',
            path: paths.heartbeat,
            headers: { 'content-type': 'application/json' },
            body,
          },
          { maxBytes: maxHeartbeatBytes, timeoutMs: 20_000, idempotent: true },
        );
        if (status !== 200) throw new Error(`the site refused a heartbeat with ${status}`);
      }
    }),
  );
  const { user, system } = process.cpuUsage(own);
  const siteMicros = (cpuSeconds([daemon.pid]) - site) * 1e6;
  const count = peerCount * beatsEach;
  return { microsEach: (siteMicros + user + system) / count, siteMicrosEach: siteMicros / count };
}

function print(
  bench: string,
  keptRounds: readonly number[],
  freshRounds: readonly number[],
  atLeast?: number,
): void {
  const [kept, fresh] = [median(keptRounds), median(freshRounds)];
  const figure: Figure = {
    bench,
    value: rounded(kept),
    unit: 'CPU µs',
    ...spread(keptRounds),
    anchor: 'the same with a TLS handshake',
    anchorValue: rounded(fresh),
    ratio: rounded(fresh / kept),
    ...(atLeast === undefined ? {} : { atLeast }),
  };
  console.log(JSON.stringify(figure));
}
