// The metric of agents by state.

import { agentKind } from '../../api/kinds/agent.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

const statesReader = kindReader(agentKind).derive(({ status }) => status?.state ?? 'Joined');
const { state } = agentKind.status?.fields ?? {};
const states: readonly string[] = state?.schema.enum ?? [];

/** O(agents) per scrape. */
export function observeAgents(metrics: Metrics, store: Pick<Store, 'list'>): void {
  metrics.observe(
    { name: 'hansa_agents', help: 'Agents, by state.', labels: ['state'] },
    (report) => {
      // A state without agents is 0, so that an alert sees it end.
      const counts = new Map(states.map((one) => [one, 0]));
      for (const one of statesReader.list(store)) counts.set(one, (counts.get(one) ?? 0) + 1);
      for (const [one, count] of counts) report({ state: one }, count);
    },
  );
}
