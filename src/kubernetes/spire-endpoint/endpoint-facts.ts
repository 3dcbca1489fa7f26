// Finds out facts about a bundle endpoint that no object tells: whether its Secret is usable, and whether the site
// reaches it from outside.

import type { Clock } from '../../core/clock/clock.ts';
import type { Transport } from '../../core/identity/tls/transport.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { ServerObjects } from '../spire/compile-objects.ts';
import { certificateOf } from '../spire/compile-stateful-set.ts';
import { type CertificateProblem, judgeCertificate } from './judge-certificate.ts';
import { probeEndpoint, type ProbeResult, type ProbeTarget } from './probe-endpoint.ts';
import type { SpireServerSpec } from '../spire/read-spire-server.ts';

export interface FactsOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly transport: Transport;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  /** The name of the Cluster. */
  readonly cluster: string;
  readonly namespace: string;
}

/** How often the site calls a bundle endpoint. */
export const probeMs = 60_000;

export class EndpointFacts {
  readonly #options: FactsOptions;
  #last: { readonly key: string; readonly atMs: number; readonly result: ProbeResult } | undefined;

  constructor(options: FactsOptions) {
    this.#options = options;
  }

  async judgeSecret(
    spec: SpireServerSpec,
    { exposure }: Pick<ServerObjects, 'exposure'>,
  ): Promise<CertificateProblem | undefined> {
    const { client, clock, cluster, namespace } = this.#options;
    const secretName = certificateOf(spec);
    if (secretName === undefined) return undefined;
    let secret: unknown;
    try {
      secret = await client.get(kubePath`/api/v1/namespaces/${namespace}/secrets/${secretName}`);
    } catch (error) {
      if (!(error instanceof KubeStatusError)) throw error;
      if (error.status === 403) {
        // It may not exist: the site reads Secrets by name, so it cannot read one whose name is wrong.
        return {
          reason: 'SecretUnreadable',
          message: `The site may not read the Secret ${namespace}/${secretName}, so it cannot check whether SPIRE would start with it. Correct the name, or let the site read it: hansa spire install ${cluster} --secret ${secretName} --kubeconfig FILE.`,
          isFatal: true,
        };
      }
      if (error.status !== 404) throw error;
    }
    const isExposed = exposure?.manifest !== undefined;
    const reencrypts = isExposed && exposure.reencrypts;
    const host = isExposed ? exposure.host : undefined;
    const nowMs = clock.now();
    return judgeCertificate({ secret, secretName, namespace, host, reencrypts, nowMs });
  }

  /** At most once a minute for one target. Undefined where there is nothing to call. */
  async probe(
    { federation, trustDomain }: SpireServerSpec,
    host: string | undefined,
    authorities: string | undefined,
    signal: AbortSignal,
  ): Promise<ProbeResult | undefined> {
    if (federation?.enabled !== true || host === undefined) return undefined;
    const { transport, clock } = this.#options;
    const { profile } = federation.bundleEndpoint;
    const target: ProbeTarget = { host, profile, trustDomain, authorities };
    const key = JSON.stringify(target);
    const atMs = clock.monotonic();
    const last = this.#last;
    if (last?.key === key && atMs - last.atMs < probeMs) return last.result;
    const result = await probeEndpoint(target, { transport, clock, signal });
    this.#last = { key, atMs, result };
    return result;
  }
}
