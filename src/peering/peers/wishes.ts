// Records who asked to suspend, resume or delete a peer, because a controller does it later. The
// commit of the request writes the record into a collection that no API serves, so users cannot forge it.

import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import type { Requester } from '../../core/access/audit-draft.ts';
import type { Accompaniment } from '../../core/plane/plane.ts';
import type { WriteAs } from '../../core/reconcile/resource-client.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

export const wishesCollection = 'peering.wishes';

type DesiredState = NonNullable<FederationPeer['spec']['desiredState']>;

/** Stored under the name of the peer. */
interface Wishes {
  /** The uid of the peer. A new peer of the same name ignores the record. */
  readonly uid: string;
  readonly desiredState?: Wish & { readonly value: DesiredState };
  readonly deletion?: Wish;
}

interface Wish {
  readonly by: Requester;
  /** The uid of the Approval that allowed it. */
  readonly approval?: string;
}

const wishesReader = recordReader<Wishes>(wishesCollection);

type Peer = Pick<Resource, 'metadata' | 'spec'>;

/** The record to write with a change of a peer, and the meaning of the change in the audit log. */
export function wishesOf(
  store: Pick<Store, 'get'>,
  kind: Kind,
  next: Peer | undefined,
  live: Peer | undefined,
  by: Requester,
  approval?: string,
): Accompaniment | undefined {
  if (kind.kind !== federationPeerKind.kind) return undefined;
  const name = (next ?? live)?.metadata.name ?? '';
  if (next === undefined) {
    return store.get(wishesCollection, name) === undefined
      ? undefined
      : { delete: [{ collection: wishesCollection, name }] };
  }
  const value = desiredStateOf(next) ?? 'active';
  const isNewState = value !== (desiredStateOf(live) ?? 'active');
  const isDeletion =
    next.metadata.deletionTimestamp !== undefined && live?.metadata.deletionTimestamp === undefined;
  if (!isNewState && !isDeletion) return undefined;
  const { uid } = next.metadata;
  const wish: Wish = { by, ...(approval === undefined ? {} : { approval }) };
  const wishes: Wishes = {
    ...read(store, name, uid),
    uid,
    ...(isNewState ? { desiredState: { value, ...wish } } : {}),
    ...(isDeletion ? { deletion: wish } : {}),
  };
  const bytes = Buffer.from(JSON.stringify(wishes));
  const verb = value === 'suspended' ? 'suspend' : 'resume';
  return {
    put: [{ collection: wishesCollection, name, encode: () => bytes }],
    ...(isNewState ? { meaning: `asks to ${verb} the peer` } : {}),
  };
}

/** The caller on whose behalf the controller takes a step. */
export interface AskedBy {
  readonly user: string;
  readonly as: WriteAs;
}

/** The caller who asked for the desired state of the peer. */
export function askedForState(
  store: Pick<Store, 'get'>,
  { metadata, spec }: FederationPeer,
  writes: WriteAs,
): AskedBy | undefined {
  const wish = read(store, metadata.name, metadata.uid)?.desiredState;
  return wish?.value === (spec.desiredState ?? 'active') ? askedBy(wish.by, writes) : undefined;
}

export function askedForDeletion(
  store: Pick<Store, 'get'>,
  { metadata }: FederationPeer,
  writes: WriteAs,
): AskedBy | undefined {
  const by = read(store, metadata.name, metadata.uid)?.deletion?.by;
  return by && askedBy(by, writes);
}

function askedBy({ caller, origin }: Requester, writes: WriteAs): AskedBy {
  return { user: caller.user, as: { ...writes, caller, origin } };
}

function read(store: Pick<Store, 'get'>, name: string, uid: string): Wishes | undefined {
  const wishes = wishesReader.get(store, name);
  return wishes?.uid === uid ? wishes : undefined;
}

function desiredStateOf(peer: Peer | undefined): DesiredState | undefined {
  return (peer?.spec as FederationPeer['spec'] | undefined)?.desiredState;
}
