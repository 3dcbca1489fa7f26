// The address and the files that Kubernetes gives to a pod: the token, the CA and the namespace of
// its ServiceAccount. Kubernetes replaces the files, so they are read again after a change.

import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileProblem } from '../command/file-problem.ts';
import { HansaError } from '../errors/error.ts';
import type { Clock } from '../clock/clock.ts';
import type { KubeCredential, KubeCredentialSource } from './kube-client.ts';

export const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Tokens are renewed about every 50 minutes, some time before they expire. */
const lookAgainMs = 10_000;
const maxFileBytes = 1024 * 1024;

/** Undefined where the process does not run in a pod. */
export function inClusterServer(
  env: Readonly<Record<string, string | undefined>>,
): URL | undefined {
  const host = env['KUBERNETES_SERVICE_HOST'] ?? '';
  const port = env['KUBERNETES_SERVICE_PORT'] ?? '';
  if (host === '' || !/^\d{1,5}$/.test(port)) return undefined;
  const text = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  return URL.canParse(text) ? new URL(text) : undefined;
}

export class InClusterFiles implements KubeCredentialSource {
  readonly #token: FileText;
  readonly #ca: FileText;
  #credential: Extract<KubeCredential, { type: 'token' }> | undefined;

  constructor({ clock, folder = serviceAccountFolder }: { clock: Clock; folder?: string }) {
    this.#token = new FileText(join(folder, 'token'), clock);
    this.#ca = new FileText(join(folder, 'ca.crt'), clock);
  }

  /** Rejects with HANSA_UNAVAILABLE where there is no such file. */
  current(): KubeCredential | Promise<KubeCredential> {
    const token = this.#token.text();
    return typeof token === 'string' ? this.#with(token) : token.then((text) => this.#with(text));
  }

  refused(): void {
    this.#token.lookNow();
  }

  /** PEM. Rejects with HANSA_UNAVAILABLE where there is no such file. */
  ca(): string | Promise<string> {
    return this.#ca.text();
  }

  #with(text: string): KubeCredential {
    const token = text.trim();
    if (this.#credential?.token !== token) this.#credential = { type: 'token', token };
    return this.#credential;
  }
}

/** The text of a file. It looks for a change at most every ten seconds. */
class FileText {
  readonly #path: string;
  readonly #clock: Clock;
  #held: { readonly text: string; readonly version: string } | undefined;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<string> | undefined;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  text(): string | Promise<string> {
    const isRecent = this.#clock.monotonic() - this.#lookedAtMs < lookAgainMs;
    if (this.#held !== undefined && isRecent) return this.#held.text;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  lookNow(): void {
    this.#lookedAtMs = Number.NEGATIVE_INFINITY;
  }

  async #read(): Promise<string> {
    try {
      const { size, mtimeMs, ino } = await stat(this.#path);
      if (size > maxFileBytes) throw new Error(`it is larger than ${maxFileBytes} bytes`);
      const version = `${ino} ${mtimeMs} ${size}`;
      if (this.#held?.version !== version) {
        this.#held = { text: await readFile(this.#path, 'utf8'), version };
      }
      this.#lookedAtMs = this.#clock.monotonic();
      return this.#held.text;
    } catch (cause) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot read ${this.#path}: ${fileProblem(cause)}. Kubernetes mounts it into pods with a ServiceAccount token.`,
        { cause },
      );
    }
  }
}
