// What is known of one federated policy in one member: the object, the record, and the place where the object
// is. The compilers of this folder work on these.

import type { Stamp } from './stamp.ts';

/** One content of a policy, or its end, with the time of the edit. */
export interface Version {
  readonly state: 'Live' | 'Deleted' | 'Ended';
  readonly stamp: Stamp;
  /** Of the content. Empty unless it is live. */
  readonly versionHash: string;
}

/** The policy as the API server of the member stores it. */
export interface HeldObject {
  readonly uid: string;
  readonly resourceVersion: string;
  /** Whether it has the annotation. */
  readonly isFederated: boolean;
  /** Of its content. Undefined where it is too large, or has no annotation. */
  readonly hash: string | undefined;
  /** Whether a site created it. */
  readonly isReplica: boolean;
  /** The version that a site wrote into it last, as its annotation says. */
  readonly written: Pick<Version, 'stamp' | 'versionHash'> | undefined;
  /** When somebody else than a site last wrote it, and when a site did. In whole seconds. */
  readonly userMs: number | undefined;
  readonly siteMs: number | undefined;
  readonly createdMs: number;
  /** Whether this leader got it as the answer to its own write, so that no user can have changed it. */
  readonly isAnswer: boolean;
  /** It waits for finalizers. */
  readonly isTerminating: boolean;
}

/** The version that a member holds, as the PolicyRecord in it says. */
export interface HeldRecord {
  /** `Stale`: a user's policy of a member that was away for too long. `Absent`: no version. */
  readonly state: Version['state'] | 'Stale' | 'Absent';
  /** Undefined only for `Absent`. */
  readonly stamp: Stamp | undefined;
  readonly versionHash: string;
  /** Of what the server stored. For `Ended`: empty, unless a user's object with the annotation stayed. */
  readonly storedHash: string;
  readonly objectUID: string;
  readonly objectVersion: string;
  readonly namespaceUID: string;
  readonly crdUID: string;
  /** Since when all members know of the deletion. */
  readonly settledMs: number | undefined;
}

/** One member, as the leader of the target sees it. */
export interface PolicyView {
  readonly clusterID: string;
  /** Whether its objects are followed at this moment. */
  readonly isReady: boolean;
  /** Whether what is cached of it counts: it was read, and has not been out of reach for too long. */
  readonly isUsable: boolean;
  /** Whether its versions count. Federation can say that a member only receives policies. */
  readonly isOrigin: boolean;
  /** When a leader last compared its policies with those of others. */
  readonly syncedMs: number | undefined;
  readonly object: HeldObject | undefined;
  /** Undefined also where it is forged. */
  readonly record: HeldRecord | undefined;
}

/** Where the object is, or would be. */
export interface Place {
  /** Whether the member serves the kind. */
  readonly isServed: boolean;
  /** Of the CRD; empty for a built-in kind. Undefined while it is not known. */
  readonly crdUID: string | undefined;
  /** Policies of the whole cluster are always in an open one, with an empty UID. */
  readonly namespace: 'open' | 'closing' | 'missing';
  readonly namespaceUID: string;
}

/** What the leader saw happen, and when, while it followed the member without a gap. */
export type Sighting =
  | { readonly type: 'changed'; readonly resourceVersion: string; readonly atMs: number }
  /** `place` is where the deleted policy was. */
  | {
      readonly type: 'deleted';
      readonly atMs: number;
      readonly place: Pick<Place, 'crdUID' | 'namespaceUID'>;
    };

export interface TargetView extends PolicyView {
  readonly place: Place;
  /** Whether object and place were read from the API server for this decision, and not from the cache. */
  readonly isFresh: boolean;
  /** Whether the leader wrote the object right before this decision. */
  readonly isWritten: boolean;
  readonly sighting: Sighting | undefined;
  /** Why the API server refused a version, for as long as it is not sent again. */
  readonly refusal: { readonly stamp: Stamp; readonly message: string } | undefined;
}
