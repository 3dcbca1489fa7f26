// Starts a real site as a user does: `./hansa server` in its own folder, on ports that the system
// chooses.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WireClient } from './wire.ts';

export const launcher = fileURLToPath(new URL('../../hansa', import.meta.url));

export interface Site {
  readonly url: string;
  readonly ca: string;
  /** A bearer token with the role admin. */
  readonly token: string;
  readonly dataDir: string;
  readonly pid: number;
  readonly client: WireClient;
  /** From the start of the program until it said that it is ready. */
  readonly readyWithinMs: number;
  stop(): Promise<void>;
}

const READY_WITHIN_MS = 120_000;

export async function startSite(
  options: { readonly nodeOptions?: string; readonly flags?: readonly string[] } = {},
): Promise<Site> {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-site-'));
  const dataDir = join(folder, 'site');
  const started = performance.now();
  const child = spawn(
    launcher,
    [
      'server',
      `--data-dir=${dataDir}`,
      '--trust-domain=lubeck.example',
      '--api=127.0.0.1:0',
      '--federation=127.0.0.1:0',
      '--metrics=127.0.0.1:0',
      ...(options.flags ?? []),
    ],
    {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        ...(options.nodeOptions === undefined ? {} : { NODE_OPTIONS: options.nodeOptions }),
      },
    },
  );
  const stop = async (): Promise<void> => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await untilReady(child);
    const readyWithinMs = performance.now() - started;
    const endpoints = JSON.parse(await readFile(join(dataDir, 'endpoints.json'), 'utf8')) as {
      api: string;
      admin: string;
    };
    const ca = await readFile(join(dataDir, 'ca.pem'), 'utf8');
    const token = await createToken(endpoints.admin);
    const client = new WireClient({ url: endpoints.api, ca, token });
    return {
      url: endpoints.api,
      ca,
      token,
      dataDir,
      pid: child.pid ?? 0,
      client,
      readyWithinMs,
      stop: async () => {
        client.close();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The greeting on standard output ends with what to do next. */
function untilReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = '';
    const timer = setTimeout(
      () => reject(new Error(`the site was not ready in time: ${said}`)),
      READY_WITHIN_MS,
    );
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-8192);
    });
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-8192);
      if (!/^next: /m.test(said)) return;
      clearTimeout(timer);
      resolve();
    });
    child.once('exit', (code) => {
      clearTimeout(timer);
      reject(new Error(`the site ended with ${code}: ${said}`));
    });
  });
}

function createToken(adminSocket: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        socketPath: adminSocket,
        method: 'POST',
        path: '/hansa/v1/tokens',
        headers: { 'content-type': 'application/json' },
      },
      (incoming) => {
        let text = '';
        incoming.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        incoming.once('end', () => {
          const { token } = JSON.parse(text) as { token?: string };
          if (token === undefined) reject(new Error(`no token was made: ${text}`));
          else resolve(token);
        });
      },
    );
    outgoing.once('error', reject);
    outgoing.end(JSON.stringify({ name: 'interop', role: 'admin' }));
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await ended;
  clearTimeout(timer);
}
