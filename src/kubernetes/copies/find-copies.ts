// Finds the copies and VM Services that supervisors wrote into a cluster, and their condition on member Services, by lists. Only
// objects with our epoch and another of our marks count as copies. A copy that a user took over is the user's.

import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { ExternalEntity } from '../entities/compile-external-entities.ts';
import { findEntities } from '../entities/find-entities.ts';
import { findMcsObjects, type McsObjects } from '../mcs/find-imports.ts';
import { isDisposableImportService, isImportService } from '../mcs/import-marks.ts';
import { epochAnnotation, managedByLabel, managers, ownConditions } from '../names.ts';
import type { EndpointSlice, ObjectMeta, Service } from '../objects.ts';
import { isCopy, isDisposable } from '../services/compile-copy.ts';
import { isDisposableVmService, isVmService } from '../vms/vm-marks.ts';

export interface Copies extends McsObjects {
  readonly services: readonly Service[];
  /** Those of VirtualMachines. */
  readonly vmServices: readonly Service[];
  /** Those behind ServiceImports. */
  readonly importServices: readonly Service[];
  /** Of all of these. */
  readonly slices: readonly EndpointSlice[];
  readonly entities: readonly ExternalEntity[];
  /** Services of users with our condition in their status. */
  readonly members: readonly Service[];
  /** Services of users with our marks: copies that they took over, or made from the manifest of a copy. */
  readonly takenOver: readonly Service[];
}

export async function findCopies(kube: Pick<KubeClient, 'list' | 'request'>): Promise<Copies> {
  const services = await kube.list<Service>('/api/v1/services');
  const slices = await kube.list<EndpointSlice>('/apis/discovery.k8s.io/v1/endpointslices', {
    labelSelector: `${managedByLabel} in (${managers.join(',')})`,
  });
  const mcs = await findMcsObjects(kube);
  const entities = await findEntities(kube);
  return {
    ...mcs,
    entities: entities.items,
    forbidden: mcs.forbidden ?? entities.forbidden,
    services: services.filter(isDisposable),
    vmServices: services.filter(isDisposableVmService),
    importServices: services.filter(isDisposableImportService),
    slices: slices.filter(({ metadata }) => metadata.annotations?.[epochAnnotation] !== undefined),
    members: services.filter((service) => !isRemoved(service) && hasCondition(service)),
    takenOver: services.filter(
      (service) =>
        (isCopy(service) || isVmService(service) || isImportService(service)) &&
        !isRemoved(service),
    ),
  };
}

const isRemoved = (service: Service): boolean =>
  isDisposable(service) || isDisposableVmService(service) || isDisposableImportService(service);

const hasCondition = ({ status }: Service): boolean =>
  status?.conditions?.some(({ type }) => ownConditions.includes(type)) ?? false;

/** The conditions that stay. */
export const otherConditions = ({ status }: Service) =>
  (status?.conditions ?? []).filter(({ type }) => !ownConditions.includes(type));

export const servicePath = ({ namespace = '', name }: ObjectMeta): string =>
  kubePath`/api/v1/namespaces/${namespace}/services/${name}`;

export const slicePath = ({ namespace = '', name }: ObjectMeta): string =>
  kubePath`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices/${name}`;
