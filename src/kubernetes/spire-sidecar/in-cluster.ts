// The API server of the cluster in which this process runs, and the credential that Kubernetes mounts into its Pod.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../core/clock/clock.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { HansaError } from '../../core/errors/error.ts';
import { HttpKubeClient } from '../../core/kube/http-kube-client.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';

const folder = '/var/run/secrets/kubernetes.io/serviceaccount';
/** The kubelet replaces the token long before it expires. */
const tokenForMs = 60_000;

export interface InClusterConnection {
  readonly kube: KubeClient;
  readonly namespace: string;
}

/** Throws HANSA_USAGE outside of a Pod. */
export function connectInCluster(
  env: Readonly<Record<string, string | undefined>>,
  clock: Clock,
): InClusterConnection {
  const host = env['KUBERNETES_SERVICE_HOST'] ?? '';
  const port = env['KUBERNETES_SERVICE_PORT'] ?? '443';
  if (host === '') {
    throw new HansaError(
      'HANSA_USAGE',
      'This command runs in a Pod of a SPIRE server, and KUBERNETES_SERVICE_HOST is not set. The operator starts it.',
    );
  }
  const server = new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`);
  let token = '';
  let readAtMs = Number.NEGATIVE_INFINITY;
  const kube = new HttpKubeClient({
    endpoint: { server, caBundle: read('ca.crt') },
    credentials: {
      current: () => {
        if (clock.monotonic() - readAtMs > tokenForMs) {
          token = read('token').trim();
          readAtMs = clock.monotonic();
        }
        return { type: 'token', token };
      },
      refused: () => {
        readAtMs = Number.NEGATIVE_INFINITY;
      },
    },
    clock,
    maxConnections: 4,
  });
  return { kube, namespace: read('namespace').trim() };
}

function read(name: string): string {
  try {
    return readFileSync(join(folder, name), 'utf8');
  } catch (error) {
    throw new HansaError(
      'HANSA_USAGE',
      `Cannot read ${join(folder, name)}: ${fileProblem(error)}. The Pod needs a mounted ServiceAccount token.`,
    );
  }
}
