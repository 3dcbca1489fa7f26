// Removes the copies and VM Services that supervisors wrote into a cluster, and their condition on member
// Services, with the credential of the user. A copy that a user took over stays, without our marks.

import type { Clock } from '../../core/clock/clock.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { type Copies, otherConditions, servicePath, slicePath } from '../copies/find-copies.ts';
import { pathOfEntity } from '../entities/compile-external-entities.ts';
import { otherExportConditions } from '../mcs/find-imports.ts';
import { exportPath, importPath } from '../mcs/mcs-objects.ts';
import {
  copyAnnotation,
  deletingAnnotation,
  epochAnnotation,
  importAnnotation,
  managedByLabel,
  taggedAnnotation,
  vmAnnotation,
} from '../names.ts';
import type { ObjectMeta, Service } from '../objects.ts';
import { orMissing } from './cluster-facts.ts';
import { whilePoliciesEnd } from './wait-for-policies.ts';

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
    await attempt(() => kube.delete(slicePath(metadata), preconditionsOf(metadata)));
  }
  for (const { metadata } of copies.entities) {
    await attempt(() => kube.delete(pathOfEntity(metadata), preconditionsOf(metadata)));
  }
  for (const { metadata } of [...copies.services, ...copies.vmServices, ...copies.importServices]) {
    await attempt(() => kube.delete(servicePath(metadata), preconditionsOf(metadata)));
  }
  for (const { metadata } of copies.imports) {
    await attempt(() => kube.delete(importPath(metadata), preconditionsOf(metadata)));
  }
  for (const each of copies.exports) {
    const { resourceVersion } = each.metadata;
    await attempt(() =>
      kube.patch(`${exportPath(each.metadata)}/status`, {
        metadata: { resourceVersion },
        status: { conditions: otherExportConditions(each) },
      }),
    );
  }
  for (const service of copies.members) {
    const { resourceVersion } = service.metadata;
    await attempt(() =>
      kube.patch(`${servicePath(service.metadata)}/status`, {
        metadata: { resourceVersion },
        status: { conditions: otherConditions(service) },
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
    [vmAnnotation]: null,
    [importAnnotation]: null,
    [taggedAnnotation]: null,
    [epochAnnotation]: null,
    [deletingAnnotation]: null,
  };
  const marks = { metadata: { annotations, labels: { [managedByLabel]: null } } };
  for (const { metadata } of services) {
    await whilePoliciesEnd(clock, () => orMissing(() => kube.patch(servicePath(metadata), marks)));
  }
}

const preconditionsOf = ({ uid, resourceVersion }: ObjectMeta) => ({ uid, resourceVersion });
