// Removes the copies that supervisors wrote into a cluster, and their condition on member Services. Only objects
// with our epoch and another of our marks count as copies. A copy that a user took over stays, without our marks.

import type { Clock } from '../../core/clock/clock.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import {
  copyAnnotation,
  deletingAnnotation,
  epochAnnotation,
  managedByLabel,
  manager,
  memberCondition,
} from '../names.ts';
import type { EndpointSlice, ObjectMeta, Service } from '../objects.ts';
import { isCopy, isDisposable } from '../services/compile-copy.ts';
import { orMissing } from './cluster-facts.ts';
import { whilePoliciesEnd } from './wait-for-policies.ts';

export interface Copies {
  readonly services: readonly Service[];
  readonly slices: readonly EndpointSlice[];
  /** Services of users with our condition in their status. */
  readonly members: readonly Service[];
  /** Services of users with our marks: copies that they took over, or made from the manifest of a copy. */
  readonly takenOver: readonly Service[];
}

export async function findCopies(kube: KubeClient): Promise<Copies> {
  const services = await kube.list<Service>('/api/v1/services');
  const slices = await kube.list<EndpointSlice>('/apis/discovery.k8s.io/v1/endpointslices', {
    labelSelector: `${managedByLabel}=${manager}`,
  });
  return {
    services: services.filter(isDisposable),
    slices: slices.filter(({ metadata }) => hasAnnotation(metadata, epochAnnotation)),
    members: services.filter((service) => !isDisposable(service) && hasCondition(service)),
    takenOver: services.filter((service) => isCopy(service) && !isDisposable(service)),
  };
}

const hasAnnotation = ({ annotations }: ObjectMeta, key: string): boolean =>
  annotations?.[key] !== undefined;

const hasCondition = ({ status }: Service): boolean =>
  status?.conditions?.some(({ type }) => type === memberCondition) ?? false;

/** An object that changed meanwhile stays: a supervisor or a user writes it. Returns how many stayed. */
export async function removeCopies(kube: KubeClient, copies: Copies): Promise<number> {
  let left = 0;
  const attempt = async (work: () => Promise<unknown>): Promise<void> => {
    try {
      await orMissing(work);
    } catch (error) {
      if (!(error instanceof KubeStatusError) || error.status !== 409) throw error;
      left++;
    }
  };
  for (const { metadata } of copies.slices) {
    await attempt(() =>
      kube.delete(
        kubePath`/apis/discovery.k8s.io/v1/namespaces/${metadata.namespace ?? ''}/endpointslices/${metadata.name}`,
        preconditionsOf(metadata),
      ),
    );
  }
  for (const { metadata } of copies.services) {
    await attempt(() => kube.delete(pathOf(metadata), preconditionsOf(metadata)));
  }
  for (const { metadata, status } of copies.members) {
    const conditions = status?.conditions?.filter(({ type }) => type !== memberCondition);
    const { resourceVersion } = metadata;
    await attempt(() =>
      kube.patch(`${pathOf(metadata)}/status`, {
        metadata: { resourceVersion },
        status: { conditions },
      }),
    );
  }
  return left;
}

/** Once the policies are deleted: they let only sites change epochs. */
export async function removeMarks(
  kube: KubeClient,
  clock: Clock,
  services: readonly Service[],
): Promise<void> {
  const annotations = {
    [copyAnnotation]: null,
    [epochAnnotation]: null,
    [deletingAnnotation]: null,
  };
  const marks = { metadata: { annotations, labels: { [managedByLabel]: null } } };
  for (const { metadata } of services) {
    await whilePoliciesEnd(clock, () => orMissing(() => kube.patch(pathOf(metadata), marks)));
  }
}

const pathOf = ({ namespace = '', name }: ObjectMeta): string =>
  kubePath`/api/v1/namespaces/${namespace}/services/${name}`;

const preconditionsOf = ({ uid, resourceVersion }: ObjectMeta) => ({ uid, resourceVersion });
