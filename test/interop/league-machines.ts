// Tests for the suite of federated Services about machines outside Kubernetes: pods find tagged machines and
// NativeServices by name and reach them, in their own cluster and in others.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../e2e/until.ts';
import { backendPort } from './host-programs.ts';
import type { KubeCluster } from './kube-cluster.ts';
import type { League } from './league.ts';
import { clusterNames, shop, systemNamespace } from './league-members.ts';
import {
  createService,
  findService,
  namespacedAnnotation,
  publish,
  servicePath,
  slicesPath,
  untilCopies,
} from './league-services.ts';
import { backendText, type ReachScene } from './reach-scene.ts';

const group = 'clusters.hansa.dev/v1alpha1';
const machinesPath = `/apis/${group}/namespaces/${shop}/virtualmachines`;
const vmAnnotation = 'vm.antreaplus.vmware-tanzu.com';

interface MachineObject {
  readonly status?: {
    readonly service?: string;
    readonly conditions?: readonly { readonly status: string; readonly reason: string }[];
  };
}

interface MachineOptions {
  readonly tags: Readonly<Record<string, string>>;
  readonly address?: string;
  readonly id?: string;
}

async function addMachine(
  cluster: KubeCluster,
  name: string,
  { tags, address, ...more }: MachineOptions,
): Promise<void> {
  const networkInterfaces = address === undefined ? [] : [{ internalIP: address }];
  await cluster.create(machinesPath, {
    apiVersion: group,
    kind: 'VirtualMachine',
    metadata: { name },
    spec: {
      ...more,
      tags,
      networkInterfaces,
      ports: [{ name: 'http', port: backendPort }],
    },
  });
}

/** As `web True Published`. */
async function toldIn(cluster: KubeCluster, name: string): Promise<string> {
  const { status } = await cluster.get<MachineObject>(`${machinesPath}/${name}`);
  const [condition] = status?.conditions ?? [];
  return `${status?.service ?? '-'} ${condition?.status} ${condition?.reason}`;
}

async function untilTold(cluster: KubeCluster, name: string, told: string): Promise<void> {
  let found = '';
  await until(
    async () => {
      found = await toldIn(cluster, name);
      return found === told;
    },
    () => `${name} in ${cluster.name} is told ${told}, not ${found}`,
  );
}

/** The endpoints of a Service of machines, as `ADDRESS HOSTNAME`. */
async function endpointsOf(cluster: KubeCluster, service: string): Promise<readonly string[]> {
  interface Slices {
    readonly items: readonly {
      readonly endpoints:
        | readonly { readonly addresses: readonly string[]; readonly hostname?: string }[]
        | null;
    }[];
  }
  const selector = encodeURIComponent(`kubernetes.io/service-name=${service}`);
  const { items } = await cluster.get<Slices>(`${slicesPath(shop)}?labelSelector=${selector}`);
  return items
    .flatMap(({ endpoints }) => endpoints ?? [])
    .map(({ addresses, hostname }) => `${addresses.join()} ${hostname}`)
    .toSorted();
}

export function machineTests(scene: () => League, reach: () => Promise<ReachScene>): void {
  const clusters = () => scene().clusters;
  const all = (): readonly KubeCluster[] => clusterNames.map((name) => clusters()[name]);

  test('pods reach tagged machines and NativeServices by name, in the same cluster and in others', async () => {
    const { south } = clusters();
    const { callers, addresses } = await reach();
    const [address = ''] = addresses;
    const tags = {
      'svc.antreaplus.vmware.com': 'press',
      'svc.global.federated.antreaplus.vmware-tanzu.com': 'print',
    };
    await addMachine(south, 'press-1', { tags, address });
    await untilTold(south, 'press-1', 'press True Published');
    const own = callers.find(({ cluster }) => cluster === south);
    assert.equal(await own?.call('press', shop, 4, backendPort), backendText);
    await south.create(`/apis/${group}/namespaces/${shop}/nativeservices`, {
      apiVersion: group,
      kind: 'NativeService',
      metadata: { name: 'ledger', annotations: { 'svc.global.federated.hansa.dev': 'ledger' } },
      spec: { networkInterfaces: [{ externalIP: address }], ports: [{ port: backendPort }] },
    });
    for (const name of ['print', 'ledger']) {
      const answers = await Promise.all(
        callers.map((caller) => caller.call(name, systemNamespace, 4, backendPort)),
      );
      assert.deepEqual(new Set(answers), new Set([backendText]), name);
    }
    await south.send('DELETE', `${machinesPath}/press-1`);
    await untilCopies(all(), 'print', undefined);
  });

  test('a machine with an empty tag has a Service with the name of its ID', async () => {
    const { north } = clusters();
    await addMachine(north, 'nameless', {
      id: 'i-0123456789abcdef0',
      tags: { 'svc.hansa.dev': '' },
      address: '10.1.60.1',
    });
    await untilTold(north, 'nameless', 'i-0123456789abcdef0 True Published');
    const service = await findService(north, shop, 'i-0123456789abcdef0');
    assert.equal(service?.metadata.annotations?.[vmAnnotation], 'i-0123456789abcdef0');
    await north.send('DELETE', `${machinesPath}/nameless`);
    await until(
      async () => (await findService(north, shop, 'i-0123456789abcdef0')) === undefined,
      'the Service goes with its last machine',
    );
  });

  test('machines with one name in their tags share a Service, which goes with the last of them', async () => {
    const { north, south } = clusters();
    const tags = { 'svc.hansa.dev': 'crew', 'svc.global.federated.hansa.dev': 'crew' };
    await addMachine(north, 'crew-1', { tags, address: '10.1.64.1' });
    await addMachine(north, 'crew-2', { tags, address: '10.1.64.2' });
    for (const name of ['crew-1', 'crew-2']) await untilTold(north, name, 'crew True Published');
    assert.deepEqual(await endpointsOf(north, 'crew'), ['10.1.64.1 crew-1', '10.1.64.2 crew-2']);
    const both = ['10.1.64.1', '10.1.64.2'].map((address) => `${address}:${backendPort}`);
    await untilCopies([south], 'crew', both);
    await north.send('DELETE', `${machinesPath}/crew-1`);
    await untilCopies([south], 'crew', both.slice(1));
    assert.ok(await findService(north, shop, 'crew'));
    await north.send('DELETE', `${machinesPath}/crew-2`);
    await untilCopies([south], 'crew', undefined);
    await until(async () => (await findService(north, shop, 'crew')) === undefined, 'it is gone');
  });

  test("a machine never takes a user's Service", async () => {
    const { north } = clusters();
    const users = await createService(north, 'mine', { spec: { selector: { app: 'mine' } } });
    await addMachine(north, 'taker', { tags: { 'svc.hansa.dev': 'mine' }, address: '10.1.61.1' });
    await untilTold(north, 'taker', '- False ServiceConflict');
    const found = await findService(north, shop, 'mine');
    assert.deepEqual(found?.metadata, users.metadata);
    await north.send('DELETE', servicePath(shop, 'mine'));
    await untilTold(north, 'taker', 'mine True Published');
    await north.send('DELETE', `${machinesPath}/taker`);
  });

  test('machines without an address, with two tags or with a name or address of another are told so', async () => {
    const { north, south } = clusters();
    await publish(south, 'lender', ['10.2.62.9'], {
      annotations: { [namespacedAnnotation]: 'lent' },
    });
    await untilCopies([north], 'lent', ['10.2.62.9:8080'], shop);
    const fleet = { 'svc.hansa.dev': 'fleet' };
    const bad = {
      lost: { tags: fleet },
      torn: { tags: { ...fleet, 'svc.antreaplus.vmware.com': 'other' }, address: '10.1.62.2' },
      twin: { tags: fleet, address: '10.1.62.1' },
      // The copy of a federated Service has this name.
      thief: { tags: { 'svc.hansa.dev': 'lent' }, address: '10.1.62.3' },
    };
    await addMachine(north, 'good', { tags: fleet, address: '10.1.62.1' });
    for (const [name, options] of Object.entries(bad)) await addMachine(north, name, options);
    await untilTold(north, 'good', 'fleet True Published');
    await untilTold(north, 'lost', '- False NoAddress');
    await untilTold(north, 'torn', '- False ConflictingTags');
    await untilTold(north, 'twin', 'fleet True AddressInUse');
    await untilTold(north, 'thief', '- False ServiceConflict');
    assert.deepEqual(await endpointsOf(north, 'fleet'), ['10.1.62.1 good']);
    assert.equal(await findService(north, shop, 'other'), undefined);
    await untilCopies([north], 'lent', ['10.2.62.9:8080'], shop);
    for (const name of ['good', ...Object.keys(bad)]) {
      await north.send('DELETE', `${machinesPath}/${name}`);
    }
    await south.send('DELETE', servicePath(shop, 'lender'));
  });

  test('a name of 253 characters becomes a legal one, or is refused with a reason', async () => {
    const { north } = clusters();
    const long = `${'m'.repeat(62)}.`.repeat(4) + 'm';
    assert.equal(long.length, 253);
    await addMachine(north, long, { tags: { 'svc.hansa.dev': '' }, address: '10.1.63.1' });
    let told = '';
    await until(async () => {
      told = await toldIn(north, long);
      return told.endsWith(' True Published');
    }, 'the machine has a Service');
    const [service = ''] = told.split(' ');
    assert.match(service, /^m{52}-[0-9a-f]{10}$/);
    assert.deepEqual(await endpointsOf(north, service), [`10.1.63.1 ${service}`]);
    await addMachine(north, 'wordy', { tags: { 'svc.hansa.dev': long }, address: '10.1.63.2' });
    await untilTold(north, 'wordy', '- False IllegalName');
    const tags = { 'svc.hansa.dev': 'plain', 'svc.global.federated.hansa.dev': long };
    await addMachine(north, 'far', { tags, address: '10.1.63.3' });
    await untilTold(north, 'far', 'plain True IllegalName');
    assert.equal(
      (await findService(north, shop, 'plain'))?.metadata.annotations?.[vmAnnotation],
      'plain',
    );
    for (const name of [long, 'wordy', 'far'])
      await north.send('DELETE', `${machinesPath}/${name}`);
  });

  test('the API server refuses machines with bad addresses, ports and tags', async () => {
    const { north } = clusters();
    for (const spec of [
      { networkInterfaces: [{}] },
      { networkInterfaces: [{ internalIP: 'not an address' }] },
      { ports: [{ port: 0 }] },
      { ports: [{ port: 80, protocol: 'HTTP' }] },
      { tags: { 'svc.hansa.dev': 'x'.repeat(1025) } },
      { id: '' },
    ]) {
      const { status, text } = await north.client.send({
        method: 'POST',
        path: machinesPath,
        body: JSON.stringify({
          apiVersion: group,
          kind: 'VirtualMachine',
          metadata: { name: 'bad' },
          spec,
        }),
      });
      assert.equal(status, 422, text);
    }
  });
}
