// A site and a SPIRE server with an agent that federate by https_spiffe. Each has a workload that may call
// the other: `db` at the site, `web` at SPIRE. Any process of this user matches both.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SPIFFEFederation } from '../../src/api/kinds/spiffe-federation.ts';
import { type Daemon, execute, hansa, type Ran, startDaemon } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type SpireAgent, startSpireBeside, startSpireAgent } from './spire.ts';
import { requireTool } from './tool.ts';
import { LineReader } from './workload-site.ts';

export const db = 'spiffe://lubeck.example/db';
export const web = 'spiffe://hamburg.example/web';
const uid = process.getuid?.() ?? 0;

export async function startSpirePair(dataDir: string) {
  const site = await startDaemon(dataDir);
  const running = new Set<ChildProcess>();
  let agent: SpireAgent | undefined;
  const spire = await startSpireBeside(site, 'hamburg.example');
  const stop = async (): Promise<void> => {
    for (const child of running) child.kill('SIGKILL');
    await agent?.stop();
    await Promise.all([spire.stop(), site.signal('SIGTERM')]);
  };

  const run = async (...args: readonly string[]): Promise<string> => {
    const ran = await hansa([...args, '--data-dir', dataDir, '--yes']);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  const apply = async (kind: string, name: string, spec: object): Promise<void> => {
    const object = { apiVersion: 'hansa.dev/v1alpha1', kind, metadata: { name }, spec };
    const stdin = JSON.stringify(object);
    const ran = await hansa(['apply', '-f', '-', '--data-dir', dataDir], { stdin });
    assert.equal(ran.code, 0, ran.stderr);
  };
  const federation = async (): Promise<SPIFFEFederation> =>
    JSON.parse(
      await run('get', 'spiffefederation', 'hamburg.example', '-o', 'json'),
    ) as SPIFFEFederation;
  /** The site asks SPIRE again; resolves when SPIRE's bundle is held. */
  const siteRefreshes = (): Promise<string> => run('trust', 'refresh', 'hamburg.example', '--wait');
  const spireRefreshes = (): Promise<string> =>
    spire.run('federation', 'refresh', '-id', 'lubeck.example');

  const sockets = {
    site: join(dataDir, 'workload.sock'),
    get spire(): string {
      return agent?.socket ?? '';
    },
  };
  type Side = keyof typeof sockets;
  const envOf = (side: Side) => ({ SPIFFE_ENDPOINT_SOCKET: `unix://${sockets[side]}` });
  /** go-spiffe as a workload of that side, to its end. */
  const judge = async (side: Side, ...args: readonly string[]): Promise<Ran> =>
    execute(await requireTool('go-spiffe'), args, { env: envOf(side) });
  /** go-spiffe as a workload of that side, until it is interrupted. */
  const follow = async (side: Side, ...args: readonly string[]): Promise<LineReader> => {
    const child = spawn(await requireTool('go-spiffe'), args, {
      env: { ...process.env, ...envOf(side) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    running.add(child);
    return new LineReader(child);
  };
  /** `spire-agent api …` as a client of that side. */
  const api = async (side: Side, ...args: readonly string[]): Promise<Ran> =>
    execute(await requireTool('spire-agent'), ['api', ...args, '-socketPath', sockets[side]]);

  try {
    await apply('SPIFFEFederation', 'hamburg.example', {
      bundleSource: {
        httpsSpiffe: {
          bundleEndpointURL: spire.bundleEndpoint,
          endpointSpiffeID: 'spiffe://hamburg.example/spire/server',
          bundleBootstrap: await spire.bundle(),
        },
      },
    });
    const path = join(spire.folder, 'lubeck.json');
    await writeFile(path, await run('trust', 'bundle', 'show'));
    await spire.run(
      'federation',
      'create',
      '-trustDomain=lubeck.example',
      `-bundleEndpointURL=${federationUrl(site)}/`,
      '-bundleEndpointProfile=https_spiffe',
      '-endpointSpiffeID=spiffe://lubeck.example/hansa/site',
      `-trustDomainBundlePath=${path}`,
      '-trustDomainBundleFormat=spiffe',
    );
    await spire.run(
      'entry',
      'create',
      '-parentID=spiffe://hamburg.example/agent',
      `-spiffeID=${web}`,
      `-selector=unix:uid:${uid}`,
      '-federatesWith=spiffe://lubeck.example',
    );
    agent = await startSpireAgent(spire);
    await apply('WorkloadEntry', 'db', {
      spiffeID: db,
      selectors: [`unix:uid:${uid}`],
      federatesWith: ['hamburg.example'],
    });
    const ready = ['wait', '--timeout=2m', 'spiffefederation', 'hamburg.example'];
    await run(...ready, '--for', 'condition=Ready');
    // An agent of SPIRE asks its server for its entries every few seconds.
    await until(async () => (await api('spire', 'fetch', 'x509', '-silent')).code === 0);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    site,
    spire,
    sockets,
    run,
    apply,
    federation,
    siteRefreshes,
    spireRefreshes,
    judge,
    follow,
    api,
    stop,
  };
}

export type SpirePair = Awaited<ReturnType<typeof startSpirePair>>;

function federationUrl({ endpoints }: Daemon): string {
  return (endpoints as unknown as { readonly federation: string }).federation;
}
