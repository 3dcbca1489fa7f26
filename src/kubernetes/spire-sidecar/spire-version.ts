// Which version of SPIRE runs beside the sidecar. No API of SPIRE tells it, so it comes from the metric `started`,
// which each version of SPIRE has. The listener of metrics has no authentication, and the answer is only for a warning.

import { get } from 'node:http';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';

/** A server with 1,000 relationships has far less. */
const mostBytes = 8 * 1024 * 1024;
const timeoutMs = 5000;
/** Another version comes with another Pod, unless somebody moves the tag of the image. */
const askAgainMs = 3_600_000;
const started = /^spire_server_started\{[^}\n]*\bversion="(v?\d[\w.+-]{0,63})"/m;

/** From the metrics of a SPIRE server, as text. Undefined where they do not say it. */
export function versionInMetrics(text: string): string | undefined {
  // In values of labels, SPIRE writes a dot as `_` (`SanitizeLabel`).
  return started.exec(text)?.[1]?.replaceAll('_', '.');
}

/** Rejects where the metrics cannot be read. */
export async function readServerVersion(
  url: URL,
  clock: Pick<Clock, 'timer'>,
): Promise<string | undefined> {
  const abort = new AbortController();
  const timer = clock.timer(timeoutMs, () => abort.abort());
  try {
    return versionInMetrics(await readText(url, abort.signal));
  } finally {
    timer.cancel();
  }
}

function readText(url: URL, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get(url, { signal, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      let length = 0;
      response.on('error', reject);
      response.on('data', (chunk: Buffer) => {
        length += chunk.length;
        chunks.push(chunk);
        if (length <= mostBytes) return;
        const why = `the metrics of SPIRE have more than ${mostBytes} bytes`;
        response.destroy(new HansaError('HANSA_TOO_LARGE', why));
      });
      response.on('end', () => {
        if (response.statusCode === 200) return resolve(Buffer.concat(chunks).toString('utf8'));
        const why = `the metrics of SPIRE answered HTTP status ${response.statusCode}`;
        reject(new HansaError('HANSA_UNREACHABLE', why));
      });
    });
    request.on('error', reject);
  });
}

/** Remembers the version for an hour. */
export class ServerVersion {
  readonly #read: () => Promise<string | undefined>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #version: string | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(read: () => Promise<string | undefined>, clock: Pick<Clock, 'monotonic'>) {
    this.#read = read;
    this.#clock = clock;
  }

  /** Never rejects. Undefined until it is known: a server that starts has no metrics yet. */
  async current(): Promise<string | undefined> {
    const now = this.#clock.monotonic();
    if (now - this.#readAtMs < askAgainMs) return this.#version;
    try {
      this.#version = await this.#read();
      if (this.#version !== undefined) this.#readAtMs = now;
    } catch {
      // A listener that is turned off holds up nothing. The site reads the tag of the image then.
      this.#version = undefined;
    }
    return this.#version;
  }
}
