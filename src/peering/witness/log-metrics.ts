// Metrics of the audit logs that this site witnesses.

import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Witness } from './witness.ts';

export function observeLogs(metrics: Metrics, witness: Pick<Witness, 'logs'>): void {
  metrics.observe(
    {
      name: 'hansa_peer_log_events',
      help: 'Events of the audit log of each peer that this site has verified.',
      labels: ['peer'],
    },
    (report) => {
      for (const { name, value } of witness.logs.list()) report({ peer: name }, value.size);
    },
  );
  metrics.observe(
    {
      name: 'hansa_peer_log_finding',
      help: 'Findings about the audit log of each peer that no operator has acknowledged, by reason: Shrank, Forked, Unproven, SplitView, Unsigned, KeyChanged or Restored.',
      labels: ['peer', 'reason'],
    },
    (report) => {
      for (const { name, value } of witness.logs.list()) {
        if (value.finding !== undefined) report({ peer: name, reason: value.finding.reason }, 1);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_peer_log_unconfirmed',
      help: 'Audit logs of peers that this site does not cosign since its restore, until their sizes are confirmed.',
    },
    (report) => {
      const logs = witness.logs.list();
      report({}, logs.filter(({ value }) => !witness.logs.isConfirmed(value)).length);
    },
  );
}
