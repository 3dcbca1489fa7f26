// A cluster of the guide pages about clusters: runs etcd and kube-apiserver until it is ended, and writes a
// kubeconfig. Usage: node guide-cluster.ts FILE

import { copyFileSync, renameSync } from 'node:fs';
import { startKubeApiserver } from '../interop/kube-apiserver.ts';

const [file = 'app1.kubeconfig'] = process.argv.slice(2);
// The network of the guide has no route, from which kube-apiserver would choose an address.
const flags = ['--advertise-address=192.0.2.1'];
const { kubeconfig } = await startKubeApiserver([], { flags });
copyFileSync(kubeconfig, `${file}.new`);
renameSync(`${file}.new`, file);
