// The rest of `hansa spire-sidecar`. The process starts again with this module, so that it does not keep the command
// line and the code of all planes in memory.

import { spireServerPorts } from '../../api/kinds/spire-federation.ts';
import { sleep } from '../../core/clock/clock.ts';
import { stayAlive } from '../../core/command/stay-alive.ts';
import { createLog } from '../../core/log/json-log.ts';
import type { Log } from '../../core/log/log.ts';
import type { ContinuedCommand } from '../../core/plane/command-kit.ts';
import { GrpcSocket } from './grpc-socket.ts';
import { connectInCluster } from './in-cluster.ts';
import { KubeMaps, type KubeMapsOptions } from './kube-maps.ts';
import { Sidecar } from './sidecar.ts';
import { GrpcSpireApi } from './spire-api.ts';
import { readServerVersion, ServerVersion } from './spire-version.ts';

export interface SidecarInput {
  readonly socket: string;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
}

/** Between attempts to read the ConfigMaps at the start: the controller may create them later than the Pod. */
const retryEveryMs = 2000;
/** The containers of a Pod share their network. */
const metricsUrl = new URL(`http://127.0.0.1:${spireServerPorts.metrics}/metrics`);

export const continueCommand: ContinuedCommand = async ({ io }, input) => {
  const { socket: path, logLevel } = input as SidecarInput;
  const { clock, random, stderr, env } = io;
  stderr.removeAllListeners('error').on('error', () => undefined);
  const format = stderr.isTTY === true ? 'text' : 'json';
  const log = createLog({ clock, sink: stderr, level: logLevel, format });
  const interruption = io.interruption();
  const { kube, namespace } = connectInCluster(env, clock);
  const socket = new GrpcSocket(path, clock);
  const version = new ServerVersion(() => readServerVersion(metricsUrl, clock), clock);
  let sidecar: Sidecar | undefined;
  await stayAlive(async () => {
    const maps = await openMaps(
      { kube, namespace, clock, random, log, changed: () => sidecar?.wake() },
      log,
      interruption,
    );
    sidecar = new Sidecar({
      spire: new GrpcSpireApi(socket),
      maps,
      version: () => version.current(),
      clock,
      log,
    });
    sidecar.wake();
    log.info('the sidecar of the SPIRE server runs', { namespace, socket: path });
    await aborted(interruption);
    await sidecar.stop();
    maps.close();
  }).catch((error: unknown) => {
    if (!interruption.aborted) throw error;
  });
  socket.close();
  kube.close();
};

async function openMaps(
  options: KubeMapsOptions,
  log: Log,
  signal: AbortSignal,
): Promise<KubeMaps> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await KubeMaps.open(options);
    } catch (error) {
      log.warn('cannot read the ConfigMaps of the sidecar', { error });
      await sleep(options.clock, retryEveryMs, signal);
    }
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
