// The handler of the metrics listener: /metrics, /healthz, /livez and /readyz, without authentication.

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { Clock } from '../clock/clock.ts';
import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';
import { type Health, readiness } from './health.ts';
import type { Metrics } from './metrics.ts';

const plain = 'text/plain; charset=utf-8';

/** The request handler of the metrics listener. */
export function metricsListener(
  metrics: Metrics,
  health: Health,
  clock: Pick<Clock, 'monotonic'>,
): RequestListener {
  return (request, response) => {
    const [path = '', query = ''] = (request.url ?? '/').split('?');
    const answer = (status: number, type: string, body: string): void => {
      response.writeHead(status, {
        'content-type': type,
        'content-length': Buffer.byteLength(body),
      });
      response.end(request.method === 'HEAD' ? undefined : body);
    };
    if (isFromWebPage(request)) answer(403, plain, 'ask by address or as localhost\n');
    else if (request.method !== 'GET' && request.method !== 'HEAD')
      answer(405, plain, 'only GET\n');
    else if (path === '/metrics') {
      // Closes the connection rather than end an incomplete response.
      sendMetrics(metrics, clock, request, response).catch(() => response.destroy());
    } else if (path === '/healthz' || path === '/livez') answer(200, plain, 'ok');
    else if (path === '/readyz') {
      const { status, body } = readiness(health, query.includes('verbose'));
      answer(status, plain, body);
    } else answer(404, plain, 'not found; available: /metrics, /healthz, /livez, /readyz\n');
  };
}

/**
 * Whether a web page sent the request, through a browser on this machine: a page of another site, or one whose
 * name was pointed at this machine (DNS rebinding). Names that reach another address are those of its network.
 */
function isFromWebPage({ headers, socket }: IncomingMessage): boolean {
  if (headers.origin !== undefined) return true;
  const { host } = headers;
  if (host === undefined || !isLoopback(socket.localAddress ?? '')) return false;
  const name = URL.parse(`http://${host}`)?.hostname.replace(/^\[|\]$/g, '') ?? '';
  return name !== 'localhost' && isIP(name) === 0;
}

function isLoopback(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address);
}

/** Maximum time before the event loop runs other work. */
const workMs = 5;
/** Minimum size of one write. */
const pieceCharacters = 64 * 1024;

/** Creates and sends the metrics in pieces. With thousands of federations they take megabytes. */
async function sendMetrics(
  metrics: Metrics,
  clock: Pick<Clock, 'monotonic'>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  response.setHeader('content-type', 'text/plain; version=0.0.4; charset=utf-8');
  if (request.method === 'HEAD') {
    response.end();
    return;
  }
  let text = '';
  let rowStartedMs = clock.monotonic();
  for (const piece of metrics.pieces()) {
    text += piece;
    if (text.length >= pieceCharacters) {
      if (!response.write(text)) await taken(response);
      text = '';
    }
    if (clock.monotonic() - rowStartedMs >= workMs) {
      await yieldToEventLoop();
      rowStartedMs = clock.monotonic();
    }
    if (response.destroyed) return;
  }
  // If this is the whole body, node sets Content-Length.
  response.end(text);
}

/** Resolves when the client has read the output or disconnected. */
function taken(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed) resolve();
    const go = (): void => {
      response.off('drain', go).off('close', go);
      resolve();
    };
    response.on('drain', go).on('close', go);
  });
}
