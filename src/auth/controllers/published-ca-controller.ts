// Keeps the ConfigMap with the site's CA fresh in registered clusters, across rotations. An administrator
// of the cluster opts in by creating it (`hansa cluster services`) and by allowing the site to change it.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import { type Source, StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import {
  caConfigMap,
  caConfigMapName,
  caConfigMapPath,
  planPublication,
} from '../manifests/published-ca.ts';

export type PublishedCaParts = Pick<
  PlaneContext,
  'store' | 'clock' | 'resources' | 'trustDomain'
> & {
  readonly authority: Pick<PlaneContext['authority'], 'bundle' | 'onChange'>;
  /** The namespace of `auth.baseDomain`. */
  readonly namespace: string;
  readonly clientOf: (cluster: string) => Pick<KubeClient, 'get' | 'apply'> | undefined;
};

const controllerName = 'cluster-published-ca';
const leaseName = 'controller.cluster-published-ca';
const conditionType = 'CAPublished';
/** How often the site compares the ConfigMap of a cluster. */
const lookEveryMs = 10 * 60_000;
/** The site may get a credential or a connection soon. */
const soonMs = 30_000;

const clusters = kindReader(clusterKind);

/** True: the ConfigMap is current. Undefined: the cluster has not opted in. */
type Outcome =
  | {
      readonly status: 'True' | 'False' | 'Unknown';
      readonly reason: string;
      readonly message: string;
    }
  | undefined;

export function publishedCaController(parts: PublishedCaParts): Controller {
  const { store, clock, authority } = parts;
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection: clusters.collection, keysOf: withApiServer }),
      rotations(store, authority),
    ],
    // One slow API server must not delay others.
    parallelism: 8,
    reconcile: (name, context) => reconcile(parts, name, context),
  };
}

const withApiServer = (entry: Parameters<typeof clusters.of>[0]): readonly string[] =>
  clusters.of(entry).spec.apiServer === undefined ? [] : [entry.name];

/** A rotation changes the ConfigMaps of all clusters. */
function rotations(
  store: PublishedCaParts['store'],
  authority: PublishedCaParts['authority'],
): Source {
  return {
    start: (sink) => ({
      resync: () => undefined,
      stop: authority.onChange(() => {
        for (const { name } of store.list(clusters.collection).entries) sink.add(name);
      }),
    }),
  };
}

async function reconcile(
  parts: PublishedCaParts,
  name: string,
  { epoch }: ReconcileContext,
): Promise<ReconcileResult | undefined> {
  const cluster = clusters.get(parts.store, name);
  if (cluster === undefined || cluster.spec.apiServer === undefined) return undefined;
  const client = parts.clientOf(name);
  if (client === undefined) return { requeueAfterMs: soonMs };
  const outcome = await publish(parts, client);
  await report(parts, cluster, outcome, epoch);
  const isSettled = outcome === undefined || outcome.status === 'True';
  return { requeueAfterMs: isSettled ? lookEveryMs : soonMs };
}

async function publish(
  { namespace, trustDomain, authority }: PublishedCaParts,
  client: Pick<KubeClient, 'get' | 'apply'>,
): Promise<Outcome> {
  const path = caConfigMapPath(namespace);
  const wanted = { namespace, trustDomain: trustDomain.name, ca: authority.bundle.pem };
  const what = `ConfigMap ${namespace}/${caConfigMapName}`;
  let step: 'read' | 'change' = 'read';
  try {
    const plan = planPublication(await client.get(path), wanted);
    if (plan.do === 'leave') {
      return {
        status: 'False',
        reason: 'NotOwned',
        message: `The site does not change ${what}: ${plan.why}. Reviews do not need it. Clients in the cluster that call this site need its CA (hansa cluster services --namespace).`,
      };
    }
    step = 'change';
    // No other manager has a reason to own the CA of this site.
    if (plan.do === 'write') await client.apply(path, caConfigMap(wanted), { force: true });
    return {
      status: 'True',
      reason: 'Current',
      message: `${what} holds the current CA of the site.`,
    };
  } catch (error) {
    if (!(error instanceof HansaError)) throw error;
    const status = error instanceof KubeStatusError ? error.status : undefined;
    // Not there, or not for this site to see: the cluster has not opted in.
    if (step === 'read' && (status === 404 || status === 403)) return undefined;
    if (status === 403) {
      return {
        status: 'False',
        reason: 'NotAllowed',
        message: `The site may not change ${what} (HTTP 403), so it holds an old CA. Allow the verb patch on it, as in the Role that \`hansa cluster add\` creates.`,
      };
    }
    const reason = status === undefined ? 'Unreachable' : 'Failed';
    return { status: 'Unknown', reason, message: error.message };
  }
}

/** A cluster that never opted in gets no condition. */
async function report(
  { resources, clock }: PublishedCaParts,
  { metadata, status }: Cluster,
  outcome: Outcome,
  epoch: number | undefined,
): Promise<void> {
  const known = findCondition(status?.conditions, conditionType);
  if (known === undefined && (outcome === undefined || outcome.reason === 'Unreachable')) return;
  await resources<Cluster>(clusterKind).patchStatus(
    metadata.name,
    (current) => {
      if (current.metadata.uid !== metadata.uid) return current.status ?? {};
      const before = current.status?.conditions;
      const conditions =
        outcome === undefined
          ? (before ?? []).filter(({ type }) => type !== conditionType)
          : setCondition(
              before,
              {
                type: conditionType,
                ...outcome,
                observedGeneration: current.metadata.generation,
              },
              clock.now(),
            );
      return { ...current.status, conditions };
    },
    {
      controller: controllerName,
      ...(epoch === undefined ? {} : { fence: { lease: leaseName, epoch } }),
    },
  );
}
