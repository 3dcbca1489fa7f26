// The reflector in a process of its own, as the informer of test/tools/client-go is: follows the
// EndpointSlices of a namespace, and prints "synced N", and "seen" after each object named *-last.
//
//   node bench/reflector-follower.ts KUBECONFIG NAMESPACE

import { readFileSync } from 'node:fs';
import { silentLog } from '../src/core/log/test-log.ts';
import { systemClock, systemRandom } from '../src/core/clock/system.ts';
import { HttpKubeClient } from '../src/core/kube/http-kube-client.ts';
import type { KubeObject } from '../src/core/kube/kube-client.ts';
import { kubePath } from '../src/core/kube/kube-path.ts';
import { Reflector } from '../src/core/kube/reflector/reflector.ts';

interface EndpointSlice extends KubeObject {
  readonly metadata: KubeObject['metadata'] & { readonly labels: Readonly<Record<string, string>> };
}

const [file = '', namespace = ''] = process.argv.slice(2);
const { clusters, users } = JSON.parse(readFileSync(file, 'utf8')) as {
  readonly clusters: readonly [
    { cluster: { server: string; 'certificate-authority-data': string } },
  ];
  readonly users: readonly [{ user: { token: string } }];
};
const { server, 'certificate-authority-data': ca } = clusters[0].cluster;

const reflector = new Reflector<EndpointSlice, 'service'>({
  client: new HttpKubeClient({
    endpoint: { server: new URL(server), caBundle: Buffer.from(ca, 'base64').toString() },
    credentials: { current: () => ({ type: 'token', token: users[0].user.token }) },
    clock: systemClock,
  }),
  cluster: 'bench',
  path: kubePath`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
  indexes: { service: ({ metadata }) => [metadata.labels['kubernetes.io/service-name'] ?? ''] },
  clock: systemClock,
  random: systemRandom,
  log: silentLog,
});
reflector.onChange(({ key, new: now }) => {
  if (now !== undefined && key.endsWith('-last')) process.stdout.write('seen\n');
});
reflector.acquire();
// Runs until its input ends. The sockets and timers of the reflector keep no process.
process.stdin.on('end', () => process.exit()).resume();
await reflector.synced();
process.stdout.write(`synced ${reflector.status().objects}\n`);
