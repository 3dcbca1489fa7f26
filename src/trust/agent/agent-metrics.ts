// Metrics of an agent about its own membership and its connection. The services for workloads add theirs.

import type { Metrics } from '../../core/metrics/metrics.ts';

export interface AgentGauges {
  readonly connected: () => boolean;
  readonly lastContactMs: () => number | undefined;
  readonly svidNotAfterMs: () => number;
  /** Whether a restart without the site can serve SVIDs. */
  readonly keepsSvids: boolean;
}

export interface AgentCounters {
  connected(): void;
  disconnected(): void;
  applied(): void;
  renewed(result: 'ok' | 'failed'): void;
}

export function agentMetrics(metrics: Metrics, gauges: AgentGauges): AgentCounters {
  const gauge = (name: string, help: string, read: () => number | undefined): void =>
    metrics.observe({ name, help }, (report) => {
      const value = read();
      if (value !== undefined) report({}, value);
    });
  gauge('hansa_agent_connected', '1 while the agent is connected to its site, otherwise 0.', () =>
    Number(gauges.connected()),
  );
  gauge(
    'hansa_agent_last_contact_timestamp_seconds',
    'When the agent last heard of its site, in Unix time.',
    () => seconds(gauges.lastContactMs()),
  );
  gauge(
    'hansa_agent_svid_expiry_timestamp_seconds',
    'When the SVID of the agent itself expires, in Unix time.',
    () => seconds(gauges.svidNotAfterMs()),
  );
  gauge(
    'hansa_agent_keeps_svids',
    '1 if the agent keeps sealed SVIDs of workloads for a restart without its site, otherwise 0.',
    () => Number(gauges.keepsSvids),
  );
  const connections = metrics.counter<'event'>({
    name: 'hansa_agent_connections_total',
    help: 'Connections to the site, by event: opened or lost.',
    labels: ['event'],
  });
  const states = metrics.counter({
    name: 'hansa_agent_states_total',
    help: 'States and changes that the agent applied.',
  });
  const renewals = metrics.counter<'result'>({
    name: 'hansa_agent_renewals_total',
    help: 'Renewals of the SVID of the agent itself, by result.',
    labels: ['result'],
  });
  return {
    connected: () => connections.add({ event: 'opened' }),
    disconnected: () => connections.add({ event: 'lost' }),
    applied: () => states.add({}),
    renewed: (result) => renewals.add({ result }),
  };
}

function seconds(momentMs: number | undefined): number | undefined {
  return momentMs === undefined ? undefined : momentMs / 1000;
}
