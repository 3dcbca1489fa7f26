// Follows the machines of a member, and the Services and slices that were written for them, and names the keys
// that a change affects.

import { jsonEquals } from '../../api/schema/json.ts';
import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import type { RunningSource } from '../../core/reconcile/source.ts';
import { placeOf } from '../copies/live-slices.ts';
import type { EndpointSlice, Namespace, ObjectMeta, Service } from '../objects.ts';
import { machineKey, vmServiceKey } from './vm-keys.ts';
import { isVmService, isVmSlice } from './vm-marks.ts';
import { serviceOfVm } from './vm-tags.ts';
import type { VmTerm } from './vm-term.ts';

type Machine = VirtualMachine & KubeObject;

export class VmEvents implements RunningSource {
  readonly #term: VmTerm;
  readonly #stops: readonly (() => void)[];

  constructor(term: VmTerm) {
    this.#term = term;
    const { virtualMachines, services, slices, namespaces } = term.options.member;
    this.#stops = [
      virtualMachines.onChange((change) => this.#machineChanged(change)),
      services.onChange((change) => this.#serviceChanged(change)),
      slices.onChange((change) => this.#sliceChanged(change)),
      namespaces.onChange((change) => this.#namespaceChanged(change)),
    ];
    this.resync();
  }

  resync(): void {
    const { options, slices, states } = this.#term;
    const { virtualMachines, services } = options.member;
    for (const machine of virtualMachines.objects()) this.#addMachine(machine);
    for (const service of services.objects()) {
      if (isVmService(service)) this.#addService(nameOf(service.metadata));
    }
    for (const service of slices.copies()) this.#addService(service);
    for (const service of states.keys()) this.#addService(service);
  }

  stop(): void {
    for (const stop of this.#stops) stop();
    this.#term.stop();
  }

  #addService(name: string): void {
    this.#term.sink.add(vmServiceKey(name));
  }

  #addMachine(machine: Machine): void {
    const metadata = machine.metadata as ObjectMeta;
    const service = serviceOfVm(machine, this.#term.options.namespace);
    if (typeof service === 'string') this.#addService(nameOf({ ...metadata, name: service }));
    this.#term.sink.add(machineKey(nameOf(metadata)));
  }

  #machineChanged(change: ObjectChange<Machine>): void {
    const isEcho = this.#term.machines.isEcho(change);
    const { key, old, new: now } = change;
    if (old !== undefined && now !== undefined && jsonEquals(partsOf(old), partsOf(now))) {
      // Somebody else may have changed the status.
      if (!isEcho) this.#term.sink.add(machineKey(key));
      return;
    }
    for (const version of [old, now]) if (version !== undefined) this.#addMachine(version);
  }

  #serviceChanged(change: ObjectChange<Service>): void {
    if (this.#term.services.isEcho(change)) return;
    const { key, old, new: now } = change;
    const isOurs = [old, now].some((service) => service !== undefined && isVmService(service));
    if (isOurs || this.#term.states.has(key)) this.#addService(key);
  }

  #sliceChanged(change: ObjectChange<EndpointSlice>): void {
    if (this.#term.slices.heard(change)) return;
    for (const slice of [change.old, change.new]) {
      if (slice !== undefined && isVmSlice(slice)) this.#addService(placeOf(slice).copy);
    }
  }

  #namespaceChanged({ key: namespace }: ObjectChange<Namespace>): void {
    const { options, slices, states } = this.#term;
    const { virtualMachines, services } = options.member;
    // Machines, and what is left of those that are gone, may be known before their namespace, and have no state.
    for (const service of [...states.keys(), ...slices.copies()]) {
      if (service.startsWith(`${namespace}/`)) this.#addService(service);
    }
    for (const service of services.objects()) {
      const { metadata } = service;
      if (metadata.namespace === namespace && isVmService(service))
        this.#addService(nameOf(metadata));
    }
    for (const machine of virtualMachines.objects()) {
      if (machine.metadata.namespace === namespace) this.#addMachine(machine);
    }
  }
}

const nameOf = ({ namespace = '', name }: ObjectMeta): string => `${namespace}/${name}`;

/** What plans depend on. */
const partsOf = ({ metadata, spec }: Machine): unknown => {
  const { uid, creationTimestamp, deletionTimestamp } = metadata as ObjectMeta;
  return [uid, creationTimestamp, deletionTimestamp, spec];
};
