// Metrics of the SPIRE servers that the site operates: their conditions, the age of the bundles that they hold, and
// their refreshes.

import { bundleRefreshes } from '../../core/metrics/bundle-refreshes.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { SpireCluster } from './spire-cluster.ts';

/** More marked clusters than a site will have, with the conditions of each. */
const mostClusters = 1000;
const conditions = [
  'FederationConfigurationValid',
  'FederationObjectsInSync',
  'FederationServiceReady',
  'FederationRouteReady',
  'FederationRelationshipsReady',
] as const;
const states = ['Pending', 'Bootstrapping', 'Fresh', 'Stale', 'Failed'] as const;
/** Of all servers together. */
const mostRelationships = 10_000;

type Observed = Pick<SpireCluster, 'cluster' | 'server' | 'isRunning'>;

/** Declared once in a process. `list` is asked at each scrape. Only the process that operates a server has values. */
export function observeSpire(
  metrics: Metrics,
  list: () => readonly Observed[],
  nowMs: () => number,
): void {
  const servers = () =>
    list().flatMap(({ cluster, server, isRunning }) =>
      isRunning && server !== undefined ? [{ name: cluster.metadata.name, server }] : [],
    );
  const reports = () =>
    servers().flatMap(({ name, server }) =>
      (server.reported?.relationships ?? [])
        .filter(({ kept, trustDomain }) => !kept && server.federatesWith.has(trustDomain))
        .map((each) => ({
          ...each,
          name,
          labels: { server: name, trust_domain: each.trustDomain },
        })),
    );
  const { count, errors, duration } = bundleRefreshes(metrics);
  count.source((report) => {
    for (const { labels, refreshes } of reports()) {
      if (refreshes !== undefined) report(labels, refreshes.count);
    }
  });
  errors.source((report) => {
    for (const { labels, refreshes } of reports()) {
      for (const [name, failed] of Object.entries(refreshes?.errors ?? {})) {
        report({ ...labels, class: name }, failed);
      }
    }
  });
  duration.source((report) => {
    for (const { labels, refreshes } of reports()) {
      if (refreshes !== undefined) report(labels, refreshes.durations);
    }
  });
  metrics.observe(
    {
      name: 'hansa_spire_condition',
      help: 'Conditions of the SPIRE server of a cluster: 1 True, 0 False, -1 Unknown. A server without federation has none but FederationConfigurationValid and FederationObjectsInSync.',
      labels: ['cluster', 'condition'],
      mostSeries: mostClusters * conditions.length,
    },
    (report) => {
      for (const { name, server } of servers()) {
        for (const { type, status, reason } of server.conditions) {
          const isShown = (conditions as readonly string[]).includes(type);
          if (!isShown || (reason === 'NotFederated' && status === 'False')) continue;
          const value = status === 'True' ? 1 : status === 'False' ? 0 : -1;
          report({ cluster: name, condition: type }, value);
        }
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_spire_relationships',
      help: 'Relationships of the SPIRE server of a cluster with other trust domains, by state.',
      labels: ['cluster', 'state'],
      mostSeries: mostClusters * states.length,
    },
    (report) => {
      for (const { name, server } of servers()) {
        for (const state of states) {
          const found = server.relationships.filter((each) => each.state === state);
          report({ cluster: name, state }, found.length);
        }
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_spire_bundle_age_seconds',
      help: 'Seconds since the SPIRE server of a cluster last refreshed the bundle of a trust domain, as its sidecar reports.',
      labels: ['cluster', 'trust_domain'],
      mostSeries: mostRelationships,
    },
    (report) => {
      for (const { name, trustDomain, lastRefresh } of reports()) {
        if (lastRefresh === undefined) continue;
        const ageMs = Math.max(0, nowMs() - Date.parse(lastRefresh));
        report({ cluster: name, trust_domain: trustDomain }, ageMs / 1000);
      }
    },
  );
}
