// Health routes: on the api listener for authenticated callers, and on the metrics listener for every
// client that can reach it.

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Clock } from '../../core/clock/clock.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Health } from '../health.ts';
import { type Exchange, respond } from '../http/exchange.ts';
import type { Route } from '../http/routes.ts';

const plain = 'text/plain; charset=utf-8';

export function healthRoutes(health: Health): readonly Route[] {
  const alive = (exchange: Exchange): void => respond(exchange, 200, plain, 'ok');
  return [
    { method: 'GET', path: '/healthz', allow: 'authenticated', handle: alive },
    { method: 'GET', path: '/livez', allow: 'authenticated', handle: alive },
    {
      method: 'GET',
      path: '/readyz',
      allow: 'authenticated',
      handle: (exchange) => {
        const { status, body } = readiness(health, exchange.query.has('verbose'));
        respond(exchange, status, plain, body);
      },
    },
  ];
}

function readiness(health: Health, verbose: boolean): { status: number; body: string } {
  const { ready, text } = health.report();
  if (!ready) return { status: 503, body: text };
  return { status: 200, body: verbose ? text : 'ok' };
}

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
    if (request.method !== 'GET' && request.method !== 'HEAD') answer(405, plain, 'only GET\n');
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
