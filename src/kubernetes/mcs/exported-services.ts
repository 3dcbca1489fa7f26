// The rules for Services that a ServiceExport federates (KEP-1645). The export has the namespace and name of its
// Service, and all exports of one namespace and name are one federated Service.

import type { OwnedServices } from '../copies/apply-service.ts';
import type { CopyObstacle, CopyRules } from '../copies/copy-rules.ts';
import type { CopyProblem } from '../copies/sync-term.ts';
import type { SyncedMember } from '../copies/synced-member.ts';
import { importAnnotation, unreachableAnnotation } from '../names.ts';
import type { ObjectMeta, Service } from '../objects.ts';
import { hasSelector, isCopy } from '../services/compile-copy.ts';
import { type FederatedRef, keyOfRef } from '../services/federated-name.ts';
import { memberOfService, type MemberService } from '../services/member-service.ts';
import { sourceOfSlice } from '../services/slice-source.ts';
import {
  compileImportService,
  importSlice,
  isOtherType,
  isSameImportService,
  repairedImportService,
  traitsOf,
} from './compile-import.ts';
import {
  importServiceName,
  isDisposableImportService,
  isImportService,
  isImportSlice,
  isOwnImport,
} from './import-marks.ts';
import type { ServiceExport } from './mcs-objects.ts';

/** They write nothing but Services and slices: `import-rules.ts` adds the rest. */
export function exportedServices(): CopyRules {
  /** Keys of federated Services, by the Service that is written for them. */
  const written = new Map<string, string>();
  const keyOf = (place: string): string => {
    const slash = place.indexOf('/');
    return keyOfRef(refOf({ namespace: place.slice(0, slash), name: place.slice(slash + 1) }));
  };
  return {
    name: 'imports',
    isKnown: ({ serviceExports }) =>
      serviceExports === undefined || serviceExports.isSynced || isMissing(serviceExports),
    *refsIn({ serviceExports }) {
      for (const { metadata } of serviceExports?.objects() ?? []) yield refOf(metadata);
    },
    refOf: ({ metadata }, member) => {
      const found = exportOf(metadata, member);
      return found && refOf(found.metadata);
    },
    memberOf,
    memberOfNative: () => undefined,
    memberServices: (member, { namespace, name }) => {
      const service = member.services.byKey(`${namespace}/${name}`);
      const found = service && memberOf(service, member);
      return found === undefined ? [] : [found];
    },
    followMembers: ({ serviceExports }, changed) =>
      serviceExports === undefined
        ? []
        : [
            serviceExports.onChange(({ key, old, new: now }) => {
              if (partsOf(old) !== partsOf(now)) changed(key);
            }),
          ],
    followTarget: () => [],
    // Requests are spread across all endpoints of all clusters (KEP-1645, DNS).
    prefersLocal: false,
    serviceOf: (ref) => {
      const service = `${ref.namespace}/${importServiceName(ref.name)}`;
      written.set(service, keyOfRef(ref));
      return service;
    },
    keyOfService: ({ metadata }) => {
      const { namespace = '', name, annotations } = metadata;
      const own = annotations?.[importAnnotation];
      return (
        written.get(`${namespace}/${name}`) ?? keyOfRef(refOf({ namespace, name: own ?? name }))
      );
    },
    keyOfPlace: keyOf,
    keyOfMember: (service) => keyOfRef(refOf(service)),
    isOwn: isImportService,
    problemOf,
    owned,
    isOwnSlice: isImportSlice,
    placeOf: (slice) => ({
      copy: `${slice.metadata.namespace ?? ''}/${slice.metadata.annotations?.[importAnnotation] ?? ''}`,
      source: sourceOfSlice(slice),
    }),
    marked: importSlice,
    compile: compileImportService,
    obstacleIn,
    isIdle: () => true,
    prepare: () => Promise.resolve({}),
    finish: () => Promise.resolve(undefined),
  };
}

/** Whether the cluster does not serve the kind. */
export function isMissing(
  cached: NonNullable<SyncedMember['serviceExports' | 'serviceImports']>,
): boolean {
  return cached.status().failure?.reason === 'not-found';
}

export function refOf({
  namespace = '',
  name,
}: Pick<ObjectMeta, 'namespace' | 'name'>): FederatedRef {
  return { scope: 'exported', namespace, name };
}

/** Undefined where it is being deleted. */
export function exportOf(
  { namespace = '', name }: Pick<ObjectMeta, 'namespace' | 'name'>,
  { serviceExports }: SyncedMember,
): ServiceExport | undefined {
  const found = serviceExports?.byKey(`${namespace}/${name}`);
  return found?.metadata.deletionTimestamp === undefined ? found : undefined;
}

/** What the site made out of other Services is no member. The age is that of the export. */
function memberOf(service: Service, member: SyncedMember): MemberService | undefined {
  const { metadata } = service;
  const found = exportOf(metadata, member);
  if (found === undefined || metadata.deletionTimestamp !== undefined) return undefined;
  if (isCopy(service) || isImportService(service)) return undefined;
  const unreachable = metadata.annotations?.[unreachableAnnotation];
  return {
    ...memberOfService(member.clusterID, refOf(metadata), service, unreachable),
    createdAt: found.metadata.creationTimestamp ?? '',
    traits: traitsOf(service),
  };
}

/** What decides about membership. */
const partsOf = (found: ServiceExport | undefined): string => {
  const { uid, creationTimestamp, deletionTimestamp } = found?.metadata ?? {};
  return [uid, creationTimestamp, deletionTimestamp].join();
};

function problemOf(live: Service): CopyProblem | undefined {
  if (!isImportService(live)) return 'CopyConflict';
  return hasSelector(live) ? 'CopyHasSelector' : undefined;
}

const owned: OwnedServices = {
  isTaken: (live) => problemOf(live) !== undefined,
  isDisposable: isDisposableImportService,
  isBeyondRepair: isOtherType,
  isSame: isSameImportService,
  repaired: repairedImportService,
};

function obstacleIn(
  { clusterID, serviceImports }: SyncedMember,
  { namespace, name }: FederatedRef,
): CopyObstacle | undefined {
  const no = (reason: string, message: string): CopyObstacle => ({
    status: 'False',
    reason,
    message,
  });
  if (serviceImports === undefined || !serviceImports.isSynced || isMissing(serviceImports)) {
    return no(
      'NoServiceImports',
      `This site cannot read ServiceImports in ${clusterID}. Install the CRDs of the Multi-Cluster Services API there, and join the cluster again if it joined with an older version.`,
    );
  }
  const found = serviceImports.byKey(`${namespace}/${name}`);
  if (found === undefined || isOwnImport(found)) return undefined;
  return no(
    'ImportConflict',
    `${clusterID} has a ServiceImport ${namespace}/${name} that no Hansa site wrote. Delete it to import the Service.`,
  );
}
