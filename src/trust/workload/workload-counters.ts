// The metrics of the workload services, the same on a site and on an agent.

import type { JwtRule } from '../../core/identity/jwt/rules.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { WorkloadConnections } from './socket/workload-connections.ts';

export function workloadCounters(metrics: Metrics, connections: WorkloadConnections) {
  const issued = metrics.counter<'result'>({
    name: 'hansa_workload_svids_issued_total',
    help: 'X.509-SVIDs issued for entries, by result.',
    labels: ['result'],
  });
  const jwtIssued = metrics.counter<'result'>({
    name: 'hansa_workload_jwt_svids_issued_total',
    help: 'JWT-SVIDs signed for entries, by result.',
    labels: ['result'],
  });
  const validated = metrics.counter<'result'>({
    name: 'hansa_workload_jwt_svids_validated_total',
    help: 'JWT-SVIDs validated for workloads, by result: valid, or the violated rule.',
    labels: ['result'],
  });
  const pushes = metrics.counter({
    name: 'hansa_workload_pushes_total',
    help: 'States sent to streams of the Workload API, including the first ones.',
  });
  const refusals = metrics.counter<'reason'>({
    name: 'hansa_workload_refusals_total',
    help: 'Rejected connections and calls on the workload socket.',
    labels: ['reason'],
  });
  const checks = metrics.counter<'result'>({
    name: 'hansa_workload_checks_total',
    help: 'Decisions of ext_authz, by result: allowed, or the reason of the denial.',
    labels: ['result'],
  });
  const secrets = metrics.counter<'result'>({
    name: 'hansa_workload_secret_responses_total',
    help: 'Responses of the secret discovery service, by result: sent, or rejected by an Envoy.',
    labels: ['result'],
  });
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.observe({ name, help }, (report) => report({}, read()));
  gauge('hansa_workload_streams', 'Open calls on the workload socket.', () => connections.streams);
  gauge(
    'hansa_workload_connections',
    'Open connections to the workload socket.',
    () => connections.size,
  );
  gauge(
    'hansa_workload_request_bytes',
    'Memory of open calls and incomplete requests on the workload socket. Each user has a share.',
    () => connections.requestBytes,
  );
  return {
    issued: () => issued.add({ result: 'issued' }),
    failed: () => issued.add({ result: 'failed' }),
    jwtIssued: () => jwtIssued.add({ result: 'issued' }),
    jwtFailed: () => jwtIssued.add({ result: 'failed' }),
    validated: (rule: JwtRule | undefined) => validated.add({ result: rule ?? 'valid' }),
    pushed: (streams: number) => pushes.add({}, streams),
    refused: (reason: string) => refusals.add({ reason }),
    checked: (result: string) => checks.add({ result }),
    secrets: (result: 'sent' | 'rejected') => secrets.add({ result }),
  };
}
