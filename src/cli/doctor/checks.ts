// The checks of `hansa doctor` for a site on this machine. A check returns findings with remedies. It
// changes nothing, except that the disk check writes and removes a temporary file.

import { X509Certificate } from 'node:crypto';
import { constants } from 'node:fs';
import { access, open, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:tls';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import { openStore } from '../../core/store/open.ts';
import type { ServerConfig, Setting } from '../../server/config/config.ts';
import { readDataFile } from '../../core/plane/data-files.ts';
import { dataFolderAt } from '../../server/data-folder.ts';
import { checkAdvertised } from '../../core/plane/advertised-url.ts';
import { type Finding, inOrder, ok, problem, warning } from '../../core/plane/doctor.ts';
import { checkPorts } from './ports.ts';
import type { Plane } from '../../core/plane/plane.ts';
import { listenersOf, localUrl, readEndpoints } from '../site/site-endpoints.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';

export interface Patient {
  readonly config: ServerConfig;
  /** Where each value of the configuration came from. */
  readonly settings: readonly Setting[];
  readonly clock: Clock;
  readonly random: Random;
  readonly client: SiteClient;
  /** Whether the daemon answers on its admin socket. */
  readonly running: boolean;
}

interface CheckUp {
  readonly name: string;
  readonly follows?: string;
  readonly run: (patient: Patient) => Promise<readonly Finding[]>;
}

async function checkDaemon({ client, running, config }: Patient): Promise<Finding[]> {
  if (!running) {
    const remedy = `Start it: hansa server --data-dir ${config.dataDir}`;
    return [warning('daemon', `no site runs in ${config.dataDir}`, remedy)];
  }
  return checkReady(client);
}

/** The readiness of the parts of the site. It works over the socket and by URL. */
export async function checkReady(client: SiteClient): Promise<Finding[]> {
  const lines = await readyLines(client);
  const failing = lines.filter((line) => line.startsWith('[-]'));
  if (failing.length === 0) return [ok('daemon', `ready (${lines.length - 1} parts)`)];
  return failing.map((line) =>
    problem('daemon', line.slice(3), 'See the log of the site for this part.'),
  );
}

async function readyLines(client: SiteClient): Promise<string[]> {
  const text = await client.text('/readyz', { verbose: '' });
  return text.trim().split('\n');
}

/** No release of Hansa is older, so an earlier clock is wrong. */
const earliestSaneMs = Date.UTC(2026, 0, 1);

async function checkClock({ config, clock }: Patient): Promise<Finding[]> {
  const nowMs = clock.now();
  const remedy = 'Set the clock, and synchronise it with chrony or systemd-timesyncd.';
  const shown = new Date(nowMs).toISOString();
  if (nowMs < earliestSaneMs)
    return [problem('clock', `the clock says ${shown}, which is too early`, remedy)];
  const { caFile, store, endpointsFile } = dataFolderAt(config.dataDir);
  for (const path of [store, `${store}-wal`, caFile, endpointsFile]) {
    const written = await stat(path).catch(() => undefined);
    // One second of tolerance, for file systems that round up.
    if (written !== undefined && written.mtimeMs > nowMs + 1000) {
      const when = new Date(written.mtimeMs).toISOString();
      return [
        problem('clock', `the clock says ${shown}, but ${path} was written at ${when}`, remedy),
      ];
    }
  }
  return [ok('clock', shown)];
}

async function checkModes({ config }: Patient): Promise<Finding[]> {
  const folder = dataFolderAt(config.dataDir);
  const expected: [path: string, mode: number, optional: boolean][] = [
    [folder.path, 0o711, false],
    [join(folder.path, 'secrets'), 0o700, false],
    [folder.store, 0o600, true],
    [config.keyFile ?? folder.keyFile, 0o600, true],
    [folder.adminSocket, 0o600, true],
    [folder.caFile, 0o644, true],
  ];
  const findings: Finding[] = [];
  for (const [path, mode, optional] of expected) {
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) {
      if (!optional) {
        const remedy =
          'The first start of the site creates it. If the site is elsewhere, name its --data-dir.';
        return [problem('files', `${path} does not exist`, remedy)];
      }
      continue;
    }
    const actual = found.mode & 0o777;
    // A stricter mode is safe. A wider mode gives access to others.
    if ((actual & ~mode) !== 0) {
      const text = `${path} has mode ${octal(actual)}, wider than ${octal(mode)}`;
      findings.push(problem('files', text, `chmod ${octal(mode)} ${path}`));
    }
    if (found.uid !== process.getuid?.()) {
      const text = `${path} belongs to user ${found.uid}, and you are user ${process.getuid?.()}`;
      findings.push(warning('files', text, 'Run doctor as the user that runs the site.'));
    }
  }
  return findings.length > 0 ? findings : [ok('files', 'owners and modes are correct')];
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0');
}

async function checkKey({ config }: Patient): Promise<Finding[]> {
  const path = config.keyFile ?? dataFolderAt(config.dataDir).keyFile;
  if (!(await isReadable(path))) {
    const remedy = 'Restore the key file that sealed the secrets. Without it, they are lost.';
    const store = await stat(dataFolderAt(config.dataDir).store).catch(() => undefined);
    if (store === undefined) return [ok('key', 'none yet; the first start creates one')];
    return [
      problem('key', `the key-encryption key ${path} does not exist or cannot be read`, remedy),
    ];
  }
  if (path.startsWith(`${config.dataDir}/`)) {
    const text = `the key-encryption key is in the same folder as the secrets that it seals (${path})`;
    const remedy =
      'A copy of the data folder contains both. Move the key to another disk and start with --key-file.';
    return [warning('key', text, remedy)];
  }
  return [ok('key', path)];
}

async function isReadable(path: string): Promise<boolean> {
  return access(path, constants.R_OK).then(
    () => true,
    () => false,
  );
}

async function checkStore(patient: Patient): Promise<Finding[]> {
  const { config, clock, running } = patient;
  const { store: path } = dataFolderAt(config.dataDir);
  const size = await stat(path).catch(() => undefined);
  if (size === undefined) return [ok('store', 'none yet; the first start creates one')];
  // A running daemon has the store open and reports its state in /readyz.
  if (running) return [ok('store', 'in use by the daemon')];
  try {
    const store = await openStore({ driver: 'sqlite', path }, { clock });
    const text = `revision ${store.revision}, ${store.auditLog.size} audit events`;
    await store.close();
    return [ok('store', text)];
  } catch (caught) {
    const error = toHansaError(caught);
    return [problem('store', error.message, `hansa explain ${error.code}`)];
  }
}

const leastFreeBytes = 256 * 1024 * 1024;
const slowSyncMs = 50;

async function checkDisk({ config, clock, random }: Patient): Promise<Finding[]> {
  const disk = await statfs(config.dataDir).catch(() => undefined);
  if (disk === undefined) return [];
  const free = disk.bavail * disk.bsize;
  const shown = `${(free / 1024 ** 3).toFixed(1)} GiB free`;
  if (free < leastFreeBytes) {
    const remedy = 'Free some space. When the disk is full, the site rejects writes.';
    return [problem('disk', `${shown} in ${config.dataDir}`, remedy)];
  }
  const syncMs = await syncTime(join(config.dataDir, `.doctor-${random.uuid()}`), clock);
  if (syncMs === undefined) return [ok('disk', shown)];
  const speed = `a durable write takes ${syncMs.toFixed(1)} ms`;
  if (syncMs < slowSyncMs) return [ok('disk', `${shown}, ${speed}`)];
  return [
    warning(
      'disk',
      `${shown}, ${speed}`,
      'Every change takes at least that long. Use a faster disk.',
    ),
  ];
}

/** The median of five writes, because other writes can delay one. Undefined without write access. */
async function syncTime(path: string, clock: Clock): Promise<number | undefined> {
  try {
    const file = await open(path, 'wx', 0o600);
    try {
      const times: number[] = [];
      for (let i = 0; i < 5; i += 1) {
        const before = clock.monotonic();
        await file.write(Buffer.alloc(4096), 0, 4096, 0);
        await file.datasync();
        times.push(clock.monotonic() - before);
      }
      return times.toSorted((a, b) => a - b)[2];
    } finally {
      await file.close();
      await rm(path, { force: true });
    }
  } catch {
    return undefined;
  }
}

/** The authorities of one trust domain. */
const maxCaFileBytes = 1024 * 1024;
const dayMs = 24 * 60 * 60 * 1000;

async function checkAuthority({ config, clock }: Patient): Promise<Finding[]> {
  const { caFile } = dataFolderAt(config.dataDir);
  const pem = readDataFile(caFile, maxCaFileBytes)?.toString('utf8');
  if (pem === undefined) {
    const store = await stat(dataFolderAt(config.dataDir).store).catch(() => undefined);
    if (store === undefined) return [ok('authority', 'none yet; the first start creates one')];
    const restart =
      'Restart the site: it writes this file at every start. kubectl and --site need it.';
    return [problem('authority', `${caFile} does not exist`, restart)];
  }
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const remedy = 'Restart the site: it writes this file at every start.';
  if (blocks.length === 0)
    return [problem('authority', `${caFile} contains no certificate`, remedy)];
  try {
    const times = blocks.map((block) => new X509Certificate(block).validToDate.getTime());
    return checkAuthorities(times, clock.now(), remedy);
  } catch (error) {
    return [problem('authority', `${caFile}: ${(error as Error).message}`, remedy)];
  }
}

/** One finding for each authority, from its expiry time. */
export function checkAuthorities(
  times: readonly number[],
  nowMs: number,
  remedy: string,
): Finding[] {
  return times.map((notAfterMs) => {
    const daysLeft = Math.floor((notAfterMs - nowMs) / dayMs);
    const text = `valid until ${new Date(notAfterMs).toISOString()} (${daysLeft} days)`;
    if (daysLeft < 0) return problem('authority', `expired: ${text}`, remedy);
    return daysLeft < 30
      ? warning('authority', text, 'Rotate the authority before it expires.')
      : ok('authority', text);
  });
}

/** Checks the certificate of the api listener or, if the site does not run, whether its ports are free. */
async function checkListeners(patient: Patient): Promise<Finding[]> {
  const { config, running } = patient;
  if (!running) return checkPorts(patient);
  try {
    const endpoints = readEndpoints(config.dataDir);
    return [await checkServing(patient, localUrl(endpoints.api))];
  } catch (caught) {
    const { message } = toHansaError(caught);
    return [problem('listeners', message, 'Restart the site: it writes this file at every start.')];
  }
}

async function checkServing({ config, clock }: Patient, url: string): Promise<Finding> {
  const { hostname, port } = new URL(url);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const { caFile } = dataFolderAt(config.dataDir);
  const ca = readDataFile(caFile, maxCaFileBytes);
  if (ca === undefined) {
    throw new HansaError('HANSA_UNREACHABLE', `${caFile} does not exist.`);
  }
  return new Promise((resolve) => {
    const remedy = 'See the log of the site. A restart issues a new certificate.';
    const socket = connect({
      host,
      port: Number(port),
      ca,
      servername: '',
      ALPNProtocols: ['http/1.1'],
    });
    const timer = clock.timer(5000, () => {
      socket.destroy(new Error('no answer within 5 s'));
    });
    socket.on('secureConnect', () => {
      timer.cancel();
      const { valid_to: until } = socket.getPeerCertificate();
      socket.destroy();
      resolve(ok('api', `${url}, certificate valid until ${new Date(until).toISOString()}`));
    });
    socket.on('error', (error) => {
      timer.cancel();
      resolve(problem('api', `${url}: ${error.message}`, remedy));
    });
  });
}

async function checkAdvertisedUrl({ client, running, config }: Patient): Promise<Finding[]> {
  // Without a federation listener, other sites have nothing to reach.
  if (!running || readEndpoints(config.dataDir).federation === undefined) return [];
  const finding = await checkAdvertised(client);
  return finding === undefined ? [] : [finding];
}

const slowLoopSeconds = 0.1;

async function checkEventLoop({ config, running }: Patient): Promise<Finding[]> {
  if (!running) return [];
  const { metrics } = readEndpoints(config.dataDir);
  if (metrics === undefined) return [];
  const text = await fetch(localUrl(metrics)).then((answer) => answer.text());
  const found = /^hansa_event_loop_delay_seconds\{quantile="0\.99"\} (\S+)$/m.exec(text);
  const seconds = Number(found?.[1]);
  if (found === null || Number.isNaN(seconds)) return [];
  const shown = `99th percentile of the delay: ${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < slowLoopSeconds) return [ok('event loop', shown)];
  return [
    warning('event loop', shown, 'The machine or the site is overloaded. Check its CPU usage.'),
  ];
}

const ownChecks: readonly CheckUp[] = [
  { name: 'daemon', run: checkDaemon },
  { name: 'clock', run: checkClock },
  { name: 'files', run: checkModes },
  { name: 'disk', run: checkDisk },
  { name: 'key', run: checkKey },
  { name: 'store', run: checkStore },
  { name: 'authority', run: checkAuthority },
  { name: 'listeners', run: checkListeners },
  { name: 'advertised', run: checkAdvertisedUrl },
  { name: 'event loop', run: checkEventLoop },
];

/** Runs all checks. A check that throws becomes a finding. */
export async function examine(patient: Patient, planes: readonly Plane[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { name, run } of inOrder([...ownChecks, ...planes.flatMap(checksOf)])) {
    try {
      findings.push(...(await run(patient)));
    } catch (error) {
      const text = error instanceof HansaError ? error.message : (error as Error).message;
      findings.push(problem(name, `the check failed: ${text}`, 'See the log of the site.'));
    }
  }
  return findings;
}

/** The checks that a plane adds, for a site on this machine. */
function checksOf({ name, doctor }: Plane): CheckUp[] {
  return (doctor?.site ?? []).map((check) => ({
    name: check.name,
    ...(check.follows === undefined ? {} : { follows: check.follows }),
    run: ({ config, client, clock, running }) =>
      check.run({
        client,
        clock,
        running,
        settings: config.planes.get(name),
        listeners: async () => listenersOf(readEndpoints(config.dataDir)),
      }),
  }));
}
