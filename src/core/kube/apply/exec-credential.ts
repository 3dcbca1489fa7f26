// Runs the exec plugin of a kubeconfig and reads the credential that it prints, with a time limit and
// a limit on its output. Only the command line uses it.

import { type ChildProcess, spawn } from 'node:child_process';
import { HansaError } from '../../errors/error.ts';
import { fileProblem } from '../../command/file-problem.ts';
import { isRecord } from '../../json/is-record.ts';
import { parseBoundedJson } from '../../json/strict-json.ts';
import type { Io } from '../../plane/command-kit.ts';
import type { KubeCredential, KubeCredentialSource, KubeEndpoint } from '../kube-client.ts';
import type { ExecPlugin } from '../kubeconfig.ts';

/** Plugins call a cloud or read a cache. */
export const pluginWithinMs = 60_000;
/** A person logs in with a browser. */
const interactiveWithinMs = 300_000;
const maxOutputBytes = 1024 * 1024;
/** Progress and questions of a plugin go to the terminal, up to this. */
const maxErrorBytes = 256 * 1024;
/** A credential that expires this soon is renewed before it is used. */
const expiryMarginMs = 10_000;

export type PluginIo = Pick<Io, 'env' | 'clock' | 'stderr'> & {
  readonly stdin: { readonly isTTY?: boolean };
};

export interface ExecOptions {
  readonly plugin: ExecPlugin;
  /** Told to plugins with `provideClusterInfo`. */
  readonly endpoint: KubeEndpoint;
  readonly io: PluginIo;
  /** Default: a minute, or five where a person may answer. */
  readonly timeoutMs?: number | undefined;
}

interface Printed {
  readonly credential: KubeCredential;
  /** Infinity where the plugin names no time. */
  readonly expiresAtMs: number;
}

/** Runs the plugin once, and again after its credential expired or was refused. */
export class ExecCredentialSource implements KubeCredentialSource {
  readonly #options: ExecOptions;
  #printed: Printed | undefined;
  #running: Promise<Printed> | undefined;

  constructor(options: ExecOptions) {
    this.#options = options;
  }

  current(): KubeCredential | Promise<KubeCredential> {
    const nowMs = this.#options.io.clock.now();
    if (this.#printed !== undefined && nowMs < this.#printed.expiresAtMs - expiryMarginMs) {
      return this.#printed.credential;
    }
    return this.#renew();
  }

  refused(credential: KubeCredential): void {
    if (this.#printed?.credential === credential) this.#printed = undefined;
  }

  async #renew(): Promise<KubeCredential> {
    this.#running ??= runPlugin(this.#options).finally(() => {
      this.#running = undefined;
    });
    this.#printed = await this.#running;
    return this.#printed.credential;
  }
}

/** Rejects with HANSA_USAGE where the plugin cannot be run, and HANSA_UNAVAILABLE where it gives no credential. */
async function runPlugin(options: ExecOptions): Promise<Printed> {
  const { plugin, io } = options;
  const isInteractive = plugin.interactiveMode !== 'Never' && io.stdin.isTTY === true;
  if (plugin.interactiveMode === 'Always' && !isInteractive) {
    throw new HansaError(
      'HANSA_USAGE',
      `Cannot run ${plugin.command}: it asks questions (interactiveMode: Always), and standard input is not a terminal. Run the command in a terminal.`,
    );
  }
  const output = await run(options, isInteractive);
  return parseExecCredential(output, plugin);
}

function run(
  { plugin, endpoint, io, timeoutMs }: ExecOptions,
  isInteractive: boolean,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const failed = (why: string, code: 'HANSA_UNAVAILABLE' | 'HANSA_USAGE' = 'HANSA_UNAVAILABLE') =>
      new HansaError(code, `Cannot get a credential from ${plugin.command}: ${why}`);
    let child: ChildProcess;
    try {
      child = spawn(plugin.command, plugin.args, {
        env: {
          ...io.env,
          ...Object.fromEntries(plugin.env.map(({ name, value }) => [name, value])),
          KUBERNETES_EXEC_INFO: JSON.stringify(infoOf(plugin, endpoint, isInteractive)),
        },
        stdio: [isInteractive ? 'inherit' : 'ignore', 'pipe', 'pipe'],
        // A group of its own, so that all its processes can be ended. A group without a terminal
        // cannot ask questions.
        detached: !isInteractive,
      });
    } catch (error) {
      // As for an argument with a NUL byte.
      reject(failed(`${(error as Error).message}.`, 'HANSA_USAGE'));
      return;
    }
    const limitMs = timeoutMs ?? (isInteractive ? interactiveWithinMs : pluginWithinMs);
    const timer = io.clock.timer(limitMs, () =>
      fail(failed(`it did not end within ${limitMs} ms and was stopped.`)),
    );
    let isOver = false;
    const settle = (act: () => void): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      // Processes that it left behind may hold the pipes, and would keep this one alive.
      stop(child, !isInteractive);
      child.stdout?.destroy();
      child.stderr?.destroy();
      act();
    };
    const fail = (error: HansaError): void => settle(() => reject(error));
    child.on('error', (error) => {
      const hint = plugin.installHint === '' ? '' : ` ${plugin.installHint}`;
      fail(failed(`${fileProblem(error)}.${hint}`, 'HANSA_USAGE'));
    });
    const chunks: Buffer[] = [];
    let length = 0;
    child.stdout?.on('data', (chunk: Buffer) => {
      length += chunk.length;
      chunks.push(chunk);
      if (length > maxOutputBytes) {
        fail(failed(`it printed more than ${maxOutputBytes} bytes and was stopped.`));
      }
    });
    let told = 0;
    child.stderr?.on('data', (chunk: Buffer) => {
      told += chunk.length;
      if (told <= maxErrorBytes) io.stderr.write(chunk);
    });
    let exited: { readonly code: number | null; readonly signal: string | null } | undefined;
    let isRead = false;
    const finish = (): void => {
      if (exited === undefined || !isRead) return;
      const { code, signal } = exited;
      const ending = signal === null ? `exit code ${code}` : `signal ${signal}`;
      if (code === 0) settle(() => resolve(Buffer.concat(chunks)));
      else fail(failed(`it ended with ${ending}. Its own messages are above.`));
    };
    child.stdout?.on('end', () => {
      isRead = true;
      finish();
    });
    child.on('exit', (code, signal) => {
      exited = { code, signal };
      finish();
    });
  });
}

function stop(child: ChildProcess, hasGroup: boolean): void {
  const { pid } = child;
  if (pid === undefined) return;
  try {
    if (hasGroup) process.kill(-pid, 'SIGKILL');
    else child.kill('SIGKILL');
  } catch {
    // All of it has ended.
  }
}

/** ExecCredential.spec in client.authentication.k8s.io. */
function infoOf(plugin: ExecPlugin, endpoint: KubeEndpoint, interactive: boolean): object {
  const { server, caBundle, tlsServerName, proxyURL } = endpoint;
  const cluster = {
    server: server.href.replace(/\/$/, ''),
    ...(tlsServerName !== undefined && { 'tls-server-name': tlsServerName }),
    ...(caBundle !== undefined && {
      'certificate-authority-data': Buffer.from(caBundle).toString('base64'),
    }),
    ...(proxyURL !== undefined && { 'proxy-url': proxyURL.href.replace(/\/$/, '') }),
    ...(plugin.clusterConfig !== undefined && { config: plugin.clusterConfig }),
  };
  return {
    apiVersion: plugin.apiVersion,
    kind: 'ExecCredential',
    spec: { interactive, ...(plugin.provideClusterInfo && { cluster }) },
  };
}

/** Never quotes the output: it contains secrets. */
export function parseExecCredential(output: Buffer, plugin: ExecPlugin): Printed {
  const refuse = (why: string): HansaError =>
    new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot use the credential that ${plugin.command} printed: ${why}.`,
    );
  let value: unknown;
  try {
    value = parseBoundedJson(output);
  } catch {
    throw refuse('it is not JSON');
  }
  if (!isRecord(value) || value['kind'] !== 'ExecCredential') {
    throw refuse('its kind is not ExecCredential');
  }
  if (value['apiVersion'] !== plugin.apiVersion) {
    throw refuse(`its apiVersion is not ${plugin.apiVersion}, as the kubeconfig says`);
  }
  const status = value['status'];
  if (!isRecord(status)) throw refuse('it has no status');
  const { token, clientCertificateData, clientKeyData } = status;
  const expiresAtMs = expiryOf(status['expirationTimestamp']);
  if (expiresAtMs === undefined) throw refuse('its expirationTimestamp is not a time');
  if ((clientCertificateData ?? '') !== '' || (clientKeyData ?? '') !== '') {
    if (typeof clientCertificateData !== 'string' || typeof clientKeyData !== 'string') {
      throw refuse('it has a client certificate without a key, or a key without a certificate');
    }
    const certificate = { certificate: clientCertificateData, key: clientKeyData };
    return { credential: { type: 'certificate', ...certificate }, expiresAtMs };
  }
  if (typeof token !== 'string' || token === '') {
    throw refuse('it has neither a token nor a client certificate');
  }
  return { credential: { type: 'token', token }, expiresAtMs };
}

function expiryOf(value: unknown): number | undefined {
  if (value === undefined || value === null || value === '') return Number.POSITIVE_INFINITY;
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\dT/.test(value)) return undefined;
  const timeMs = Date.parse(value);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}
