// How commands show the audit logs of peers, and what an operator can do about them. Pure.

import { humanDuration } from '../../api/values/duration.ts';
import type { WitnessedSummary } from '../routes/witness-routes.ts';

/** As long as the alert HansaAuditUnwitnessed waits. */
const longWaitSeconds = 900;

export function logState({ finding, staleSeconds, confirmed }: WitnessedSummary): string {
  if (finding !== undefined) return finding.reason;
  if (staleSeconds !== undefined) return 'Stale';
  return confirmed ? 'Consistent' : 'Unconfirmed';
}

/** What the peer has cosigned of the log of this site. */
export function cosignedText({
  cosigned: { events, at, waitsSeconds = 0 },
}: WitnessedSummary): string {
  const what = events === 0 ? 'no event of this site' : `${events} events of this site, at ${at}`;
  return waitsSeconds > longWaitSeconds
    ? `${what}; new ones wait for ${duration(waitsSeconds)}`
    : what;
}

/** One line for each thing that the operator of this site can do. */
export function logHints(logs: readonly WitnessedSummary[]): readonly string[] {
  const lines = logs.flatMap((log) => {
    const { name } = log;
    switch (logState(log)) {
      case 'Consistent':
        return [];
      case 'Unconfirmed':
        return [
          `This site does not cosign the audit log of ${name} since its restore: hansa witness confirm ${name}`,
        ];
      case 'Stale':
        return [
          `The messages of ${name} have not shown for ${duration(log.staleSeconds ?? 0)} that its audit log extends what this site has seen. Check whether ${name} receives the answers of this site: hansa doctor --peer ${name}`,
        ];
      default:
        return [
          `The audit log of ${name} has a finding (${logState(log)}): hansa witness show ${name}`,
        ];
    }
  });
  return [...lines, ...unwitnessed(logs)];
}

/** One peer that cosigns is enough, so a single one that does not is no problem of the log. */
function unwitnessed(logs: readonly WitnessedSummary[]): readonly string[] {
  const waits = logs.flatMap(({ cosigned: { waitsSeconds } }) => waitsSeconds ?? []);
  const least = Math.min(...waits);
  if (waits.length === 0 || least <= longWaitSeconds) return [];
  return [
    `No peer has cosigned new events of this site's audit log for ${duration(least)}. hansa peer list shows whether peers answer. Ask their operators for hansa witness list: a peer with a finding about this log does not cosign it.`,
  ];
}

function duration(seconds: number): string {
  return humanDuration(seconds * 1000);
}
