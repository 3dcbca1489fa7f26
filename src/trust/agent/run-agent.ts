// Runs the agent of a machine in the foreground: takes the lock of its data folder, starts it, renews its
// SVID, and writes its status, until it is interrupted or the site no longer accepts it.

import { timestamp } from '../../api/object.ts';
import type { AgentPart } from '../../core/agent/agent-part.ts';
import { type Clock, type Random, sleep } from '../../core/clock/clock.ts';
import { linkedSignal } from '../../core/clock/linked-signal.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { HansaError, hasCode, toHansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import { shrinkWhenIdle } from '../../core/memory/shrink-when-idle.ts';
import { registerProcessMetrics } from '../../core/metrics/process-metrics.ts';
import { StoreLock } from '../../core/store/sqlite/lock.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { parseServer } from '../client/join-server.ts';
import { keepFresh, renewOnce } from '../client/join-renewal.ts';
import { type AgentFolder, prepareAgentFolder } from './agent-folder.ts';
import { AgentProcess } from './agent-process.ts';
import { type AgentStatus, writeStatus } from './agent-status.ts';
import { attestationLoss } from './attestation-rights.ts';
import { startMetricsServer } from './metrics-server.ts';
import { ownLeaf } from './own-svid.ts';
import { openSiteStream } from './site-stream.ts';
import { sealerOf } from './svid-vault.ts';

export interface RunAgentOptions {
  readonly dataDir: string;
  /** Where the site is now; undefined: where it was when the agent joined. */
  readonly server: string | undefined;
  /** Outside the data folder; undefined: keys of workloads stay in memory. */
  readonly keyFile: string | undefined;
  readonly metricsAddress: { readonly host: string; readonly port: number } | undefined;
  readonly version: string;
  readonly host: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly parts: readonly AgentPart[];
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly interruption: AbortSignal;
  /** Called once, when the agent runs. */
  readonly started: () => void;
  /** Prints the message for the person who started the agent, when it serves workloads. */
  readonly announce: (text: string) => void;
}

/** It is written only where it has changed. */
const statusEveryMs = 2_000;
/** A crash makes ext_authz count from this much earlier. */
const contactEveryMs = 60_000;
const renewalRetryMs = 60_000;

/** Returns after an interruption. Rejects when the site no longer accepts the agent, and when it cannot start. */
export async function runAgent(options: RunAgentOptions): Promise<void> {
  const { clock, random, log, metrics, keyFile, metricsAddress } = options;
  const server = options.server && parseServer(options.server).origin;
  const folder = prepareAgentFolder(options.dataDir);
  const lock = takeLock(folder);
  try {
    const loss = attestationLoss();
    if (loss !== undefined) log.warn('the agent runs with reduced rights', { lost: loss });
    const identity = new JoinFolder(folder.identity);
    const io = { clock, random, interruption: () => options.interruption };
    const agent = await AgentProcess.start({
      ...options,
      folder,
      identity,
      server,
      connect: (signal) => openSiteStream(identity, { server, clock, log, signal }),
      renew: () => renewOnce({ io, folder: identity, server }),
      sealer: keyFile === undefined ? undefined : await sealerOf(keyFile, folder.path, random),
      problems: loss === undefined ? [] : [loss],
    });
    // It wakes the process often, so not without a listener.
    const own =
      metricsAddress && registerProcessMetrics(metrics, clock, { version: options.version });
    const shrinking = shrinkWhenIdle(clock);
    try {
      const listener =
        metricsAddress &&
        (await startMetricsServer(metricsAddress, { metrics, health: agent.health, clock }));
      try {
        await serve(options, folder, agent, listener?.url);
      } finally {
        listener?.stop();
      }
    } finally {
      shrinking.stop();
      own?.stop();
      await agent.stop();
    }
  } finally {
    lock.free();
  }
}

async function serve(
  options: RunAgentOptions,
  folder: AgentFolder,
  agent: AgentProcess,
  metricsUrl: string | undefined,
): Promise<void> {
  const { clock, log, interruption } = options;
  const over = new AbortController();
  const { signal, unlink } = linkedSignal(interruption, over.signal);
  const startedAt = timestamp(clock.now());
  let told = '';
  const tell = (): void => {
    const status = agent.status();
    const metrics = metricsUrl === undefined ? {} : { metrics: metricsUrl };
    const next: AgentStatus = {
      ...status,
      endpoints: { ...status.endpoints, ...metrics },
      pid: process.pid,
      startedAt,
    };
    // The time of the last contact changes all the time, and matters only without one.
    const text = JSON.stringify({ ...next, lastContact: status.connected || next.lastContact });
    if (text === told) return;
    told = text;
    try {
      writeStatus(folder.statusFile, next);
    } catch (error) {
      log.warn('cannot write the status file', { why: fileProblem(error) });
    }
  };
  const stopTelling = agent.link.onChange(tell);
  tell();
  options.started();
  const startedMs = clock.monotonic();
  const greet = async (): Promise<void> => {
    await agent.serving;
    tell();
    const status = agent.status();
    log.info('agent is ready', { ...status.endpoints, metrics: metricsUrl });
    options.announce(greeting(status, metricsUrl, folder.path, clock.monotonic() - startedMs));
  };
  void greet();
  const work = [
    agent.link.run(signal),
    renewals(options, folder, agent, signal),
    every(clock, statusEveryMs, tell, signal),
    every(clock, contactEveryMs, () => agent.keepContact(), signal),
  ];
  try {
    // All of them return after an interruption. The first that rejects ends the others.
    await Promise.all(work);
  } finally {
    over.abort(new Error('the agent stops'));
    await Promise.allSettled(work);
    stopTelling();
    unlink();
    tell();
    log.info('agent has stopped');
  }
}

function greeting(
  { spiffeId, server, endpoints }: Pick<AgentStatus, 'spiffeId' | 'server' | 'endpoints'>,
  metricsUrl: string | undefined,
  dataDir: string,
  tookMs: number,
): string {
  const { workload } = endpoints;
  const lines = [
    ['site', server],
    ...Object.entries(endpoints),
    ...(metricsUrl === undefined ? [] : [['metrics', `${metricsUrl}/metrics`]]),
  ];
  return [
    `${spiffeId} is ready (${(tookMs / 1000).toFixed(1)} s)`,
    ...lines.map(([name = '', at = '']) => `  ${name.padEnd(11)} ${at}`),
    ...(workload === undefined ? [] : [`  export SPIFFE_ENDPOINT_SOCKET=unix://${workload}`]),
    `next: ./hansa agent status --data-dir ${dataDir}`,
  ].join('\n');
}

/** Renews the SVID of the agent. Rejects only where the site refuses to, or where it is too late. */
async function renewals(
  { clock, random, log, server }: RunAgentOptions,
  folder: AgentFolder,
  agent: AgentProcess,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await keepFresh(
        {
          io: { clock, random, interruption: () => signal },
          folder: new JoinFolder(folder.identity),
          server,
          hasCurrentBundle: true,
          failed: () => agent.renewalFailed(),
        },
        ({ notAfterMs }) => {
          log.info('renewed the SVID of this agent', { notAfter: timestamp(notAfterMs) });
          agent.renewed();
        },
        (text) => log.info(text),
      );
    } catch (caught) {
      const error = toHansaError(caught);
      agent.renewalFailed();
      if (error.code === 'HANSA_FORBIDDEN') throw await agent.over(error);
      // The site may issue an SVID that is not valid yet by the clock of this machine: that passes.
      const hasExpired = clock.now() > ownLeaf(new JoinFolder(folder.identity)).notAfterMs;
      if (error.code === 'HANSA_CERTIFICATE_INVALID' && hasExpired) throw error;
      // For example another server under the address of the site. It must not be able to stop the agent.
      log.error('cannot renew the SVID of this agent', { error: error.message });
      const delayMs = renewalRetryMs * (0.5 + random.unit() / 2);
      await sleep(clock, delayMs, signal).catch(() => undefined);
    }
  }
}

async function every(
  clock: Clock,
  periodMs: number,
  work: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(clock, periodMs, signal).catch(() => undefined);
    if (!signal.aborted) work();
  }
}

/** The kernel frees it when the process ends for any reason. */
function takeLock(folder: AgentFolder): StoreLock {
  try {
    return StoreLock.take(folder.lock);
  } catch (cause) {
    if (!hasCode(cause, 'HANSA_STORE_LOCKED')) throw cause;
    throw new HansaError(
      'HANSA_STORE_LOCKED',
      `Cannot run an agent in ${folder.path}: another agent runs there. Stop it, or choose another --data-dir.`,
      { cause },
    );
  }
}
