// The part of a member that the member controller uses. `Member` has all of it.

import type { NativeService } from '../../api/kinds/native-service.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import type { Reflector } from '../../core/kube/reflector/reflector.ts';
import type { Member } from '../members/member.ts';
import type { ServiceExport, ServiceImport } from '../mcs/mcs-objects.ts';
import type { EndpointSlice, Namespace, Node, Service } from '../objects.ts';
import { UsableAddresses } from '../services/usable-address.ts';

export type Cached<T extends KubeObject, I extends string = never> = Pick<
  Reflector<T, I>,
  'byKey' | 'byIndex' | 'objects' | 'isSynced' | 'onChange'
>;

export interface SyncedMember
  extends Pick<Member, 'clusterID' | 'settings' | 'state' | 'isRead'>,
    Partial<Pick<Member, 'isHome' | 'admittedAt'>> {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>;
  readonly services: Cached<Service, 'federated'>;
  readonly slices: Cached<EndpointSlice, 'service'>;
  readonly nodes: Cached<Node>;
  readonly namespaces: Cached<Namespace>;
  readonly nativeServices: Cached<NativeService & KubeObject, 'federated'>;
  /** Only the part for exported Services uses them. */
  readonly serviceExports?: Cached<ServiceExport> & Pick<Reflector<ServiceExport>, 'status'>;
  readonly serviceImports?: Cached<ServiceImport> & Pick<Reflector<ServiceImport>, 'status'>;
}

export interface SyncedMembers {
  get(clusterID: string): SyncedMember | undefined;
  list(): readonly SyncedMember[];
  onChange(listener: (clusterID: string) => void): () => void;
}

/** Whether objects can be created in the namespace. */
export function isOpen(
  { namespaces }: { readonly namespaces: Pick<Cached<Namespace>, 'byKey'> },
  name: string,
): boolean {
  const found = namespaces.byKey(name);
  return (
    found !== undefined &&
    found.metadata.deletionTimestamp === undefined &&
    found.status?.phase !== 'Terminating'
  );
}

const usable = new WeakMap<SyncedMember['settings'], UsableAddresses>();

/** The addresses of a member that other members may get. */
export function usableOf({ settings }: Pick<SyncedMember, 'settings'>): UsableAddresses {
  let found = usable.get(settings);
  if (found === undefined) {
    found = new UsableAddresses(settings.endpointPrefixes ?? []);
    usable.set(settings, found);
  }
  return found;
}
