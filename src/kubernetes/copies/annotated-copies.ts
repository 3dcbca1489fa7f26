// The rules for Services that an annotation federates, and for their copies.

import type { NativeService } from '../../api/kinds/native-service.ts';
import { unreachableAnnotation } from '../names.ts';
import type { ObjectMeta, Service } from '../objects.ts';
import {
  compileCopy,
  hasSelector,
  isCopy,
  isDisposable,
  isHeadless,
  isSameCopy,
  repairedCopy,
} from '../services/compile-copy.ts';
import { type AnnotatedRef, federatedRefOf, isRef, keyOfCopy } from '../services/federated-name.ts';
import {
  memberOfNativeService,
  memberOfService,
  type MemberService,
} from '../services/member-service.ts';
import { isOwnSlice } from '../services/slice-source.ts';
import type { OwnedServices } from './apply-service.ts';
import type { CopyRules } from './copy-rules.ts';
import { placeOf } from './live-slices.ts';
import { syncConditions } from './sync-conditions.ts';
import type { CopyProblem } from './sync-term.ts';
import type { SyncedMember } from './synced-member.ts';

/** `namespace` is the system namespace. */
export function annotatedCopies(namespace: string): CopyRules {
  const refOf = ({ metadata }: Service | NativeService): AnnotatedRef | undefined => {
    if (isCopy({ metadata })) return undefined;
    const ref = federatedRefOf(metadata, namespace);
    return isRef(ref) ? ref : undefined;
  };
  const memberOf = (service: Service, { clusterID }: SyncedMember): MemberService | undefined => {
    const ref = isDeleted(service) ? undefined : refOf(service);
    return ref && memberOfService(clusterID, ref, service, annotated(service));
  };
  const memberOfNative = (
    service: NativeService,
    { clusterID }: SyncedMember,
  ): MemberService | undefined => {
    const ref = isDeleted(service) ? undefined : refOf(service);
    return ref && memberOfNativeService(clusterID, ref, service, annotated(service));
  };
  const keyOf = (copy: string): string => {
    const slash = copy.indexOf('/');
    return keyOfCopy(copy.slice(0, slash), copy.slice(slash + 1), namespace);
  };
  return {
    name: 'copies',
    isKnown: () => true,
    *refsIn({ services, nativeServices }) {
      for (const service of services.objects()) {
        const ref = refOf(service);
        if (ref !== undefined) yield ref;
      }
      for (const service of nativeServices.objects()) {
        const ref = refOf(service);
        if (ref !== undefined) yield ref;
      }
    },
    refOf,
    memberOf,
    memberOfNative,
    memberServices: (member, _, key) => [
      ...member.services.byIndex('federated', key).flatMap((each) => memberOf(each, member) ?? []),
      ...member.nativeServices
        .byIndex('federated', key)
        .flatMap((each) => memberOfNative(each, member) ?? []),
    ],
    followMembers: () => [],
    followTarget: () => [],
    prefersLocal: true,
    serviceOf: (ref) => `${ref.namespace}/${ref.name}`,
    keyOfService: ({ metadata }) => keyOf(`${metadata.namespace ?? ''}/${metadata.name}`),
    keyOfPlace: keyOf,
    keyOfMember: ({ namespace: own, name }) => `${own}/${name}`,
    isOwn: isCopy,
    problemOf,
    owned: copies,
    isOwnSlice,
    placeOf,
    marked: (slice) => slice,
    compile: compileCopy,
    obstacleIn: () => undefined,
    isIdle: () => true,
    prepare: () => Promise.resolve({}),
    finish: (term, plan, { problem }, context, pace) =>
      syncConditions(term, plan, problem, context, pace),
  };
}

const isDeleted = ({ metadata }: Service | NativeService): boolean =>
  (metadata as ObjectMeta).deletionTimestamp !== undefined;

const annotated = ({ metadata }: Service | NativeService): string | undefined =>
  metadata.annotations?.[unreachableAnnotation];

/** A copy that a user took over, or the user's own Service, is never changed. */
function problemOf(live: Service): CopyProblem | undefined {
  if (!isCopy(live)) return 'CopyConflict';
  return hasSelector(live) ? 'CopyHasSelector' : undefined;
}

const copies: OwnedServices = {
  isTaken: (live) => problemOf(live) !== undefined,
  isDisposable,
  isBeyondRepair: isHeadless,
  isSame: isSameCopy,
  repaired: repairedCopy,
};
