// Compares the TokenReviews of a site with those of the real kube-apiserver that signed the tokens: rate,
// latency and CPU time in each mode, many clusters, one dead cluster, and the memory of cached verdicts.
// `node bench/reviews.ts` prints one JSON object per line.

import { verify } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { serviceAccountIssuer } from '../test/interop/kube-apiserver.ts';
import {
  CredentialsDir,
  hostOf,
  registerCluster,
  type ReviewCluster,
  reviewOf,
  type ReviewStatus,
  reviewsPath,
  startReviewCluster,
} from '../test/interop/review-cluster.ts';
import { type Site, startSite } from '../test/interop/site.ts';
import type { WireClient } from '../test/interop/wire.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { residentBytes } from './process-stat.ts';
import { whileQuiet } from './quiet.ts';
import { alternate, figure, ROUNDS, type Sides } from './rates.ts';
import { serveIssuers } from './review-issuers.ts';
import { distinctTokens, newAudiences, repeatedTokens } from './review-load.ts';
import { type TokenFile, writeTokens } from './review-tokens.ts';
import { sized } from './size.ts';
import { type Load, type Measured, runWrk, type Target } from './wrk.ts';

const CONNECTIONS = sized(50, 50, 8);
const SECONDS = sized(4, 2, 1);
/** Enough for one run of the fastest side. */
const TOKENS = sized(130_000, 70_000, 1_000);
const REPEATED = 100;
/** Each for ever new audiences. */
const REUSED = 60;
const CLUSTERS = sized(50, 50, 3);
/** An API server remembers an accepted token for 10 seconds. This many pass before a run uses one again. */
const AREAS = 5;

const note = (text: string): void => {
  process.stderr.write(`bench   reviews: ${text}\n`);
};
const print = (one: Figure): void => console.log(JSON.stringify(one));

const folder = mkdtempSync(join(tmpdir(), 'hansa-reviews-'));
const stops: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })];
try {
  const credentials = new CredentialsDir(folder);
  const cluster = await startReviewCluster();
  stops.push(() => cluster.stop());
  const site = await startReviewSite(credentials);
  stops.push(() => site.stop());
  note('signing tokens');
  const tokens = await writeTokens(join(folder, 'tokens'), [signerOf(cluster)], TOKENS);
  await measureModes({ cluster, site, credentials, tokens });
  await measureDeadCluster({ cluster, site, credentials, tokens });
  await measureManyClusters({ cluster, site, credentials, tokens });
  await measureMemory({ cluster, credentials, tokens });
} finally {
  for (const stop of stops.toReversed()) await stop();
}

interface Scene {
  readonly cluster: ReviewCluster;
  readonly site: Site;
  readonly credentials: CredentialsDir;
  readonly tokens: TokenFile;
}

/** One caller asks as fast as it can, which no caller of a real site may. */
function startReviewSite(
  credentials: CredentialsDir,
  flags: readonly string[] = [],
): Promise<Site> {
  return startSite({
    flags: [
      ...flags,
      `--auth-credentials-dir=${credentials.path}`,
      '--auth-caller-reviews-per-second=0',
      '--auth-cluster-reviews-per-second=0',
      '--limits-records-per-second=0',
    ],
  });
}

function signerOf({ key, uid }: ReviewCluster) {
  return { key, uid, issuer: serviceAccountIssuer };
}

/** The CPU time of a site includes that of the API server that it asks. */
function pidsOf({ kube }: ReviewCluster): readonly number[] {
  return [kube.pids.apiserver, kube.pids.etcd];
}

function sidesOf({ cluster, site }: Scene): { readonly ours: Target; readonly kube: Target } {
  return {
    ours: { name: 'hansa', url: site.url, pids: [site.pid, ...pidsOf(cluster)] },
    kube: { name: 'kube-apiserver', url: cluster.kube.url, pids: pidsOf(cluster) },
  };
}

function loadOf(script: string, seconds = SECONDS): Load {
  return { path: reviewsPath, connections: CONNECTIONS, seconds, script };
}

async function measureModes(scene: Scene): Promise<void> {
  const { cluster, site, credentials, tokens } = scene;
  const { ours, kube } = sidesOf(scene);
  const spec = credentials.specFor('kube', cluster.kube);
  const register = (name: string, mode: string) =>
    registerCluster(site.client, name, { ...spec, validation: { mode } });
  // A site remembers verdicts of mode jwks until the token expires: each round has a Cluster of its own.
  const rounds = Array.from({ length: ROUNDS + 1 }, (_, round) => `jwks-${round}`);
  for (const name of rounds) await register(name, 'jwks');
  await register('hybrid', 'hybrid');
  await register('tokenreview', 'tokenreview');
  const sample = tokens.samples.at(-1)?.token ?? '';
  for (const name of [...rounds, 'hybrid', 'tokenreview'])
    await assertAccepted(site.client, hostOf(name), sample);
  await assertAccepted(cluster.kube.client, 'localhost', sample);

  let area = 0;
  const unseen = (caller: string, host: string): Load => {
    const count = Math.floor(TOKENS / AREAS);
    const first = (area++ % AREAS) * count;
    return loadOf(distinctTokens({ caller, hosts: [host], tokens, first, count }));
  };
  const direct = {
    distinct: { rival: kube, load: () => unseen(cluster.kube.token, 'localhost') },
    repeated: { rival: kube, load: () => repeated(cluster.kube.token, 'localhost') },
  };
  const repeated = (caller: string, host: string): Load =>
    loadOf(repeatedTokens({ caller, hosts: [host], tokens, count: REPEATED }));

  const caller = site.token;
  const byKeys = await alternate(
    {
      rival: ours,
      load: (round) => loadOf(distinctTokens({ caller, hosts: [hostOf(`jwks-${round}`)], tokens })),
    },
    direct.distinct,
  );
  const anchor = 'kube-apiserver TokenReview';
  const distinct = `${anchor}, distinct tokens`;
  print(figure('reviews-jwks-distinct', distinct, byKeys, { atLeast: 3, aim: 5 }));
  print(latency('reviews-jwks-distinct-p99', distinct, byKeys));
  print(cpuBesideVerification(byKeys.ours, cluster, sample));

  const again = `${anchor}, ${REPEATED} tokens again and again`;
  for (const mode of ['jwks', 'hybrid'] as const) {
    const host = hostOf(mode === 'jwks' ? 'jwks-0' : mode);
    const measured = await alternate(
      { rival: ours, load: () => repeated(caller, host) },
      direct.repeated,
    );
    print(figure(`reviews-${mode}-repeated`, again, measured, { atLeast: 4, aim: 5 }));
    print(latency(`reviews-${mode}-repeated-p99`, again, measured));
  }
  let run = 0;
  const forNewAudiences = (asking: string, host: string): Load =>
    loadOf(
      newAudiences({
        caller: asking,
        host,
        tokens,
        count: REUSED,
        audience: serviceAccountIssuer,
        run: run++,
      }),
    );
  for (const mode of ['jwks', 'hybrid'] as const) {
    const host = hostOf(mode === 'jwks' ? 'jwks-0' : mode);
    const measured = await alternate(
      { rival: ours, load: () => forNewAudiences(caller, host) },
      { rival: kube, load: () => forNewAudiences(cluster.kube.token, 'localhost') },
    );
    const asked = `${anchor}, ${REUSED} tokens for ever new audiences`;
    print(figure(`reviews-${mode}-audiences`, asked, measured, { atLeast: 3 }));
  }
  for (const [bench, mode, promise] of [
    ['reviews-hybrid-distinct', 'hybrid', {}],
    ['reviews-forwarded', 'tokenreview', { atLeast: 0.7 }],
  ] as const) {
    const load = (): Load => unseen(caller, hostOf(mode));
    const measured = await alternate({ rival: ours, load }, direct.distinct);
    print(figure(bench, distinct, measured, promise));
  }
}

function latency(bench: string, anchor: string, sides: Sides): Figure {
  const ours = sides.ours.p99Milliseconds;
  const theirs = sides.anchor.p99Milliseconds;
  return {
    bench,
    value: rounded(ours),
    unit: 'ms',
    ...spread(sides.rounds.map(({ p99Milliseconds }) => p99Milliseconds)),
    anchor,
    anchorValue: rounded(theirs),
    ratio: rounded(theirs / ours),
    atLeast: 1,
  };
}

function cpuBesideVerification(
  { cpuSecondsEach }: Measured,
  { key }: ReviewCluster,
  token: string,
): Figure {
  const end = token.lastIndexOf('.');
  const signed = Buffer.from(token.slice(0, end));
  const signature = Buffer.from(token.slice(end + 1), 'base64url');
  const operations = sized(20_000, 20_000, 500);
  const bare = median(
    Array.from({ length: 5 }, () => {
      const before = process.cpuUsage();
      for (let i = 0; i < operations; i++) verify('sha256', signed, key.publicKey, signature);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1e6 / operations;
    }),
  );
  return {
    bench: 'review-jwks-cpu',
    value: rounded(1 / cpuSecondsEach),
    unit: 'per CPU-second',
    anchor: 'RSA-2048 verification only',
    anchorValue: rounded(1 / bare),
    ratio: rounded(bare / cpuSecondsEach),
    cpuMicrosEach: rounded(cpuSecondsEach * 1e6),
    anchorCpuMicrosEach: rounded(bare * 1e6),
  };
}

/** Distinct tokens of many clusters beside distinct tokens of one. */
async function measureManyClusters(scene: Scene): Promise<void> {
  const { site, cluster, credentials, tokens } = scene;
  const { ours } = sidesOf(scene);
  note(`signing tokens of ${CLUSTERS} clusters`);
  const issuers = await serveIssuers(CLUSTERS);
  stops.push(() => issuers.close());
  const mixed = await writeTokens(join(folder, 'mixed'), issuers.signers, TOKENS);
  const nameOf = (round: number, signer: number): string => `many-${round}-${signer}`;
  const spec = credentials.specFor('kube', cluster.kube);
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [index, { issuer }] of issuers.signers.entries())
      await registerCluster(site.client, nameOf(round, index), { issuer, caBundle: issuers.ca });
    const validation = { mode: 'jwks' };
    await registerCluster(site.client, `one-${round}`, { ...spec, validation });
  }
  for (const { token, signer } of mixed.samples.slice(-CLUSTERS))
    await assertAccepted(site.client, hostOf(nameOf(0, signer)), token);
  const caller = site.token;
  const measured = await alternate(
    {
      rival: ours,
      load: (round) => {
        const hosts = issuers.signers.map((_, index) => hostOf(nameOf(round, index)));
        return loadOf(distinctTokens({ caller, hosts, tokens: mixed }));
      },
    },
    {
      rival: { ...ours, name: 'hansa, one cluster' },
      load: (round) => loadOf(distinctTokens({ caller, hosts: [hostOf(`one-${round}`)], tokens })),
    },
  );
  const anchor = 'this site, one cluster';
  print(figure(`reviews-${CLUSTERS}-clusters`, anchor, measured, { atLeast: 0.8 }));
}

/**
 * Ten clusters in mode hybrid, each with its share of the connections. The p99 of nine, while the API
 * server of the tenth is silent, beside their p99 while it answers.
 */
async function measureDeadCluster(scene: Scene): Promise<void> {
  const { site, cluster, credentials, tokens } = scene;
  const { ours } = sidesOf(scene);
  const proxy = await startProxy(Number(new URL(cluster.kube.url).port));
  stops.push(() => proxy.stop());
  const spec = credentials.specFor('kube', cluster.kube);
  const lagSeconds = 2;
  const validation = { mode: 'hybrid', maxRevocationLagSeconds: lagSeconds };
  const living = Array.from({ length: 9 }, (_, index) => `living-${index}`);
  for (const name of living) await registerCluster(site.client, name, { ...spec, validation });
  // Its credential is in a file of its own, because its URL is another one.
  const mortal = credentials.specFor('mortal', cluster.kube);
  const apiServer = `https://127.0.0.1:${proxy.port}`;
  await registerCluster(site.client, 'mortal', { ...mortal, apiServer, validation });

  const caller = site.token;
  const others = repeatedTokens({
    caller,
    hosts: living.map(hostOf),
    tokens,
    count: REPEATED / 10,
  });
  const tenth = repeatedTokens({ caller, hosts: [hostOf('mortal')], tokens, count: REPEATED / 10 });
  const run = async (): Promise<number> => {
    const share = Math.max(1, Math.round(CONNECTIONS / 10));
    const [{ p99Milliseconds }] = await Promise.all([
      runWrk(ours, { ...loadOf(others), connections: CONNECTIONS - share }),
      runWrk(ours, { ...loadOf(tenth), connections: share, mayFail: true }),
    ]);
    return p99Milliseconds;
  };
  const answers: number[] = [];
  const silent: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    await untilAccepted(site.client, hostOf('mortal'), tokens.samples[0]?.token ?? '');
    const one = await run();
    proxy.silence();
    // Verdicts of the tenth cluster end with the lag.
    await delay((lagSeconds + 0.5) * 1000);
    const other = await run();
    proxy.revive();
    if (round === 0) continue;
    answers.push(one);
    silent.push(other);
  }
  const value = median(silent);
  const anchorValue = median(answers);
  print({
    bench: 'reviews-p99-of-nine-beside-a-dead-cluster',
    value: rounded(value),
    unit: 'ms',
    ...spread(silent),
    anchor: 'the tenth cluster answers',
    anchorValue: rounded(anchorValue),
    ratio: rounded(anchorValue / value),
    atLeast: rounded(1 / 1.1),
  });
}

interface Proxy {
  readonly port: number;
  /** From now on, connections stay open and nothing gets through. */
  silence(): void;
  /** Ends the silent connections; new ones get through. */
  revive(): void;
  stop(): void;
}

async function startProxy(target: number): Promise<Proxy> {
  let silent = false;
  const sockets = new Set<ReturnType<typeof connect>>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy()).once('close', () => sockets.delete(socket));
    if (silent) return;
    const upstream = connect(target, '127.0.0.1');
    upstream.on('error', () => socket.destroy());
    socket.once('close', () => upstream.destroy());
    socket.pipe(upstream).pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const end = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    silence: () => {
      silent = true;
      // A pooled connection would answer: only new ones can be silent from the beginning.
      end();
    },
    revive: () => {
      silent = false;
      end();
    },
    stop: () => {
      end();
      server.close();
    },
  };
}

/** Of a site that holds many verdicts, beyond one whose few verdicts went with their Cluster. */
async function measureMemory({ cluster, credentials, tokens }: Omit<Scene, 'site'>): Promise<void> {
  // Fewer than TOKENS by what the fastest run uses in a second.
  const wanted = sized(100_000, 40_000, 1_000);
  const spec = { ...credentials.specFor('kube', cluster.kube), validation: { mode: 'jwks' } };
  const entriesOf = (site: Site): Promise<number> => metric(site, 'hansa_verdict_cache_entries');
  const fill = async (site: Site, name: string, count: number): Promise<void> => {
    await registerCluster(site.client, name, spec);
    const ours = { name: 'hansa', url: site.url, pids: [site.pid] };
    const load = { caller: site.token, hosts: [hostOf(name)], tokens };
    // A run ends after a second, wherever it is; the next one begins where it ended.
    for (let first = 0; first < count; ) {
      await runWrk(ours, loadOf(distinctTokens({ ...load, first }), 1));
      const held = await entriesOf(site);
      if (held <= first) throw new Error(`the site holds only ${held} verdicts`);
      first = held;
    }
  };
  const start = async (): Promise<Site> => {
    const site = await startReviewSite(credentials, ['--auth-verdict-cache-bytes=1024Mi']);
    stops.push(() => site.stop());
    await fill(site, 'warm-up', wanted / 50);
    await site.client.send({ method: 'DELETE', path: '/apis/hansa.dev/v1alpha1/clusters/warm-up' });
    return site;
  };
  const [without, site] = [await start(), await start()];
  await fill(site, 'held', wanted);
  const settled = delay(sized(75_000, 75_000, 0));
  const grownBytes = await whileQuiet(async () => {
    await settled;
    return residentBytes([site.pid]) - residentBytes([without.pid]);
  });
  const held = await entriesOf(site);
  const counted = (await metric(site, 'hansa_verdict_cache_bytes')) / held;
  const grown = grownBytes / held;
  print({
    bench: 'memory-of-a-cached-verdict',
    value: rounded(grown),
    unit: 'bytes',
    anchor: 'bytes that the cache counts for it',
    anchorValue: rounded(counted),
    ratio: rounded(counted / grown),
  });
}

async function metric(site: Site, name: string): Promise<number> {
  const file = await readFile(join(site.dataDir, 'endpoints.json'), 'utf8');
  const { metrics } = JSON.parse(file) as { readonly metrics: string };
  const text = await (await fetch(metrics)).text();
  const value = new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1];
  if (value === undefined) throw new Error(`the site has no metric ${name}`);
  return Number(value);
}

/** A denial has the same HTTP status as an acceptance, so wrk cannot tell them apart. */
async function assertAccepted(client: WireClient, host: string, token: string): Promise<void> {
  const answer = await ask(client, host, token);
  if (!answer.accepted) throw new Error(`${host} does not accept a token: ${answer.text}`);
}

async function untilAccepted(client: WireClient, host: string, token: string): Promise<void> {
  const deadline = performance.now() + 60_000;
  for (;;) {
    const { accepted, text } = await ask(client, host, token);
    if (accepted) return;
    if (performance.now() > deadline) throw new Error(`${host} does not recover: ${text}`);
    await delay(100);
  }
}

async function ask(client: WireClient, host: string, token: string) {
  const { text } = await client.send({
    method: 'POST',
    path: reviewsPath,
    headers: { host },
    body: reviewOf(token),
  });
  const { status } = JSON.parse(text) as { readonly status?: ReviewStatus | string };
  return { text, accepted: typeof status === 'object' && status.authenticated === true };
}
