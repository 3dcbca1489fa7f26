// The fencing policies of the plane in TypeScript, for simulation. The real ones are
// ValidatingAdmissionPolicies; tests on a real kube-apiserver judge those.

import { jsonEquals } from '../../../src/api/schema/json.ts';
import { epochIn } from '../../../src/core/kube/lease/kube-lease.ts';
import {
  copyAnnotation,
  defaultNamespace,
  deletingAnnotation,
  epochAnnotation,
  epochFloorAnnotation,
  importAnnotation,
  importManager,
  leaseName,
  namesSinceAnnotation,
  managedByLabel,
  manager,
  ownConditions,
  originKey,
  policyAnnotations,
  replicaAnnotation,
  sinceAnnotation,
  termManager,
  versionAnnotation,
  vmAnnotation,
  vmManager,
} from '../../../src/kubernetes/names.ts';
import type { MemoryKube } from './memory-kube.ts';
import type { AdmissionRequest } from './object-writer.ts';
import { type Fields, fieldsOf, type SentObject } from './stored-object.ts';

/** The resources that sites create for federated Services. */
const copied: ReadonlySet<string> = new Set([
  'services',
  'endpointslices',
  'serviceimports',
  'externalentities',
]);

/**
 * Returns why the request is refused, or undefined. `cluster` is asked for the Lease, which is the parameter of a
 * policy. A real API server sees it a little late.
 */
export function fencingRules(
  isSite: (user: string) => boolean,
  cluster: () => Pick<MemoryKube, 'objects'>,
): (request: AdmissionRequest) => string | undefined {
  return (request) => {
    const { plural } = request.resource;
    const isLease = plural === 'leases' && nameOf(request) === leaseName;
    const isCopied = copied.has(plural);
    const isExport = plural === 'serviceexports' && request.isStatus;
    const isRecord = plural === 'policyrecords';
    const isPolicy = policyPlurals.has(plural) && !request.isStatus;
    if (isRecord || isPolicy) {
      if (!isSite(request.user)) {
        return isRecord ? refusedRecord(request) : refusedPolicyMarks(request);
      }
      const late = refusedTerm(request, leaderIn(cluster()));
      if (late !== undefined || request.isStatus) return late;
      return refusedEpoch(request) ?? (isPolicy ? refusedPolicy(request) : undefined);
    }
    if (!isLease && !isCopied && !isExport) return undefined;
    if (!isSite(request.user)) return refusedMarks(request);
    if (isLease) return refusedLease(request);
    if (request.isStatus && plural !== 'services') return refusedTerm(request, leaderIn(cluster()));
    return (
      refusedTerm(request, leaderIn(cluster())) ??
      (request.isStatus ? refusedStatus(request) : refusedCopy(request))
    );
  };
}

function leaderIn(cluster: Pick<MemoryKube, 'objects'>): SentObject | undefined {
  const leases = cluster.objects<SentObject>('leases', defaultNamespace);
  return leases.find(({ metadata }) => metadata.name === leaseName);
}

function nameOf({ object, old }: AdmissionRequest): unknown {
  return object?.metadata['name'] ?? old?.metadata.name;
}

const annotationsOf = (object: SentObject | undefined): Readonly<Record<string, string>> =>
  (object?.metadata['annotations'] ?? {}) as Record<string, string>;

const epochOf = (object: SentObject | undefined, key = epochAnnotation): number =>
  epochIn(annotationsOf(object), key);

/** The epoch of a write into a status is in its field manager. */
function refusedTerm(
  { operation, isStatus, fieldManager, object, old }: AdmissionRequest,
  leader: SentObject | undefined,
): string | undefined {
  const leased = epochOf(leader);
  const isTerm = fieldManager.startsWith(termManager);
  const managed = isTerm ? { epoch: fieldManager.slice(termManager.length) } : {};
  const epoch = isStatus
    ? epochIn(managed, 'epoch')
    : epochOf(operation === 'DELETE' ? old : object);
  return epoch >= leased || (epoch === 0 && !isStatus)
    ? undefined
    : `another leader has taken over: the Lease has epoch ${leased}, and this write has epoch ${epoch}`;
}

function refusedCopy({ operation, resource, object, old }: AdmissionRequest): string | undefined {
  const epoch = epochOf(object);
  const oldEpoch = epochOf(old);
  if (operation !== 'DELETE' && epoch === 0) return 'a write of a site needs an epoch';
  if (operation !== 'CREATE' && oldEpoch === 0) return 'a site may change only copies';
  if (operation === 'UPDATE' && epoch < oldEpoch) {
    return `another leader has taken over: the object has epoch ${oldEpoch}, and this write has epoch ${epoch}`;
  }
  if (operation === 'DELETE') {
    return epochOf(old, deletingAnnotation) === oldEpoch ? undefined : 'the copy is not marked';
  }
  if (operation === 'CREATE') {
    const labels = (object?.metadata['labels'] ?? {}) as Record<string, string>;
    const annotations = annotationsOf(object);
    const isCopy =
      labels[managedByLabel] === manager &&
      (annotations[copyAnnotation] ?? annotations[originKey] ?? '') !== '';
    const isOfVms =
      labels[managedByLabel] === vmManager && (annotations[vmAnnotation] ?? '') !== '';
    const isOfImports =
      labels[managedByLabel] === importManager && (annotations[importAnnotation] ?? '') !== '';
    if (!isCopy && !isOfVms && !isOfImports) return 'a copy needs its marks';
  }
  return resource.plural === 'services' ? refusedSpec(object, old) : undefined;
}

function refusedSpec(
  object: SentObject | undefined,
  old: SentObject | undefined,
): string | undefined {
  const spec = fieldsOf(object?.['spec']);
  const isPlain =
    (spec['type'] ?? 'ClusterIP') === 'ClusterIP' &&
    ((spec['externalIPs'] ?? []) as readonly string[]).length === 0 &&
    Object.keys(fieldsOf(spec['selector'])).length === 0;
  return isPlain || (old !== undefined && jsonEquals(spec, old['spec']))
    ? undefined
    : 'a copy is of type ClusterIP, without external IPs and without a selector';
}

function refusedStatus({ object, old }: AdmissionRequest): string | undefined {
  const isSameMetadata = ['labels', 'annotations', 'finalizers', 'ownerReferences'].every((field) =>
    jsonEquals(object?.metadata[field], old?.metadata[field]),
  );
  if (!isSameMetadata) return 'a site may not change metadata through the status';
  const others = (status: Fields): readonly Fields[] =>
    ((status['conditions'] ?? []) as readonly Fields[]).filter(
      ({ type }) => !ownConditions.includes(String(type)),
    );
  const status = fieldsOf(object?.['status']);
  const before = fieldsOf(old?.['status']);
  return jsonEquals(status['loadBalancer'], before['loadBalancer']) &&
    jsonEquals(others(status), others(before))
    ? undefined
    : `a site may change only the conditions ${ownConditions.join(', ')}`;
}

function refusedLease({ operation, object, old }: AdmissionRequest): string | undefined {
  if (operation === 'DELETE') return undefined;
  const isSound = [epochAnnotation, epochFloorAnnotation].every(
    (key) => epochOf(object, key) >= epochOf(old, key),
  );
  return isSound ? undefined : 'the epoch and the epoch floor of a Lease never go back';
}

/** The resources of the kinds of policies that tests use. */
const policyPlurals: ReadonlySet<string> = new Set(['networkpolicies', 'adminnetworkpolicies']);

const isFederated = (object: SentObject | undefined): boolean =>
  policyAnnotations.some((key) => annotationsOf(object)[key] === 'true');

function refusedEpoch({ operation, object, old }: AdmissionRequest): string | undefined {
  const [epoch, oldEpoch] = [epochOf(object), epochOf(old)];
  if (operation !== 'DELETE' && epoch === 0) return 'a write of a site needs an epoch';
  if (operation === 'UPDATE' && epoch < oldEpoch) {
    return `another leader has taken over: the object has epoch ${oldEpoch}, and this write has epoch ${epoch}`;
  }
  const isMarked = oldEpoch > 0 && epochOf(old, deletingAnnotation) === oldEpoch;
  return operation === 'DELETE' && !isMarked ? 'the object is not marked' : undefined;
}

function refusedPolicy({ operation, object, old }: AdmissionRequest): string | undefined {
  if (operation !== 'CREATE' && !isFederated(old)) {
    return 'a site may change only policies with the annotation';
  }
  if (operation === 'DELETE') return undefined;
  const annotations = annotationsOf(object);
  const isDeletion = operation === 'UPDATE' && annotations[deletingAnnotation] !== undefined;
  if (!isDeletion && (!isFederated(object) || annotations[versionAnnotation] === undefined)) {
    return 'a policy that a site writes needs its annotations';
  }
  if (operation === 'CREATE') {
    return annotations[replicaAnnotation] === undefined ? 'a replica needs its mark' : undefined;
  }
  const isSame = ['finalizers', 'ownerReferences'].every((field) =>
    jsonEquals(object?.metadata[field], old?.metadata[field]),
  );
  return isSame ? undefined : 'a site may not change finalizers and owners';
}

function refusedPolicyMarks({ operation, object, old }: AdmissionRequest): string | undefined {
  if (operation === 'DELETE') return undefined;
  const keys = [epochAnnotation, deletingAnnotation, versionAnnotation, replicaAnnotation];
  const isSound = keys.every((key) => {
    const value = annotationsOf(object)[key];
    return value === undefined || value === annotationsOf(old)[key];
  });
  return isSound ? undefined : 'only sites add or change marks of policies';
}

function refusedRecord({ operation, object, old }: AdmissionRequest): string | undefined {
  if (operation === 'DELETE') return undefined;
  const isSame =
    old !== undefined &&
    jsonEquals(object?.['spec'], old['spec']) &&
    jsonEquals(object?.['status'], old['status']) &&
    jsonEquals(annotationsOf(object), annotationsOf(old));
  return isSame ? undefined : 'only sites write PolicyRecords';
}

function refusedMarks({ operation, object, old }: AdmissionRequest): string | undefined {
  if (operation === 'DELETE') return undefined;
  const isSame = [
    epochAnnotation,
    epochFloorAnnotation,
    deletingAnnotation,
    sinceAnnotation,
    namesSinceAnnotation,
  ].every((key) => annotationsOf(object)[key] === annotationsOf(old)[key]);
  return isSame ? undefined : 'only sites add, change or remove epochs';
}
