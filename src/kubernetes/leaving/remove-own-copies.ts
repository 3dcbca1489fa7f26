// Removes all copies from a member that left, and our condition on its Services, in one term of its leader.

import type { KubeClient } from '../../core/kube/kube-client.ts';
import { HansaError } from '../../core/errors/error.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { findCopies, otherConditions, servicePath, slicePath } from '../copies/find-copies.ts';
import { pathOfEntity } from '../entities/compile-external-entities.ts';
import { otherExportConditions } from '../mcs/find-imports.ts';
import { exportPath, importPath } from '../mcs/mcs-objects.ts';
import type { Term } from '../../core/reconcile/controller.ts';
import { FencedWriter } from '../fencing/fenced-writer.ts';

/** The work in a member that this site leads for the last time. */
export interface FarewellTerm extends Term {
  readonly client: KubeClient;
}

/** Each round finds what changed during the one before. Two are usual. */
const maxRounds = 5;

/** Rejects with HANSA_CONFLICT if users or programs write the copies all the time. */
export async function removeOwnCopies({ client, ...term }: FarewellTerm): Promise<void> {
  const { signal } = term;
  const writer = new FencedWriter(client, term);
  const attempt = async (work: () => Promise<unknown>): Promise<void> => {
    signal.throwIfAborted();
    try {
      await work();
    } catch (error) {
      const isRace = error instanceof KubeStatusError && [404, 409].includes(error.status);
      if (!isRace) throw error;
    }
  };
  for (let round = 1; round <= maxRounds; round++) {
    signal.throwIfAborted();
    const found = await findCopies(client);
    const { slices, entities, members, imports, exports } = found;
    const services = [...found.services, ...found.vmServices, ...found.importServices];
    const all = [services, slices, entities, members, imports, exports];
    if (all.every(({ length }) => length === 0)) return;
    for (const slice of slices) {
      await attempt(() => writer.remove(slicePath(slice.metadata), slice));
    }
    // Before the copies: garbage collection of Kubernetes deletes them too, and a race is no failure.
    for (const entity of entities) {
      await attempt(() => writer.remove(pathOfEntity(entity.metadata), entity));
    }
    for (const service of services) {
      await attempt(() => writer.remove(servicePath(service.metadata), service));
    }
    for (const each of imports) {
      await attempt(() => writer.remove(importPath(each.metadata), each));
    }
    for (const each of exports) {
      const status = { ...each.status, conditions: otherExportConditions(each) };
      await attempt(() => writer.replaceStatus(exportPath(each.metadata), { ...each, status }));
    }
    for (const service of members) {
      const status = { ...service.status, conditions: otherConditions(service) };
      await attempt(() =>
        writer.replaceStatus(servicePath(service.metadata), { ...service, status }),
      );
    }
  }
  throw new HansaError(
    'HANSA_CONFLICT',
    `Copies are left after ${maxRounds} rounds: another program writes them.`,
  );
}
