// The plain HTTP listener of an agent: /metrics, /healthz and /readyz.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Health } from '../../core/metrics/health.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import { metricsListener } from '../../core/metrics/metrics-listener.ts';

/** Scrapers and probes, not clients of a service. */
const mostConnections = 32;
const requestWithinMs = 10_000;

export async function startMetricsServer(
  address: { readonly host: string; readonly port: number },
  parts: { readonly metrics: Metrics; readonly health: Health; readonly clock: Clock },
): Promise<{ readonly url: string; stop(): void }> {
  const server = createServer(
    { requestTimeout: requestWithinMs, headersTimeout: requestWithinMs, maxHeaderSize: 8_192 },
    metricsListener(parts.metrics, parts.health, parts.clock),
  );
  server.maxConnections = mostConnections;
  server.listen(address.port, address.host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot listen on ${address.host}:${address.port}: ${(cause as NodeJS.ErrnoException).code ?? ''}. Choose another address with --metrics, or --metrics off.`,
      { cause },
    );
  }
  const { port } = server.address() as AddressInfo;
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return {
    url: `http://${host}:${port}`,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
