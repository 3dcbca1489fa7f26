// Everything that a cluster contains, of all kinds that its API server lists, so that a test can compare before and
// after.

import type { KubeApiserver } from './kube-apiserver.ts';

interface Discovery {
  readonly groups?: readonly { readonly preferredVersion: { readonly groupVersion: string } }[];
  readonly resources?: readonly { readonly name: string; readonly verbs: readonly string[] }[];
}

interface Item {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: object;
    readonly annotations?: object;
  };
  readonly spec?: object;
  readonly data?: object;
  readonly status?: { readonly conditions?: readonly { readonly type: string }[] };
}

/** Kubernetes changes these all the time. */
const restless = new Set(['events', 'componentstatuses']);
const ownNamespaces = new Set(['kube-system', 'kube-node-lease']);

/** A line for each object, with what users see of it. Without the namespaces of Kubernetes and `except`. */
export async function inventory(
  kube: Pick<KubeApiserver, 'client'>,
  except: string,
): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const path of await collections(kube)) {
    const plural = path.slice(path.lastIndexOf('/') + 1);
    // A kind may end between discovery and the list.
    const { items = [] } = (await read<{ readonly items?: readonly Item[] }>(kube, path)) ?? {};
    for (const { metadata, spec, data, status } of items) {
      const { namespace = '', name, labels, annotations } = metadata;
      if (ownNamespaces.has(namespace) || namespace === except) continue;
      if (plural === 'namespaces' && name === except) continue;
      const conditions = plural === 'services' ? status?.conditions?.map(({ type }) => type) : [];
      const content = JSON.stringify([labels, annotations, spec, data, conditions]);
      lines.push(`${plural} ${namespace}/${name} ${content}`);
    }
  }
  return lines.toSorted();
}

async function collections(kube: Pick<KubeApiserver, 'client'>): Promise<readonly string[]> {
  const { groups = [] } = (await read<Discovery>(kube, '/apis')) ?? {};
  const versions = [
    '/api/v1',
    ...groups.map(({ preferredVersion }) => `/apis/${preferredVersion.groupVersion}`),
  ];
  const found: string[] = [];
  for (const version of versions) {
    const { resources = [] } = (await read<Discovery>(kube, version)) ?? {};
    for (const { name, verbs } of resources) {
      if (verbs.includes('list') && !restless.has(name)) found.push(`${version}/${name}`);
    }
  }
  return found;
}

async function read<T>({ client }: Pick<KubeApiserver, 'client'>, path: string) {
  const { status, text } = await client.send({ method: 'GET', path });
  return status === 200 ? (JSON.parse(text) as T) : undefined;
}
