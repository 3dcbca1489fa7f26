// How long it takes until clients in all clusters reach a Service that was annotated: by its name in the DNS of
// their cluster, and by TCP through its federated ClusterIP. A new Service of one cluster is the anchor: kube-proxy
// writes rules at most every 100 ms here, and every second by default, so the endpoints of a new Service wait too.

import { ReachScene } from '../test/interop/reach-scene.ts';
import type { League } from '../test/interop/league.ts';
import { shop, systemNamespace } from '../test/interop/league-members.ts';
import { globalAnnotation, publish, servicePath } from '../test/interop/league-services.ts';
import type { ServiceCaller } from '../test/interop/service-callers.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { sized } from './size.ts';

const rounds = sized(20, 7, 1);

/** For clusters with kube-proxy and CoreDNS. */
export async function measureReach({ clusters }: League): Promise<readonly Figure[]> {
  const { south } = clusters;
  const scene = await ReachScene.start(clusters);
  const inSouth = scene.callers.find(({ cluster }) => cluster === south) as ServiceCaller;
  const times = { found: [], reached: [], write: [], plain: [] } as Record<
    'found' | 'reached' | 'write' | 'plain',
    number[]
  >;
  try {
    for (let round = 0; round < rounds; round++) {
      const name = `reached-${round}`;
      const plain = since();
      await publish(south, name, scene.addresses, { annotations: {} });
      await inSouth.call(name, shop);
      times.plain.push(plain());
      const path = servicePath(shop, name);
      const annotated = since();
      await south.send('PATCH', path, { metadata: { annotations: { [globalAnnotation]: name } } });
      times.write.push(annotated());
      await Promise.all(scene.callers.map((caller) => caller.find(name, systemNamespace)));
      times.found.push(annotated());
      await scene.callAll(name);
      times.reached.push(annotated());
    }
  } finally {
    await scene.stop();
  }
  const [found, reached, write, plain] = [
    median(times.found),
    median(times.reached),
    median(times.write),
    median(times.plain),
  ];
  const bench = 'league: annotated Service until';
  return [
    {
      bench: `${bench} the DNS of the last of 3 clusters has it`,
      value: rounded(found),
      unit: 'ms',
      ...spread(times.found),
      anchor: 'ms for the write of the annotation',
      anchorValue: rounded(write),
      atMost: 1000,
    },
    {
      bench: `${bench} clients in the last of 3 clusters reach it`,
      value: rounded(reached),
      unit: 'ms',
      ...spread(times.reached),
      anchor: 'a new Service of one cluster until a client there reaches it, ms',
      anchorValue: rounded(plain),
      ratio: rounded(plain / reached),
      atMost: 1000,
    },
    {
      bench: `${bench} clients in the last of 3 clusters reach it, over a write`,
      value: rounded(reached / write),
      unit: '× a write',
      anchor: 'ms for the write of the annotation',
      anchorValue: rounded(write),
    },
  ];
}

function since(): () => number {
  const begunMs = performance.now();
  return () => performance.now() - begunMs;
}
