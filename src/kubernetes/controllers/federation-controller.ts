// Writes the status of `Federation` in the home cluster: the state, the leader and the epoch of each member, and the
// clusters that left. One replica of the site does it, and only when something changed.

import { clustersGroup, federationKind, federationName } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { Controller, ReconcileResult } from '../../core/reconcile/controller.ts';
import { changeSource } from '../../core/reconcile/source.ts';
import { federationStatus } from '../members/federation-status.ts';
import type { LeavingMembers } from '../leaving/leaving-members.ts';
import type { MemberSet } from '../members/member-set.ts';

const path = `/apis/${clustersGroup}/${version}/${federationKind.plural}/${federationName}/status`;
/** The least time between two writes. Our own write comes back by the watch within it. */
const pauseMs = 1000;

export interface FederationControllerOptions {
  readonly members: Pick<MemberSet, 'list' | 'home' | 'onChange' | 'onHomeChange'>;
  readonly leaving: Pick<LeavingMembers, 'list' | 'onChange'>;
  /** The client of the home cluster. */
  readonly home: Pick<KubeClient, 'replace'>;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

export function federationController(options: FederationControllerOptions): Controller {
  const { members, leaving, home, clock } = options;
  const onChange = (listener: () => void): (() => void) => {
    const stops = [members, leaving].map((each) => each.onChange(listener));
    stops.push(members.onHomeChange(listener));
    return () => {
      for (const stop of stops) stop();
    };
  };
  let writtenMs = Number.NEGATIVE_INFINITY;
  let last: { readonly wanted: unknown; readonly version: unknown } | undefined;
  return {
    name: 'federation-status',
    lease: 'controller.federation-status',
    sources: [changeSource(onChange, [federationName])],
    reconcile: async (): Promise<ReconcileResult | undefined> => {
      const { federation, identity } = members.home;
      if (federation === undefined || identity?.isSupervisor !== true) return undefined;
      const status = federationStatus(
        federation,
        identity,
        members.list(),
        clock.now(),
        leaving.list(),
      );
      if (jsonEquals(status, federation.status)) return undefined;
      // An older CRD drops fields that it does not know.
      const isDropped = versionOf(federation) === last?.version && jsonEquals(status, last?.wanted);
      if (isDropped) return undefined;
      const waitMs = writtenMs + pauseMs - clock.monotonic();
      if (waitMs > 0) return { requeueAfterMs: waitMs };
      writtenMs = clock.monotonic();
      try {
        const written = await home.replace(path, { ...federation, status });
        last = { wanted: status, version: versionOf(written) };
        return undefined;
      } catch (error) {
        if (!(error instanceof KubeStatusError) || error.status !== 409) throw error;
        return { requeueAfterMs: pauseMs };
      }
    },
  };
}

const versionOf = ({ metadata }: KubeObject): unknown =>
  (metadata as { readonly resourceVersion?: unknown }).resourceVersion;
