// Health for load balancers and people: on the API for authenticated callers, and on the metrics
// listener for everyone who reaches that.

import type { RequestListener } from 'node:http';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Health } from '../health.ts';
import { type Exchange, respond } from '../http/exchange.ts';
import type { Route } from '../http/routes.ts';

const plain = 'text/plain; charset=utf-8';

export function healthRoutes(health: Health): readonly Route[] {
  const alive = (exchange: Exchange): void => respond(exchange, 200, plain, 'ok');
  return [
    { method: 'GET', path: '/healthz', handle: alive },
    { method: 'GET', path: '/livez', handle: alive },
    {
      method: 'GET',
      path: '/readyz',
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

/** The whole of the metrics listener. */
export function metricsListener(metrics: Metrics, health: Health): RequestListener {
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
    else if (path === '/metrics')
      answer(200, 'text/plain; version=0.0.4; charset=utf-8', metrics.expose());
    else if (path === '/healthz' || path === '/livez') answer(200, plain, 'ok');
    else if (path === '/readyz') {
      const { status, body } = readiness(health, query.includes('verbose'));
      answer(status, plain, body);
    } else answer(404, plain, 'here are /metrics, /healthz and /readyz\n');
  };
}
