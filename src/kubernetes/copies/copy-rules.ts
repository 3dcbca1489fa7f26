// What differs between the two ways to federate a Service. An annotation makes it a member of a federated Service
// that has copies. A ServiceExport makes it a member of one that has ServiceImports, each with a Service of its
// own. Everything else is the same for both: plans, endpoints, limits, pace and fencing.

import type { NativeService } from '../../api/kinds/native-service.ts';
import type { ReconcileContext } from '../../core/reconcile/controller.ts';
import type { EndpointSlice, OwnerReference, Service } from '../objects.ts';
import type { Plan } from '../services/compile-plan.ts';
import type { FederatedRef } from '../services/federated-name.ts';
import type { MemberService } from '../services/member-service.ts';
import type { OwnedServices } from './apply-service.ts';
import type { SlicePlace } from './live-slices.ts';
import type { CopyProblem, SyncTerm } from './sync-term.ts';
import type { SyncedMember } from './synced-member.ts';

export interface CopyRules {
  readonly name: 'copies' | 'imports';
  /** Whether the site knows which Services of a member are federated. The member has been read. */
  readonly isKnown: (member: SyncedMember) => boolean;
  /** The federated Services that a member says something about. */
  readonly refsIn: (member: SyncedMember) => Iterable<FederatedRef>;
  readonly refOf: (
    object: Service | NativeService,
    member: SyncedMember,
  ) => FederatedRef | undefined;
  /** Undefined where it is no member Service, or one that is being deleted. */
  readonly memberOf: (service: Service, member: SyncedMember) => MemberService | undefined;
  readonly memberOfNative: (
    service: NativeService,
    member: SyncedMember,
  ) => MemberService | undefined;
  /** In no order. */
  readonly memberServices: (
    member: SyncedMember,
    ref: FederatedRef,
    key: string,
  ) => readonly MemberService[];
  /** Follows what else makes Services members. `changed` gets NAMESPACE/NAME of a Service of the member. */
  readonly followMembers: (
    member: SyncedMember,
    changed: (service: string) => void,
  ) => readonly (() => void)[];
  /** Follows what else is written into the target. `changed` gets the key of the federated Service. */
  readonly followTarget: (
    target: SyncedMember,
    changed: (federated: string) => void,
  ) => readonly (() => void)[];
  /** With a ready member in the target, only its endpoints are used. */
  readonly prefersLocal: boolean;

  /** NAMESPACE/NAME of the Service that is written for it. */
  readonly serviceOf: (ref: FederatedRef) => string;
  /** The key of the federated Service of a Service that is written for it, or is in its place. */
  readonly keyOfService: (service: Pick<Service, 'metadata'>) => string;
  /** The key of the federated Service of the slices of one place. */
  readonly keyOfPlace: (copy: string) => string;
  /** The key of the federated Service of a Service that `followMembers` named. */
  readonly keyOfMember: (service: { readonly namespace: string; readonly name: string }) => string;
  readonly isOwn: (service: Pick<Service, 'metadata'>) => boolean;
  /** Why a Service in its place is not changed. */
  readonly problemOf: (live: Service) => CopyProblem | undefined;
  readonly owned: OwnedServices;
  readonly isOwnSlice: (slice: EndpointSlice) => boolean;
  readonly placeOf: (slice: EndpointSlice) => SlicePlace;
  /** A compiled slice with the marks of these rules. */
  readonly marked: (slice: EndpointSlice, copy: Pick<Service, 'metadata'>) => EndpointSlice;
  readonly compile: (
    plan: Plan,
    live: Service | undefined,
    owner: OwnerReference | undefined,
  ) => Service | undefined;

  /** What keeps a member that has the namespace from getting a copy, where there is something. */
  readonly obstacleIn: (member: SyncedMember, ref: FederatedRef) => CopyObstacle | undefined;
  /** Called at the end of the term. */
  readonly stop?: () => void;
  /** Whether nothing else must be written where there are no members and no copy. */
  readonly isIdle: (term: SyncTerm, ref: FederatedRef) => boolean;
  /** Writes what must exist before the Service. */
  readonly prepare: (
    term: SyncTerm,
    plan: Plan,
    live: Service | undefined,
    context: ReconcileContext,
    pace: () => void,
  ) => Promise<Prepared>;
  /** Writes what follows from the plan. Returns after how long it must be called again, if at all. */
  readonly finish: (
    term: SyncTerm,
    plan: Plan,
    written: {
      readonly copy: Service | undefined;
      readonly problem: CopyProblem | undefined;
      readonly isFrozen: boolean;
    },
    context: ReconcileContext,
    pace: () => void,
  ) => Promise<number | undefined>;
}

export interface CopyObstacle {
  readonly status: 'False';
  readonly reason: string;
  readonly message: string;
}

export interface Prepared {
  readonly owner?: OwnerReference;
  readonly problem?: CopyProblem;
  /** What is there stays as it is. */
  readonly isFrozen?: boolean;
  /** The target gets no copy, and has no problem. */
  readonly isUnwanted?: boolean;
  /** After how long it must be called again. */
  readonly waitMs?: number;
}
