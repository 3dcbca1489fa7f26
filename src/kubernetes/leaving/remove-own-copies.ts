// Removes all copies from a member that left, and our condition on its Services, in one term of its leader.

import {
  type Copies,
  findCopies,
  otherConditions,
  servicePath,
  slicePath,
} from '../copies/find-copies.ts';
import { pathOfEntity } from '../entities/compile-external-entities.ts';
import { otherExportConditions } from '../mcs/find-imports.ts';
import { exportPath, importPath } from '../mcs/mcs-objects.ts';
import { FencedWriter } from '../fencing/fenced-writer.ts';
import { type FarewellTerm, farewellRounds } from './farewell-rounds.ts';

/** Rejects with HANSA_CONFLICT if copies are left, and with 403 if some could not be read. Removes the others first. */
export async function removeOwnCopies({ client, ...term }: FarewellTerm): Promise<void> {
  const writer = new FencedWriter(client, term);
  let forbidden: Copies['forbidden'];
  await farewellRounds(term.signal, 'Copies', async (attempt) => {
    const found = await findCopies(client);
    forbidden = found.forbidden;
    const { slices, entities, members, imports, exports } = found;
    const services = [...found.services, ...found.vmServices, ...found.importServices];
    const all = [services, slices, entities, members, imports, exports];
    if (all.every(({ length }) => length === 0)) return true;
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
    return false;
  });
  if (forbidden !== undefined) throw forbidden;
}
