// The volumes of a Pod for the test kubelet: ConfigMaps, Secrets, ServiceAccount tokens, empty folders and claims, as
// folders of this machine that a container mounts.

import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { KubeCluster } from './kube-cluster.ts';

export interface Volume {
  readonly name: string;
  readonly configMap?: { readonly name: string };
  readonly secret?: { readonly secretName: string };
  readonly emptyDir?: object;
  readonly persistentVolumeClaim?: { readonly claimName: string };
}

export interface VolumeMount {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly?: boolean;
}

export interface PodIdentity {
  readonly namespace: string;
  readonly serviceAccountName?: string | undefined;
}

/** A folder of this machine at a path of a container. */
export interface Mount {
  readonly source: string;
  readonly target: string;
}

const accountPath = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Makes the folders of the volumes, by name. `claims` outlives the Pod. Rejects where an object is missing. */
export async function makeVolumes(
  cluster: KubeCluster,
  { namespace }: PodIdentity,
  volumes: readonly Volume[],
  { folder, claims }: { readonly folder: string; readonly claims: string },
): Promise<ReadonlyMap<string, string>> {
  const made = new Map<string, string>();
  for (const volume of volumes) {
    made.set(volume.name, await makeVolume(cluster, namespace, volume, folder, claims));
  }
  return made;
}

async function makeVolume(
  cluster: KubeCluster,
  namespace: string,
  volume: Volume,
  folder: string,
  claims: string,
): Promise<string> {
  const { name, configMap, secret, persistentVolumeClaim, emptyDir } = volume;
  const path =
    persistentVolumeClaim === undefined
      ? join(folder, name)
      : join(claims, `${namespace}-${persistentVolumeClaim.claimName}`);
  await mkdir(path, { recursive: true });
  const from = `/api/v1/namespaces/${namespace}`;
  if (configMap !== undefined) {
    const { data = {} } = await cluster.get<{ data?: Record<string, string> }>(
      `${from}/configmaps/${configMap.name}`,
    );
    for (const [key, text] of Object.entries(data)) await writeFile(join(path, key), text);
  } else if (secret !== undefined) {
    const { data = {} } = await cluster.get<{ data?: Record<string, string> }>(
      `${from}/secrets/${secret.secretName}`,
    );
    for (const [key, text] of Object.entries(data)) {
      await writeFile(join(path, key), Buffer.from(text, 'base64'));
    }
  } else if (persistentVolumeClaim === undefined && emptyDir === undefined) {
    throw new Error(`the test kubelet does not know the volume ${JSON.stringify(volume)}`);
  }
  return path;
}

/**
 * The credential of the Pod, which the admission plugin ServiceAccount and a projected volume give it elsewhere. The
 * API servers of tests run without that plugin.
 */
export async function accountMount(
  cluster: KubeCluster,
  { namespace, serviceAccountName = 'default' }: PodIdentity,
  folder: string,
): Promise<Mount> {
  const source = await mkdtemp(join(folder, 'account-'));
  const { status } = await cluster.create<{ status: { token: string } }>(
    `/api/v1/namespaces/${namespace}/serviceaccounts/${serviceAccountName}/token`,
    {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 7200 },
    },
  );
  await writeFile(join(source, 'token'), status.token, { mode: 0o600 });
  await writeFile(join(source, 'ca.crt'), cluster.ca);
  await writeFile(join(source, 'namespace'), namespace);
  return { source, target: accountPath };
}

/**
 * A script for `sh -c` in a new mount namespace: mounts all, and then runs its arguments. /run and /tmp are the
 * container's own. The last mount hides the folders that the others come from.
 */
export function mountScript(mounts: readonly Mount[]): string {
  const depth = ({ target }: Mount): number => (target.startsWith('/tmp') ? 1 : 0);
  const lines = mounts
    .toSorted((a, b) => depth(a) - depth(b) || a.target.length - b.target.length)
    .flatMap(({ source, target }) => [
      target.startsWith('/etc/') ? completed(target) : `mkdir -p '${target}'`,
      `mount --bind '${source}' '${target}'`,
    ]);
  return ['set -e', 'mount -t tmpfs tmpfs /run', ...lines, 'exec "$@"'].join('\n');
}

/** Some machines have a link to a file of /run there, which the container does not have. */
function completed(file: string): string {
  const real = `"$(readlink -m '${file}')"`;
  return `[ -e '${file}' ] || { mkdir -p "$(dirname ${real})" && : > ${real}; }`;
}
