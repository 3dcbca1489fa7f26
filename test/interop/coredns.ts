// CoreDNS on loopback for one cluster, as its DNS.

import { Resolver } from 'node:dns/promises';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../e2e/free-ports.ts';
import { until } from '../e2e/until.ts';
import { assertRunning, endProgram, startProgram } from './program.ts';

export interface ClusterDns {
  /** Asks only this server. */
  readonly resolver: Resolver;
  readonly port: number;
  stop(): Promise<void>;
}

export interface ClusterDnsOptions {
  /**
   * Also answers for clusterset.local, from ServiceImports (v1alpha1) and their EndpointSlices. Their CRDs
   * must be installed before. This is part of the plugin `kubernetes`; with older versions of
   * CoreDNS it was the external plugin `multicluster`.
   */
  readonly hasClusterSet?: boolean;
}

/** Resolves when it answers for cluster.local. */
export async function startClusterDns(
  kubeconfig: string,
  { hasClusterSet = false }: ClusterDnsOptions = {},
): Promise<ClusterDns> {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-coredns-'));
  const [dnsPort, readyPort] = [await freePort(), await freePort()];
  const corefile = join(folder, 'Corefile');
  const zones = hasClusterSet ? ['cluster.local', 'clusterset.local'] : ['cluster.local'];
  await writeFile(
    corefile,
    `${zones.map((zone) => `${zone}:${dnsPort}`).join(' ')} {
  bind 127.0.0.1
  errors
  ready 127.0.0.1:${readyPort}
  kubernetes ${zones.join(' ')} {
    kubeconfig ${kubeconfig} oracle${hasClusterSet ? '\n    multicluster clusterset.local' : ''}
  }
}
`,
  );
  const coredns = await startProgram(folder, 'coredns', ['-conf', corefile, '-quiet']);
  const stop = async (): Promise<void> => {
    await endProgram(coredns);
    await rm(folder, { recursive: true, force: true });
  };
  const resolver = new Resolver();
  resolver.setServers([`127.0.0.1:${dnsPort}`]);
  try {
    await until(async () => {
      assertRunning([coredns]);
      const answer = await fetch(`http://127.0.0.1:${readyPort}/ready`).catch(() => undefined);
      if (answer?.ok !== true) return false;
      // It says that it is ready before it listens.
      return resolver.resolveSoa('cluster.local').then(
        () => true,
        () => false,
      );
    }, 'CoreDNS is ready');
  } catch (error) {
    await stop();
    throw error;
  }
  return { resolver, port: dnsPort, stop };
}
