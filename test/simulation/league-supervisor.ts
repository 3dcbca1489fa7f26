// A simulated supervisor: the parts of the kubernetes plane that follow the members and lead them, without the
// rest of a site.

import type { KubeClient } from '../../src/core/kube/kube-client.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { LeaseLeadership } from '../../src/core/reconcile/lease-leadership.ts';
import { ReconcileRuntime } from '../../src/core/reconcile/runtime.ts';
import type { Store } from '../../src/core/store/store.ts';
import { memberController } from '../../src/kubernetes/controllers/member-controller.ts';
import { copiesPart } from '../../src/kubernetes/copies/copies-part.ts';
import { MemberPacer } from '../../src/kubernetes/copies/member-pacer.ts';
import { MemberControllers } from '../../src/kubernetes/league/member-controllers.ts';
import { memberLeadership } from '../../src/kubernetes/league/member-leadership.ts';
import { MemberSet } from '../../src/kubernetes/members/member-set.ts';
import { policiesPart } from '../../src/kubernetes/policies/policies-part.ts';
import { vmsPart } from '../../src/kubernetes/vms/vms-part.ts';
import { systemNamespace } from './league-compiled.ts';
import { policySettings } from './league-policies.ts';
import type { Process } from './simulation.ts';

export const leaseMs = 6000;
const unreachableAfterMs = 5000;

export interface SupervisorOptions {
  readonly store: Store;
  /** The ID of its home cluster. */
  readonly home: string;
  readonly connect: (clusterID: string) => KubeClient;
}

/** Runs until the process dies. */
export function startSupervisor(
  { node, life, clock, random, log }: Process,
  { store, home, connect }: SupervisorOptions,
): void {
  const holder = `${node}/${life}`;
  const shared = { clock, log, namespace: systemNamespace };
  const members = new MemberSet({
    ...shared,
    home: connect(home),
    homeName: home,
    connector: {
      find: ({ clusterID }) => ({ key: clusterID, open: () => connect(clusterID) }),
    },
    random: random.fork('members'),
    unreachableAfterMs,
    policyKinds: policySettings.kinds,
  });
  const host = new ReconcileRuntime({
    clock,
    random: random.fork('runtime'),
    log,
    metrics: new MetricsRegistry(),
    leadership: new LeaseLeadership({
      leases: store.leases,
      holder,
      durationMs: leaseMs,
      clock,
      random: random.fork('lease'),
      log,
    }),
  });
  void new MemberControllers({
    members,
    host,
    log,
    controllerOf: (member) => {
      const pacer = new MemberPacer(clock);
      const lookUp = (): Promise<readonly string[]> => Promise.resolve([]);
      const settings = policySettings;
      return memberController(member.clusterID, [
        copiesPart({ ...shared, member, members, lookUp, pacer }),
        vmsPart({ ...shared, member }),
        policiesPart({ ...shared, member, members, settings, dnsPrefix: '', pacer }),
      ]);
    },
    leadershipOf: (member) =>
      memberLeadership({
        ...shared,
        member,
        store,
        trustDomain: `${node}.example`,
        holder,
        leaseMs,
        random: random.fork(`lease/${member.clusterID}`),
      }),
  });
  members.start();
}
