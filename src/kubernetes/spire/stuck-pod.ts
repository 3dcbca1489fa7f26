// Replaces a Pod of the SPIRE server that a broken template left behind. The StatefulSet controller waits until a Pod
// is ready before it replaces it (OrderedReady), so a Pod that can never become ready outlives the correction.

import { isObject } from '../../api/schema/json.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { WritingTerm } from '../fencing/fenced-writer.ts';
import type { Warning } from './compile-conditions.ts';
import type { LiveObject, ObjectOutcome } from './object-applier.ts';
import { podName, serverName } from './spire-names.ts';

export interface PodReplacer {
  readonly client: Pick<KubeClient, 'get' | 'delete'>;
  readonly term: WritingTerm;
  readonly namespace: string;
}

interface PodObject extends KubeObject {
  readonly metadata: LiveObject['metadata'];
  readonly [field: string]: unknown;
}

/** Kubernetes names the version of the template that a Pod is from. */
const revisionLabel = 'controller-revision-hash';

/** Undefined: nothing needs a user. Rejects with HANSA_FENCED where the term is over. */
export async function replaceStuckPod(
  { client, term, namespace }: PodReplacer,
  outcomes: readonly ObjectOutcome[],
): Promise<Warning | undefined> {
  const revision = pendingRevision(outcomes);
  if (revision === undefined) return undefined;
  const path = kubePath`/api/v1/namespaces/${namespace}/pods/${podName}`;
  try {
    const pod = await client.get<PodObject>(path);
    if (!isStuck(pod, revision)) return undefined;
    const { uid, resourceVersion } = pod.metadata;
    const beforeSend = (): void => {
      if (term.mayWrite()) return;
      throw new HansaError('HANSA_FENCED', `Cannot delete a Pod: term ${term.epoch} is over.`);
    };
    beforeSend();
    await client.delete(path, { uid, resourceVersion }, { beforeSend });
    return undefined;
  } catch (error) {
    if (!(error instanceof KubeStatusError)) throw error;
    // It is gone or changed: its StatefulSet or the next run judges it again.
    if (error.status === 404 || error.status === 409) return undefined;
    if (error.status !== 403) throw error;
    return {
      reason: 'StuckPod',
      message: `The site may not replace the Pod ${namespace}/${podName}, which is not ready and has an older configuration. To replace it: kubectl delete pod ${podName} -n ${namespace}. To let the site do it: hansa spire install CLUSTER --kubeconfig FILE`,
    };
  }
}

/** The revision that the Pod of a server that is not ready should have. Undefined: a user decides when it gets it. */
function pendingRevision(outcomes: readonly ObjectOutcome[]): string | undefined {
  const found = outcomes.find(
    ({ manifest: { kind, metadata } }) => kind === 'StatefulSet' && metadata.name === serverName,
  );
  // With createOnly, a template that is not as wanted is no reason to touch its Pod.
  if (found === undefined || found.state === 'drift' || !('live' in found)) return undefined;
  const { metadata, spec, status } = found.live ?? {};
  const { observedGeneration, updateRevision, readyReplicas } = fieldsOf(status);
  const { generation } = fieldsOf(metadata);
  const isObserved = Number(observedGeneration ?? 0) >= Number(generation ?? 0);
  if (!isObserved || typeof updateRevision !== 'string') return undefined;
  if (Number(readyReplicas ?? 0) >= 1) return undefined;
  const { type = 'RollingUpdate', rollingUpdate } = fieldsOf(fieldsOf(spec)['updateStrategy']);
  const { partition = 0 } = fieldsOf(rollingUpdate);
  return type === 'RollingUpdate' && partition === 0 ? updateRevision : undefined;
}

/** A Pod of another revision that is not ready. */
function isStuck({ metadata, status }: PodObject, revision: string): boolean {
  const label = metadata.labels?.[revisionLabel];
  if (label === undefined || label === revision) return false;
  if (metadata.deletionTimestamp !== undefined) return false;
  const { conditions } = fieldsOf(status);
  return !(Array.isArray(conditions) ? conditions : []).some((each) => {
    const { type, status: verdict } = fieldsOf(each);
    return type === 'Ready' && verdict === 'True';
  });
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}
