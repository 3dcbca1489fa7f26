// The two servers that the benchmarks compare: a Hansa site, and kube-apiserver with etcd. Both get
// the same objects and the same requests.

import { crdsOf } from '../test/interop/crds.ts';
import { startKubeApiserver } from '../test/interop/kube-apiserver.ts';
import { startSite } from '../test/interop/site.ts';
import { WireClient } from '../test/interop/wire.ts';

export interface Rival {
  readonly name: 'hansa' | 'kube-apiserver';
  readonly url: string;
  readonly ca: string;
  readonly token: string;
  /** Everything that works for an answer: of Hansa one process, of the other two. */
  readonly pids: readonly number[];
  readonly client: WireClient;
  /** From starting the first process until ready. */
  readonly startedWithinMs: number;
  stop(): Promise<void>;
}

export async function startHansa(): Promise<Rival> {
  // One caller writes as fast as it can, which no caller of a real site may.
  const site = await startSite({ flags: ['--limits-records-per-second=0'] });
  const { url, ca, token } = site;
  return {
    name: 'hansa',
    url,
    ca,
    token,
    pids: [site.pid],
    client: site.client,
    startedWithinMs: site.readyWithinMs,
    stop: () => site.stop(),
  };
}

export interface KubeRival extends Rival {
  /** Path of a file. */
  readonly kubeconfig: string;
}

export async function startKube(): Promise<KubeRival> {
  const started = performance.now();
  const kube = await startKubeApiserver();
  const startedWithinMs = performance.now() - started;
  await kube.install(crdsOf());
  const { url, ca, token, client, kubeconfig } = kube;
  return {
    name: 'kube-apiserver',
    url,
    ca,
    token,
    kubeconfig,
    pids: [kube.pids.apiserver, kube.pids.etcd],
    client,
    startedWithinMs,
    stop: () => kube.stop(),
  };
}

export const roles = '/apis/hansa.dev/v1alpha1/roles';

/** An ordinary object: about 300 bytes as it is sent, about 700 as it is stored. */
export function role(name: string): string {
  return JSON.stringify({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Role',
    metadata: { name, labels: { 'bench.hansa.dev/run': 'seed' } },
    spec: {
      rules: [
        { kinds: ['Role', 'RoleBinding'], verbs: ['get', 'list', 'watch'] },
        { kinds: ['Site'], verbs: ['get'], names: ['lubeck', 'bruges', 'novgorod'] },
      ],
    },
  });
}

/**
 * The collection that LIST returns: `count` objects, the same on both sides. A site has roles of
 * its own from the start; the other side is given them too.
 */
export async function seed(rivals: readonly Rival[], count: number): Promise<void> {
  const own = new Map<string, string>();
  for (const rival of rivals) for (const [name, body] of await existing(rival)) own.set(name, body);
  for (let index = 0; own.size < count; index += 1) {
    const name = `seed-${String(index).padStart(4, '0')}`;
    own.set(name, role(name));
  }
  for (const rival of rivals) {
    const there = new Set((await existing(rival)).map(([name]) => name));
    for (const [name, body] of own) {
      if (there.has(name)) continue;
      const answer = await rival.client.send({ method: 'POST', path: roles, body });
      if (answer.status !== 201) throw new Error(`${rival.name} refused a role: ${answer.text}`);
    }
  }
}

async function existing(rival: Rival): Promise<[name: string, body: string][]> {
  const answer = await rival.client.send({ method: 'GET', path: roles });
  const { items } = JSON.parse(answer.text) as {
    items: { apiVersion: string; kind: string; metadata: { name: string }; spec: unknown }[];
  };
  return items.map(({ apiVersion, kind, metadata: { name }, spec }) => [
    name,
    JSON.stringify({ apiVersion, kind, metadata: { name }, spec }),
  ]);
}
