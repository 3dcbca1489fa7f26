// Metrics of the audit logs that this site witnesses.

import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Witness } from './witness.ts';

export function observeLogs(
  metrics: Metrics,
  witness: Pick<Witness, 'logs' | 'awaited' | 'stale'>,
): void {
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
  metrics.observe(
    {
      name: 'hansa_peer_log_stale_seconds',
      help: 'Seconds for which messages of the peer have not shown that its audit log extends what this site has seen. 0 if they do.',
      labels: ['peer'],
    },
    (report) => {
      for (const { name } of witness.logs.list()) {
        report({ peer: name }, witness.stale.staleMs(name) / 1000);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_audit_unwitnessed_seconds',
      help: 'Seconds for which records of the audit log wait for a cosignature and no peer has cosigned any. 0 if a peer has cosigned the newest record. Absent without peers that witness logs.',
    },
    (report) => {
      const ms = witness.awaited.leastMs();
      if (ms !== undefined) report({}, ms / 1000);
    },
  );
}
