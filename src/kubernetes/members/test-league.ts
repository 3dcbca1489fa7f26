// Test fixture: a home cluster with a `Federation`, members on a virtual clock, and the MemberSet over them.

import { clustersGroup } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { silentLog } from '../../core/log/test-log.ts';
import type { MemberSettings } from './member.ts';
import { MemberSet, type MemberSetOptions } from './member-set.ts';
import { paths, TestCluster } from './test-cluster.ts';

export interface TestLeague {
  readonly clock: VirtualClock;
  readonly home: TestCluster;
  readonly members: MemberSet;
  /** By the address of the server. */
  readonly clusters: Map<string, TestCluster>;
  /** IDs, as `onChange` reported them. */
  readonly heard: string[];
  /** Writes `Federation` into the home cluster. */
  readonly list: (...members: readonly (string | Partial<MemberSettings>)[]) => void;
  /** The state of a member, as `Ready` or `Refused ClusterIDMismatch`. */
  readonly stateOf: (clusterID: string) => string | undefined;
}

export const clusterSet = 'hanse';

/** The home cluster has the ID `home`. Each other cluster is at https://ID.example. */
export function testLeague(
  ids: readonly string[] = [],
  options: Partial<MemberSetOptions> = {},
): TestLeague {
  const clock = new VirtualClock();
  const home = new TestCluster('home');
  home.claim('supervisor.hansa.dev', 'true');
  const clusters = new Map([
    ['https://home.example', home],
    ...ids.map((id) => [`https://${id}.example`, new TestCluster(id)] as const),
  ]);
  const members = new MemberSet({
    home,
    homeName: 'home',
    connector: {
      find: ({ clusterID, server = `https://${clusterID}.example` }) => {
        const client = clusters.get(server);
        return client === undefined
          ? { reason: 'NoServer', message: 'There is no such server.' }
          : { key: server, open: () => client };
      },
    },
    namespace: 'hansa-system',
    clock,
    random: new SeededRandom('league'),
    log: silentLog,
    unreachableAfterMs: 10_000,
    ...options,
  });
  const heard: string[] = [];
  members.onChange((clusterID) => void heard.push(clusterID));
  return {
    clock,
    home,
    members,
    clusters,
    heard,
    list: (...listed) =>
      home.put(paths.federations, {
        ...(home.find(paths.federations, 'federation') as object | undefined),
        apiVersion: `${clustersGroup}/${version}`,
        kind: 'Federation',
        metadata: { name: 'federation', generation: 1 },
        spec: {
          clusterSet,
          members: listed.map((each) => (typeof each === 'string' ? { clusterID: each } : each)),
        },
      }),
    stateOf: (clusterID) => {
      const member = members.get(clusterID);
      if (member === undefined) return undefined;
      const { state, reason } = member.state;
      return state === 'Ready' || state === 'Connecting' ? state : `${state} ${reason}`;
    },
  };
}
