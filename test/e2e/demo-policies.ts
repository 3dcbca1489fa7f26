// The steps of `make demo DEMO=clusters` about federated policies. No CNI runs in these clusters, so the steps show
// objects, and nothing about traffic.

import type { KubeCluster } from '../interop/kube-cluster.ts';
import type { Ran } from './daemon.ts';
import { seconds, succeeds, tell } from './narration.ts';
import { until } from './until.ts';

export interface PolicyScene {
  readonly north: KubeCluster;
  readonly south: KubeCluster;
  readonly west: KubeCluster;
  /** Runs `hansa` at a site. */
  readonly site: (...args: readonly string[]) => Promise<Ran>;
  readonly kubectl: (cluster: KubeCluster, args: readonly string[], stdin?: string) => Promise<Ran>;
}

const policy = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'web', namespace: 'shop' },
  spec: {
    podSelector: { matchLabels: { app: 'web' } },
    ingress: [{ from: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }],
  },
};

interface Policies {
  readonly items: readonly {
    readonly metadata: { readonly name: string };
    readonly spec: { readonly podSelector: { readonly matchLabels?: { readonly app?: string } } };
  }[];
}

/** Until the policy of all clusters is for pods with this label `app`, or is gone. */
async function untilPolicies(
  clusters: readonly KubeCluster[],
  app: string | undefined,
): Promise<void> {
  const path = '/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies';
  let found: readonly (string | undefined)[] = [];
  await until(
    async () => {
      const lists = await Promise.all(clusters.map((each) => each.get<Policies>(path)));
      found = lists.map(({ items }) => {
        const own = items.find(({ metadata }) => metadata.name === 'web');
        return own?.spec.podSelector.matchLabels?.app;
      });
      return found.every((each) => each === app);
    },
    () => `the policies are for ${String(app)}, not ${found.map(String).join()}`,
  );
}

export async function tellPolicies({
  north,
  south,
  west,
  site,
  kubectl,
}: PolicyScene): Promise<void> {
  const all = [north, south, west];
  await tell('a NetworkPolicy of south is annotated', async () => {
    await succeeds(kubectl(south, ['apply', '-f', '-'], JSON.stringify(policy)));
    const start = performance.now();
    const annotation = 'federated.anp.antreaplus.vmware.com=true';
    await succeeds(kubectl(south, ['annotate', 'networkpolicy', 'web', '-n', 'shop', annotation]));
    await untilPolicies(all, 'web');
    const took = seconds(performance.now() - start);
    await until(async () => {
      const { stdout } = await site('policy', 'list');
      return /^shop\/web +NetworkPolicy +south +\S+ +3\/3 +Replicated/m.test(stdout);
    }, 'hansa policy list shows that all clusters have it');
    return `shop/web is in all three clusters after ${took}`;
  });
  await tell('west edits the policy, and north deletes it', async () => {
    const patch = '{"spec":{"podSelector":{"matchLabels":{"app":"other"}}}}';
    const edit = ['patch', 'networkpolicy', 'web', '-n', 'shop', '--type', 'merge', '-p', patch];
    await succeeds(kubectl(west, edit));
    await untilPolicies(all, 'other');
    const start = performance.now();
    await succeeds(kubectl(north, ['delete', 'networkpolicy', 'web', '-n', 'shop']));
    await untilPolicies(all, undefined);
    return `all have the edit, and none the policy ${seconds(performance.now() - start)} after its end`;
  });
}
