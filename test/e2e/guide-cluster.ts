// A cluster of the guide pages about clusters: runs etcd and kube-apiserver until it is ended, and writes a
// kubeconfig. Usage: node guide-cluster.ts FILE

import { copyFileSync, renameSync } from 'node:fs';
import { startKubeApiserver } from '../interop/kube-apiserver.ts';

const [file = 'app1.kubeconfig'] = process.argv.slice(2);
// The network of the guide has no route, from which kube-apiserver would choose an address.
const flags = ['--advertise-address=192.0.2.1'];
console.error(
  'Starts etcd and kube-apiserver. The first time, it builds them, which takes minutes.',
);
const cluster = await startKubeApiserver([], { flags });
copyFileSync(cluster.kubeconfig, `${file}.new`);
renameSync(`${file}.new`, file);
console.error(`The cluster of ${file} is ready. Ctrl-C ends it.`);

const end = async (): Promise<void> => {
  await cluster.stop();
  process.exit();
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void end());
