// Measures how soon a name of a tagged machine is answered: from the creation of the VirtualMachine until dig has its
// address from BIND, through the Service of the machine, the copy in the cluster of ExternalDNS, and ExternalDNS
// itself. ExternalDNS compares once in each interval, so the same ExternalDNS with a Service that has its
// annotations from the beginning is the anchor. `node bench/vm-names.ts` prints one JSON object per line.

import { setTimeout as delay } from 'node:timers/promises';
import { type NameServer, startNameServer } from '../test/interop/bind.ts';
import { startEtcd } from '../test/interop/etcd.ts';
import { type ExternalDns, startExternalDns } from '../test/interop/external-dns.ts';
import type { KubeCluster } from '../test/interop/kube-cluster.ts';
import { League } from '../test/interop/league.ts';
import { changeMember, shop, systemNamespace } from '../test/interop/league-members.ts';
import { createService, findService } from '../test/interop/league-services.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { sized } from './size.ts';

const rounds = sized(20, 7, 1);
const zone = 'fed.example';
/** Of ExternalDNS as `startExternalDns` runs it. Its default is a minute. */
const intervalMs = 1000;
const annotation = 'external-dns.alpha.kubernetes.io/';
const group = 'clusters.hansa.dev/v1alpha1';
/** Far more than anything takes. */
const withinMs = 120_000;

const print = (one: Figure): void => console.log(JSON.stringify(one));

async function untilTrue(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await delay(5);
  }
}

const answers = (server: NameServer, name: string, address: string): Promise<void> =>
  untilTrue(`${name} is ${address}`, async () => (await server.dig(name)).join() === address);

/** A machine of south with a tag. Its federated Service has its name. */
const tagMachine = (south: KubeCluster, name: string, internalIP: string): Promise<unknown> =>
  south.create(`/apis/${group}/namespaces/${shop}/virtualmachines`, {
    apiVersion: group,
    kind: 'VirtualMachine',
    metadata: { name },
    spec: {
      tags: { 'svc.hansa.dev': `own-${name}`, 'svc.global.federated.hansa.dev': name },
      networkInterfaces: [{ internalIP }],
      ports: [{ name: 'http', port: 8080 }],
    },
  });

interface Times {
  /** Until the annotations are on the copy. */
  readonly annotated: number[];
  /** Until dig answers. */
  readonly answered: number[];
  /** Until dig answers for a Service that had its annotations from the beginning. */
  readonly plain: number[];
}

async function measure(south: KubeCluster, server: NameServer): Promise<Times> {
  const times: Times = { annotated: [], answered: [], plain: [] };
  for (let round = 0; round < rounds; round++) {
    // At different times of the interval.
    await delay((round * 370) % 1000);
    const [address, other] = [`10.2.8.${round + 1}`, `10.2.9.${round + 1}`];
    const name = `machine-${round}`;
    let begun = performance.now();
    await tagMachine(south, name, address);
    await untilTrue(`${name} is on its copy`, async () => {
      const copy = await findService(south, systemNamespace, name);
      return copy?.metadata.annotations?.[`${annotation}target`] === address;
    });
    times.annotated.push(performance.now() - begun);
    await answers(server, `${name}.${zone}`, address);
    times.answered.push(performance.now() - begun);
    await delay((round * 370) % 1000);
    begun = performance.now();
    const hostname = `plain-${round}.${zone}`;
    await createService(south, `plain-${round}`, {
      annotations: { [`${annotation}hostname`]: hostname, [`${annotation}target`]: other },
    });
    await answers(server, hostname, other);
    times.plain.push(performance.now() - begun);
  }
  return times;
}

const [etcd, server] = await Promise.all([startEtcd(), startNameServer(zone)]);
let league: League | undefined;
let externalDns: ExternalDns | undefined;
try {
  const flags = ['--kubernetes-dns-hostname', `{name}.${zone}`];
  league = await League.start({ etcd, sites: ['lubeck'], flags });
  const { north, south } = league.clusters;
  await changeMember(north, 'south', { dns: true });
  externalDns = await startExternalDns(south.kubeconfig, server);
  // The first name also waits for the start of ExternalDNS.
  await tagMachine(south, 'first', '10.2.7.1');
  await answers(server, `first.${zone}`, '10.2.7.1');
  const times = await measure(south, server);
  externalDns.check();
  const [annotated, answered, plain] = [
    median(times.annotated),
    median(times.answered),
    median(times.plain),
  ];
  const bench = 'league: tagged machine until';
  print({
    bench: `${bench} its name is on the copy for ExternalDNS`,
    value: rounded(annotated),
    unit: 'ms',
    ...spread(times.annotated),
    anchor: 'interval of ExternalDNS here, ms; its default is 60,000',
    anchorValue: intervalMs,
    ratio: rounded(intervalMs / annotated),
  });
  print({
    bench: `${bench} dig answers its name`,
    value: rounded(answered),
    unit: 'ms',
    ...spread(times.answered),
    anchor: 'a Service with the annotations of ExternalDNS until dig answers its name, ms',
    anchorValue: rounded(plain),
    ratio: rounded(plain / answered),
  });
} finally {
  await externalDns?.stop();
  await league?.stop();
  await server.stop();
  await etcd.stop();
}
