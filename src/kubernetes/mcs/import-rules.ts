// The rules for exported Services in one term of the leader of a member: with ServiceImports, which own the Services
// and slices behind them, and with the status of ServiceExports.

import type { SourceSink } from '../../core/reconcile/source.ts';
import type { CopyRules } from '../copies/copy-rules.ts';
import type { SyncOptions } from '../copies/sync-term.ts';
import type { OwnerReference } from '../objects.ts';
import { keyOfRef } from '../services/federated-name.ts';
import { applyClusters, applyImport, type ImportWrites, removeImport } from './apply-import.ts';
import { compileImport } from './compile-import.ts';
import { exportOutcomes } from './export-conditions.ts';
import { exportedServices, exportOf, isMissing, refOf } from './exported-services.ts';
import { isOwnImport } from './import-marks.ts';
import { mcsApiVersion, type ServiceImport } from './mcs-objects.ts';
import { McsTerm } from './mcs-term.ts';
import { tellExport } from './tell-export.ts';

/** The cluster may not serve ServiceImports, or the site may not read them yet. No event tells when that ends. */
const unservedMs = 30_000;

export function importRules(
  { member: target, clock }: Pick<SyncOptions, 'member' | 'clock'>,
  sink: Pick<SourceSink, 'add'>,
): CopyRules {
  const mcs = new McsTerm(target, clock, sink);
  return {
    ...exportedServices(),
    stop: () => mcs.stop(),
    followTarget: ({ serviceImports, serviceExports }, changed) => {
      const add = ({ metadata }: Pick<ServiceImport, 'metadata'>): void =>
        changed(keyOfRef(refOf(metadata)));
      // Those without an export must go.
      for (const found of serviceImports?.objects() ?? []) if (isOwnImport(found)) add(found);
      return [
        ...(serviceImports === undefined
          ? []
          : [
              serviceImports.onChange((change) => {
                const one = change.new ?? change.old;
                if (!mcs.imports.isEcho(change) && one !== undefined) add(one);
              }),
            ]),
        ...(serviceExports === undefined
          ? []
          : [
              // Somebody else may have changed its status.
              serviceExports.onChange((change) => {
                if (!mcs.exports.isEcho(change) && change.new !== undefined) add(change.new);
              }),
            ]),
      ];
    },
    isIdle: (_, { namespace, name }) => {
      const live = mcs.imports.live(`${namespace}/${name}`);
      return exportOf({ namespace, name }, target) === undefined && !isOurs(live);
    },
    prepare: async (term, plan, live, context, pace) => {
      const { serviceImports } = target;
      if (serviceImports === undefined || isMissing(serviceImports)) {
        return { isUnwanted: true, waitMs: unservedMs };
      }
      if (!serviceImports.isSynced) return { isFrozen: true, waitMs: unservedMs };
      if (plan.ports.length === 0) return {};
      const { namespace, name } = plan.ref;
      const found = mcs.imports.live(`${namespace}/${name}`);
      if (found !== undefined && !isOwnImport(found)) return { problem: 'ImportConflict' };
      const writes = { term, mcs, context, pace };
      return { owner: ownerOf(found ?? (await applyImport(writes, compileImport(plan, live)))) };
    },
    finish: async (term, plan, { copy, problem, isFrozen }, context, pace) => {
      const writes: ImportWrites = { term, mcs, context, pace };
      const { namespace, name } = plan.ref;
      const key = `${namespace}/${name}`;
      const live = mcs.imports.live(key);
      if (copy !== undefined) {
        const written = await applyImport(writes, compileImport(plan, copy));
        await applyClusters(writes, written, plan);
      } else if (!isFrozen && problem === undefined && live !== undefined && isOwnImport(live)) {
        await removeImport(writes, live);
      }
      if (exportOf({ namespace, name }, target) === undefined) return undefined;
      const { clusterID, services } = target;
      const service = services.byKey(key);
      const facts = { namespace, name, clusterID, service, plan, problem };
      return tellExport(writes, key, exportOutcomes(facts));
    },
  };
}

const isOurs = (live: ServiceImport | undefined): boolean =>
  live !== undefined && isOwnImport(live);

function ownerOf({ metadata }: ServiceImport): OwnerReference {
  const { name, uid = '' } = metadata;
  return { apiVersion: mcsApiVersion, kind: 'ServiceImport', name, uid };
}
