// For tests only: runs tests of the workload services on a site and on an agent of a site.

import { describe, type TestContext } from 'node:test';
import type { AuditDraft } from '../../core/audit/event.ts';
import type { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { WorkloadLimits } from '../workload/socket/workload-connections.ts';
import { type MovableClock, startTestSite } from '../workload/test-workload-site.ts';
import { startAgentOfSite } from './test-agent-of-site.ts';
import type { TestAgentState } from './test-agent-workloads.ts';

/** What a test uses of either. */
export interface StartedHost extends TestAgentState<MovableClock> {
  readonly metrics: MetricsRegistry;
  readonly denials: readonly AuditDraft[];
  readonly issued: readonly AuditDraft[];
  readonly socket: string;
  readonly services: { refresh(): void };
  stop(): Promise<void>;
}

export interface WorkloadHost {
  /** Whether it has an audit log. */
  readonly audits: boolean;
  /** Started for one test. */
  site(t: TestContext, limits?: Partial<WorkloadLimits>): Promise<StartedHost>;
}

/** The same tests for the workload services of a site and of an agent. */
export function onSiteAndAgent(what: string, tests: (host: WorkloadHost) => void): void {
  for (const { name, audits, start } of [
    { name: 'a site', audits: true, start: startTestSite },
    { name: 'an agent', audits: false, start: startAgentOfSite },
  ]) {
    void describe(`${what} on ${name}`, () => {
      tests({
        audits,
        site: async (t, limits) => {
          const started = await start(limits);
          t.after(started.stop);
          return started;
        },
      });
    });
  }
}
