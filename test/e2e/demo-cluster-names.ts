// Steps of the demo of clusters about what is outside them: a machine becomes a Service, its federated Service gets a
// DNS name, and an object that is applied in a cluster appears at the site.

import { join } from 'node:path';
import { startNameServer, whyNoBind } from '../interop/bind.ts';
import { startExternalDns } from '../interop/external-dns.ts';
import type { KubeCluster } from '../interop/kube-cluster.ts';
import { ensureTool } from '../tools/build.ts';
import { type Ran, repository } from './daemon.ts';
import { expect, seconds, succeeds, tell } from './narration.ts';
import { until } from './until.ts';

export interface NamesScene {
  /** Has the machine. */
  readonly west: KubeCluster;
  /** Carries the name: it is the first of all clusters. */
  readonly north: KubeCluster;
  /** The site takes over objects from it. */
  readonly south: KubeCluster;
  /** Of the machine. */
  readonly address: string;
  readonly site: (...args: readonly string[]) => Promise<Ran>;
  readonly kubectl: (cluster: KubeCluster, args: readonly string[], stdin?: string) => Promise<Ran>;
  /** What answers behind a Service, asked from a machine of this cluster. Undefined where nothing can be called. */
  readonly call:
    | ((cluster: KubeCluster, name: string, port: number) => Promise<string>)
    | undefined;
}

const zone = 'fed.example';
const machine = 'virtualmachine/press-1';

export async function tellNames(scene: NamesScene): Promise<void> {
  await tellMachine(scene);
  await tellName(scene);
  await tellGitOps(scene);
}

async function tellMachine({ west, north, address, kubectl, call }: NamesScene): Promise<void> {
  await tell('west has a machine outside Kubernetes, with a tag', async () => {
    const object = {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name: 'press-1', namespace: 'shop' },
      spec: {
        tags: { 'svc.hansa.dev': 'press', 'svc.global.federated.hansa.dev': 'print' },
        networkInterfaces: [{ internalIP: address }],
        ports: [{ name: 'http', port: 8080 }],
      },
    };
    await succeeds(kubectl(west, ['apply', '-f', '-'], JSON.stringify(object)));
    const wait = ['wait', machine, '-n', 'shop', '--for=condition=Published', '--timeout=60s'];
    await succeeds(kubectl(west, wait));
    const copy = ['wait', 'service/print', '-n', 'hansa-system', '--for=create', '--timeout=60s'];
    await succeeds(kubectl(north, copy));
    if (call === undefined) return 'it is the Service press in west, and print in all clusters';
    const answer = await call(north, 'print', 8080);
    expect(answer === 'west', `a client of north reached ${answer}`);
    return 'a client in north calls print, and reaches the machine';
  });
}

/** With BIND and ExternalDNS, dig answers. Without them, the annotations for ExternalDNS are shown. */
async function tellName({ west, north, address, kubectl }: NamesScene): Promise<void> {
  const name = `print.${zone}`;
  const hasDns = whyNoBind() === false && (await ensureTool('external-dns')).path !== undefined;
  await tell('a DNS name for clients outside the clusters', async () => {
    const begun = performance.now();
    const words = [
      'annotate',
      'service',
      'press',
      '-n',
      'shop',
      `clusters.hansa.dev/hostname=${name}`,
    ];
    await succeeds(kubectl(west, words));
    const path = 'jsonpath={.metadata.annotations.external-dns\\.alpha\\.kubernetes\\.io/target}';
    const target = ['wait', 'service/print', '-n', 'hansa-system', `--for=${path}=${address}`];
    await succeeds(kubectl(north, [...target, '--timeout=60s']));
    if (!hasDns) return `ExternalDNS in north would publish ${name} as ${address}`;
    const server = await startNameServer(zone);
    const externalDns = await startExternalDns(north.kubeconfig, server);
    try {
      await until(async () => (await server.dig(name)).join() === address, `dig answers ${name}`);
      const took = seconds(performance.now() - begun);
      await succeeds(kubectl(west, ['delete', machine, '-n', 'shop']));
      await until(async () => (await server.dig(name)).length === 0, `${name} is gone`);
      return `dig answers after ${took}, and not after the machine is deleted`;
    } finally {
      await externalDns.stop();
      await server.stop();
    }
  });
  // Its objects must not stand in the way when west leaves.
  await succeeds(kubectl(west, ['delete', machine, '-n', 'shop', '--ignore-not-found']));
}

async function tellGitOps({ south, site, kubectl }: NamesScene): Promise<void> {
  await tell('south is marked: the site takes over join tokens from it', async () => {
    await succeeds(site('apply', '-f', join(repository, 'examples/gitops/role.yaml')));
    const mark = ['--kind', 'JoinToken', '--role', 'gitops', '--kubeconfig', south.kubeconfig];
    await succeeds(site('cluster', 'sync', 'south', ...mark, '--yes'));
    const token = (name: string, more: object) => ({
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'JoinToken',
      metadata: { name },
      spec: {
        method: 'spiffe',
        roles: ['bot'],
        botName: name,
        spiffe: { allow: [{ spiffeID: 'spiffe://visby.example/ci/*' }] },
        ...more,
      },
    });
    const objects = [token('ci', {}), token('machines', { roles: ['agent'], botName: undefined })];
    const list = { apiVersion: 'v1', kind: 'List', items: objects };
    await succeeds(kubectl(south, ['apply', '-f', '-'], JSON.stringify(list)));
    const wait = (what: string, goal: string) =>
      succeeds(kubectl(south, ['wait', what, `--for=condition=${goal}`, '--timeout=60s']));
    await wait('jointoken/ci', 'Accepted');
    await succeeds(site('get', 'jointoken', 'ci'));
    await wait('jointoken/machines', 'Accepted=False');
    const { code } = await site('get', 'jointoken', 'machines');
    expect(code !== 0, 'the site has what the role does not allow');
    await succeeds(kubectl(south, ['delete', 'jointoken', 'ci', 'machines']));
    await succeeds(site('wait', 'jointoken', 'ci', '--for=delete'));
    return 'applied, accepted, deleted; refused beyond its role';
  });
}
