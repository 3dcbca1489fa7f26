// Health routes on the api listener, for authenticated callers. The metrics listener serves the same
// paths to every client that can reach it (core/metrics/metrics-listener.ts).

import { type Health, readiness } from '../../core/metrics/health.ts';
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
