// `hansa server`: runs a site in the foreground until a signal stops it.

import type { Clock, Random } from '../core/clock/clock.ts';
import { createLog } from '../core/log/json-log.ts';
import type { Log } from '../core/log/log.ts';
import { shrinkWhenIdle } from '../core/memory/shrink-when-idle.ts';
import { MetricsRegistry } from '../core/metrics/registry.ts';
import type { Plane } from '../core/plane/plane.ts';
import type { ServerConfig, Setting } from './config/config.ts';
import { flagOf } from './config/keys.ts';
import {
  rememberedFile,
  rememberSettings,
  type SettingChange,
} from './config/remembered-settings.ts';
import { type RunningSite, startSite } from './site.ts';

export interface RunOptions {
  readonly config: ServerConfig;
  /** The site remembers those that came from flags for the next start. */
  readonly settings: readonly Setting[];
  readonly planes: readonly Plane[];
  readonly version: string;
  /** The output shows paths below it as relative paths. */
  readonly cwd: string;
  readonly clock: Clock;
  readonly random: Random;
  /** The destination of log lines. */
  readonly logTo: { write(line: string): unknown; readonly isTTY?: boolean };
  /** Prints the message for the person who started the site. */
  readonly announce: (text: string) => void;
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly interruption: AbortSignal;
}

/** Resolves when the site has stopped in an orderly way. */
export async function runServer(options: RunOptions): Promise<void> {
  const { config, clock, interruption } = options;
  const startedAt = clock.monotonic();
  const log = createLog({
    clock,
    sink: options.logTo,
    level: config.logLevel,
    format:
      config.logFormat === 'auto'
        ? options.logTo.isTTY === true
          ? 'text'
          : 'json'
        : config.logFormat,
  });
  const site = await startSite({ ...options, log, metrics: new MetricsRegistry() });
  // Only after a successful start, so that the site does not remember a port that is in use.
  const kept = remember(options, log);
  options.announce(greeting(site, clock.monotonic() - startedAt, options, kept));
  log.info('site is ready', { trustDomain: site.trustDomain, ...site.endpoints });
  const shrinking = shrinkWhenIdle(clock);
  if (!interruption.aborted) {
    await new Promise((resolve) => interruption.addEventListener('abort', resolve, { once: true }));
  }
  shrinking.stop();
  log.info('site is stopping', { drainSeconds: config.limits.drainSeconds });
  await site.stop();
  log.info('site has stopped');
}

interface KeptSettings {
  readonly file: string;
  readonly hint: string;
}

/** Undefined if the data folder has no remembered settings. */
function remember({ config, settings }: RunOptions, log: Log): KeptSettings | undefined {
  const file = rememberedFile(config.dataDir);
  try {
    const changes = rememberSettings(config.dataDir, settings);
    const inUse = settings.flatMap(({ key, source }) =>
      source.from === 'remembered' ? [flagOf(key)] : [],
    );
    if (changes.length > 0) {
      return { file, hint: `remembered for the next start: ${changes.map(changeText).join(', ')}` };
    }
    return inUse.length === 0 ? undefined : { file, hint: `remembered: ${inUse.join(', ')}` };
  } catch (error) {
    // The site runs, but the next start needs its flags again.
    log.warn('cannot remember the flags of this start', { file, error });
    return undefined;
  }
}

function changeText({ key, before, value }: SettingChange): string {
  return `${flagOf(key)} ${value}${before === undefined ? '' : ` (was ${before})`}`;
}

function greeting(
  { trustDomain, endpoints, planeEndpoints, folder }: RunningSite,
  tookMs: number,
  { cwd, planes }: RunOptions,
  kept: KeptSettings | undefined,
): string {
  const near = (path = ''): string =>
    path.startsWith(`${cwd}/`) ? `.${path.slice(cwd.length)}` : path;
  const dataDir = near(folder.path);
  const admin = near(endpoints.admin);
  const ofPlanes = [...planeEndpoints].map(([name, { address, hint }]) => ({
    name,
    address: near(address),
    hint,
  }));
  const lengths = [admin, ...ofPlanes.map(({ address }) => address)].map(({ length }) => length);
  const width = Math.max(28, endpoints.api?.length ?? 0, ...lengths);
  const line = (name: string, address: string | undefined, hint: string): string[] =>
    address === undefined
      ? []
      : [`  ${name.padEnd(11)} ${address.padEnd(width)} ${hint}`.trimEnd()];
  const settingsLine = kept === undefined ? [] : line('settings', near(kept.file), kept.hint);
  return [
    `${trustDomain} is ready (${(tookMs / 1000).toFixed(1)} s)`,
    ...line('api', endpoints.api, `kubectl: ./hansa kubeconfig --data-dir ${dataDir} > kubeconfig`),
    ...line('federation', endpoints.federation, 'for other sites, and for SPIRE: the bundle at /'),
    ...line('web', endpoints.web, 'for clients that trust the Web PKI: the bundle at /'),
    ...ofPlanes.flatMap(({ name, address, hint }) => line(name, address, hint)),
    ...line('admin', admin, 'for hansa commands; only you can open it'),
    ...line('metrics', endpoints.metrics, ''),
    ...settingsLine,
    ...planes.flatMap(({ nextCommand }) =>
      nextCommand === undefined ? [] : [`next: ./hansa ${nextCommand(dataDir)}`],
    ),
  ].join('\n');
}
