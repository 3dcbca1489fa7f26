// The work of `hansa spire install` and `manifests`: installs the CRD and the rights of the site in a cluster, and
// marks it. Every step can be repeated.

import type { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { defaultMaxFederatedClusters } from '../../api/kinds/spire-server.ts';
import { apiVersion } from '../../api/object.ts';
import { sleep } from '../../core/clock/clock.ts';
import { printable } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { applyManifests, tryManifests } from '../../core/kube/manifests/apply-manifests.ts';
import { manifestLines, yamlDocuments } from '../../core/kube/manifests/describe-manifests.ts';
import { serverOf } from '../../core/kube/registration/cluster-object.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { findObject, type SiteClient } from '../../core/plane/site-client.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { hasOwnLabels, type LabelledObject, orMissing } from '../client/cluster-facts.ts';
import { servesPolicies, siteSubject } from '../client/prepare-installation.ts';
import { trustDomainOf } from '../client/trust-domain.ts';
import { awaitEstablished } from '../client/wait-for-member.ts';
import {
  spireCrdName,
  spireManifests,
  type SpireManifestsOptions,
} from '../manifests/spire-manifests.ts';
import { spireCondition } from '../spire/spire-condition.ts';
import { type KubeconfigFlags, withConnections } from './connections.ts';
import { serverOfCluster } from './plan-join.ts';

interface LimitOptions {
  readonly namespace: string;
  readonly secret?: readonly string[];
  readonly maxFederatedClusters: number;
}

export interface InstallOptions extends KubeconfigFlags, LimitOptions {
  readonly className?: string;
  readonly trustDomain?: string;
  readonly clusterName?: string;
  readonly user?: string;
  readonly bundlePeer?: readonly string[];
  readonly forceConflicts?: boolean;
  readonly output: OutputFormat;
}

export interface ManifestOptions extends LimitOptions {
  readonly user?: string;
  readonly account: string;
  readonly crd: boolean;
  readonly policies: boolean;
  readonly output: OutputFormat;
}

/** Its own, so that a repetition keeps fields that others set. */
export const spireManager = 'hansa-spire';

export async function printSpireManifests(request: {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly options: ManifestOptions;
}): Promise<void> {
  const { kit, command, options } = request;
  const [namespace = '', name, ...rest] = options.account.split('/');
  if (namespace === '' || name === undefined || name === '' || rest.length > 0) {
    throw usageError(
      `${JSON.stringify(options.account)} is not a ServiceAccount. Write NAMESPACE/NAME.`,
    );
  }
  warnOfLimit(kit, options.maxFederatedClusters);
  await kit.withClient(command, async (client) => {
    const manifests = spireManifests({
      ...manifestsOf(options, await trustDomainOf(client)),
      subject:
        options.user === undefined
          ? { kind: 'ServiceAccount', namespace, name }
          : { kind: 'User', name: options.user },
      hasOwnCrd: options.crd,
      hasOwnNamespace: true,
      hasPolicies: options.policies,
    });
    kit.print(kit.renderValue(manifests, options.output) ?? yamlDocuments(kit, manifests));
  });
}

function manifestsOf(
  { namespace, maxFederatedClusters, secret = [] }: LimitOptions,
  trustDomain: string,
): Pick<SpireManifestsOptions, 'trustDomain' | 'namespace' | 'maxFederatedClusters' | 'secrets'> {
  return { trustDomain, namespace, maxFederatedClusters, secrets: secret };
}

function warnOfLimit(kit: CommandKit, limit: number): void {
  if (limit <= defaultMaxFederatedClusters) return;
  kit.note(
    `Warning: the limit of trust domains is ${limit}. Tests cover ${defaultMaxFederatedClusters}.`,
  );
}

export async function installSpire(request: {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly name: string;
  readonly options: InstallOptions;
}): Promise<void> {
  const { kit, command, name, options } = request;
  await withConnections(kit.io, options, ({ cluster: { kube, loaded } }) =>
    kit.withClient(command, async (client) => {
      const cluster = await registered(client, name, serverOf(loaded.endpoint));
      const trustDomain = await trustDomainOf(client);
      const { user } = options;
      const subject = await siteSubject({ kube, name, known: cluster, trustDomain, user });
      const hasOwnCrd = await isOursOrMissing(
        kube,
        kubePath`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${spireCrdName}`,
      );
      const manifests = spireManifests({
        ...manifestsOf(options, trustDomain),
        subject,
        hasOwnCrd,
        hasOwnNamespace: await isOursOrMissing(
          kube,
          kubePath`/api/v1/namespaces/${options.namespace}`,
        ),
        hasPolicies: await servesPolicies(kube),
      });
      const force = options.forceConflicts === true;
      await tryManifests(kube, manifests, force);
      kit.note(
        printable(
          `In the cluster ${serverOf(loaded.endpoint)} (context ${loaded.context.name}), this creates or updates:`,
        ),
      );
      for (const line of manifestLines(manifests)) kit.note(printable(line));
      kit.note(`At the site, this updates:\n  Cluster ${name}: the site operates its SPIRE server`);
      if (!hasOwnCrd) {
        kit.note(
          `The CRD ${spireCrdName} is another operator's and stays as it is. That operator must not act on the same SpireServer.`,
        );
      }
      warnOfLimit(kit, options.maxFederatedClusters);
      await kit.confirm(command, `Operate the SPIRE server of ${name}?`);
      await applyManifests(kube, manifests, force);
      await awaitEstablished(kube, kit.io.clock, manifests);
      await client.apply(
        clusterKind,
        name,
        {
          apiVersion,
          kind: clusterKind.kind,
          metadata: { name },
          spec: { spire: markOf(options) },
        },
        { fieldManager: spireManager, force: true },
      );
      await report(kit, client, name, options.output);
    }),
  );
}

function markOf(options: InstallOptions) {
  const { namespace, className, trustDomain, clusterName, maxFederatedClusters, bundlePeer } =
    options;
  return {
    namespace,
    maxFederatedClusters,
    ...(className !== undefined && { className }),
    ...(trustDomain !== undefined && { trustDomain }),
    ...(clusterName !== undefined && { clusterName }),
    ...(bundlePeer !== undefined && { bundlePeers: bundlePeer }),
  };
}

/** Rejects where the kubeconfig is for another cluster. */
export async function registered(
  client: SiteClient,
  name: string,
  server: string,
): Promise<Cluster> {
  const cluster = await findObject<Cluster>(client, clusterKind, name);
  if (cluster === undefined) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `The site has no cluster ${name}. Register it first: hansa cluster add ${name} --kubeconfig FILE`,
    );
  }
  const known = serverOfCluster(cluster);
  if (known === server) return cluster;
  throw new HansaError(
    'HANSA_CONFLICT',
    printable(
      known === undefined
        ? `The Cluster ${name} has no apiServer. Set it: hansa cluster add ${name} --kubeconfig FILE`
        : `The site has ${name} at ${known}, and the kubeconfig is for ${server}. Choose the kubeconfig or context of ${name}.`,
    ),
  );
}

async function isOursOrMissing(kube: KubeClient, path: string): Promise<boolean> {
  const found = await orMissing(() => kube.get<LabelledObject>(path));
  return found === undefined || hasOwnLabels(found);
}

const pauseMs = 250;
/** The site tries again after at most 30 seconds, and reports at most every ten. */
const tries = 200;

async function report(
  kit: CommandKit,
  client: SiteClient,
  name: string,
  output: OutputFormat,
): Promise<void> {
  let found: ReturnType<typeof findCondition>;
  for (let attempt = 1; attempt <= tries; attempt += 1) {
    const cluster = await findObject<Cluster>(client, clusterKind, name);
    found = findCondition(cluster?.status?.conditions, spireCondition);
    if (found?.observedGeneration !== cluster?.metadata.generation) found = undefined;
    if (found?.status === 'True') break;
    await sleep(kit.io.clock, pauseMs);
  }
  const value = { name, state: found?.status ?? 'Unknown', message: found?.message ?? '' };
  kit.print(
    kit.renderValue(value, output) ??
      printable(`${name} is marked. ${found?.message ?? ''}`.trim()),
  );
  if (found?.status === 'True') return;
  throw new HansaError(
    'HANSA_UNHEALTHY',
    printable(
      `${name} is marked, but the site does not operate its SPIRE server yet: ${found?.message ?? 'it has not reported. Start it with --kubernetes-spire-enabled true.'}`,
    ),
  );
}
