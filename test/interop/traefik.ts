// Traefik as the gateway of a cluster: serves the TLSRoutes of its Gateway on port 443 of one address of this machine.

import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KubeCluster } from './kube-cluster.ts';
import { assertRunning, endProgram, startProgram } from './program.ts';

export const gatewayName = 'edge';
const className = 'traefik';
const port = 443;

export class Traefik {
  readonly #cluster: KubeCluster;
  readonly #address: string;
  #program: ChildProcess | undefined;

  /** Of a cluster with the CRDs `gateway-1.4`. */
  constructor(cluster: KubeCluster, address: string) {
    this.#cluster = cluster;
    this.#address = address;
  }

  /** Creates the GatewayClass, and in this namespace the Gateway with a TLS listener in mode Passthrough. */
  async install(namespace: string): Promise<void> {
    const root = '/apis/gateway.networking.k8s.io/v1';
    await this.#cluster.create(`${root}/gatewayclasses`, {
      apiVersion: 'gateway.networking.k8s.io/v1',
      kind: 'GatewayClass',
      metadata: { name: className },
      spec: { controllerName: 'traefik.io/gateway-controller' },
    });
    await this.#cluster.create(`${root}/namespaces/${namespace}/gateways`, {
      apiVersion: 'gateway.networking.k8s.io/v1',
      kind: 'Gateway',
      metadata: { name: gatewayName, namespace },
      spec: {
        gatewayClassName: className,
        listeners: [{ name: 'tls', protocol: 'TLS', port, tls: { mode: 'Passthrough' } }],
      },
    });
  }

  async start(): Promise<void> {
    const { url, ca, token, folder } = this.#cluster;
    const caFile = join(folder, 'traefik-ca.pem');
    writeFileSync(caFile, ca);
    this.#program = await startProgram(folder, 'traefik', [
      `--entrypoints.tls.address=${this.#address}:${port}`,
      '--providers.kubernetesgateway=true',
      '--providers.kubernetesgateway.experimentalchannel=true',
      `--providers.kubernetesgateway.endpoint=${url}`,
      `--providers.kubernetesgateway.token=${token}`,
      `--providers.kubernetesgateway.certauthfilepath=${caFile}`,
      '--providers.providersthrottleduration=100ms',
      '--global.checknewversion=false',
      '--global.sendanonymoususage=false',
      '--log.level=INFO',
    ]);
  }

  /** The end of its log. Throws if it has ended. */
  log(): string {
    assertRunning(this.#program === undefined ? [] : [this.#program]);
    return readFileSync(join(this.#cluster.folder, 'traefik.log'), 'utf8').slice(-3000);
  }

  async stop(): Promise<void> {
    if (this.#program !== undefined) await endProgram(this.#program);
    this.#program = undefined;
  }
}
