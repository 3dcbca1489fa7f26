// What the part for machines knows in one term of the leader: the last plan of each VM Service, and what it
// wrote itself. It is forgotten when the term ends.

import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import type { SourceSink } from '../../core/reconcile/source.ts';
import { LiveSlices } from '../copies/live-slices.ts';
import { RecentWrites } from '../copies/recent-writes.ts';
import type { Cached, SyncedMember } from '../copies/synced-member.ts';
import type { ObjectMeta, Service } from '../objects.ts';
import type { Outcome } from '../services/compile-plan.ts';
import { machineKey, vmServiceKey } from './vm-keys.ts';
import { isVmSlice } from './vm-marks.ts';

/** A machine as the reflector caches it. */
export type CachedMachine = VirtualMachine & KubeObject & { readonly metadata: ObjectMeta };

/** The member that gets the Services, which is the one that has the machines. */
export interface VmMember
  extends Pick<
    SyncedMember,
    'clusterID' | 'isRead' | 'client' | 'services' | 'slices' | 'namespaces'
  > {
  readonly virtualMachines: Cached<VirtualMachine & KubeObject, 'service'>;
}

export interface VmOptions {
  readonly member: VmMember;
  readonly clock: Clock;
  /** The system namespace. */
  readonly namespace: string;
}

/** What the machines of one Service are told, by name. */
export interface VmServiceState {
  readonly outcomes: ReadonlyMap<string, Outcome>;
}

export class VmTerm {
  readonly options: VmOptions;
  readonly sink: Pick<SourceSink, 'add'>;
  readonly client: VmMember['client'];
  readonly services: RecentWrites<Service>;
  readonly slices: LiveSlices;
  readonly machines: RecentWrites<CachedMachine>;
  /** By NAMESPACE/NAME of the Service. */
  readonly states = new Map<string, VmServiceState>();
  /** When the status of a machine was last written, in monotonic time. By NAMESPACE/NAME. */
  readonly toldMs = new Map<string, number>();

  constructor(options: VmOptions, sink: Pick<SourceSink, 'add'>) {
    const { member, clock } = options;
    this.options = options;
    this.sink = sink;
    this.client = member.client;
    const addService = (name: string): void => sink.add(vmServiceKey(name));
    this.services = new RecentWrites(clock, (key) => member.services.byKey(key), addService);
    this.slices = new LiveSlices(clock, member.slices, { isOwnSlice: isVmSlice }, ({ copy }) =>
      addService(copy),
    );
    this.machines = new RecentWrites(
      clock,
      (key) => member.virtualMachines.byKey(key),
      (name) => sink.add(machineKey(name)),
    );
  }

  /** Ends its timers. */
  stop(): void {
    for (const writes of [this.services, this.slices, this.machines]) writes.stop();
  }
}
