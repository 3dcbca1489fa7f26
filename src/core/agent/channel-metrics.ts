// The metrics of the site's end of the channel.

import type { Metrics } from '../metrics/metrics.ts';

export class ChannelMetrics {
  readonly #states;
  readonly #refused;
  readonly #bytes;
  readonly #signRequests;

  constructor(metrics: Metrics, connected: () => number) {
    metrics.observe(
      { name: 'hansa_agents_connected', help: 'Agents with a stream to this process.' },
      (report) => report({}, connected()),
    );
    this.#states = metrics.counter({
      name: 'hansa_agent_states_total',
      help: 'States sent to agents: whole ones, and changes of the last one.',
      labels: ['type'],
    });
    this.#refused = metrics.counter({
      name: 'hansa_agent_states_refused_total',
      help: 'States that an agent refused.',
    });
    this.#bytes = metrics.counter({
      name: 'hansa_agent_sent_bytes_total',
      help: 'Bytes of messages sent to agents.',
    });
    this.#signRequests = metrics.counter({
      name: 'hansa_agent_sign_requests_total',
      help: 'Batches of signing requests from agents.',
    });
  }

  sentState(type: 'whole' | 'change'): void {
    this.#states.add({ type });
  }

  refusedState(): void {
    this.#refused.add({});
  }

  sentBytes(bytes: number): void {
    this.#bytes.add({}, bytes);
  }

  signRequest(): void {
    this.#signRequests.add({});
  }
}
