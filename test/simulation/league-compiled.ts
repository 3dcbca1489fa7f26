// What the compilers of the kubernetes plane say that a cluster must hold, from the objects of all clusters.
// The scenario compares it with what the clusters hold in the end.

import type { NativeService } from '../../src/api/kinds/native-service.ts';
import type { VirtualMachine } from '../../src/api/kinds/virtual-machine.ts';
import { annotatedCopies } from '../../src/kubernetes/copies/annotated-copies.ts';
import { findTenancy } from '../../src/kubernetes/copies/find-tenancy.ts';
import type { MemberSettings } from '../../src/kubernetes/members/member.ts';
import { isReachedByPods } from '../../src/kubernetes/copies/collect-inputs.ts';
import { serviceNameLabel } from '../../src/kubernetes/names.ts';
import type { EndpointSlice, Node, Service } from '../../src/kubernetes/objects.ts';
import { compileCopy, hasSelector, isCopy } from '../../src/kubernetes/services/compile-copy.ts';
import {
  compilePlan,
  type MemberInput,
  type Participant,
  type Plan,
} from '../../src/kubernetes/services/compile-plan.ts';
import {
  compileAddressSlices,
  compilePodSlices,
} from '../../src/kubernetes/services/compile-slices.ts';
import {
  federatedRefOf,
  type FederatedRef,
  isRef,
  keyOfRef,
} from '../../src/kubernetes/services/federated-name.ts';
import {
  addressesOfNode,
  memberOfNativeService,
  memberOfService,
  type MemberPort,
} from '../../src/kubernetes/services/member-service.ts';
import { isSource } from '../../src/kubernetes/services/slice-source.ts';
import { compileVmService } from '../../src/kubernetes/vms/compile-vm-service.ts';
import { compileVmSlices } from '../../src/kubernetes/vms/compile-vm-slices.ts';
import { isVmService } from '../../src/kubernetes/vms/vm-marks.ts';
import { serviceOfVm } from '../../src/kubernetes/vms/vm-tags.ts';
import { UsableAddresses } from '../../src/kubernetes/services/usable-address.ts';

export const systemNamespace = 'hansa-system';

/** The objects of one cluster. */
export interface ClusterView {
  readonly clusterID: string;
  readonly settings: MemberInput['settings'] & Pick<MemberSettings, 'clusterID' | 'supervisor'>;
  readonly services: readonly Service[];
  readonly slices: readonly EndpointSlice[];
  readonly nodes: readonly Node[];
  readonly nativeServices: readonly NativeService[];
  readonly virtualMachines: readonly VirtualMachine[];
  readonly namespaces: readonly string[];
}

export interface WantedCopy {
  readonly copy: Service;
  /** What is in its place now. */
  readonly live: Service | undefined;
  readonly slices: readonly EndpointSlice[];
}

/** By NAMESPACE/NAME. Copies whose place a user has taken are not wanted. */
export function compileLeague(
  views: readonly ClusterView[],
  target: ClusterView,
): ReadonlyMap<string, WantedCopy> {
  const wanted = new Map<string, WantedCopy>();
  for (const { ref, inputs } of inputsOf(views, target).values()) {
    const key = `${ref.namespace}/${ref.name}`;
    const live = target.services.find((each) => keyOfObject(each) === key);
    const tenancy = findTenancy({
      rules: annotatedCopies(systemNamespace),
      ref,
      target,
      members: views.map((view) => ({
        ...view,
        isRead: true,
        state: { state: 'Ready' },
        services: { byKey: (own) => view.services.find((each) => keyOfObject(each) === own) },
      })),
      live,
      // All that is in effect must be recorded in the end.
      nowMs: 0,
    });
    const plan = compilePlan(ref, target.clusterID, inputs, true, tenancy);
    const copy = compileCopy(plan, live);
    const isTaken = live !== undefined && (!isCopy(live) || hasSelector(live));
    if (copy === undefined || isTaken || !target.namespaces.includes(ref.namespace)) continue;
    wanted.set(key, { copy, live, slices: live === undefined ? [] : slicesOf(plan, live, views) });
  }
  return wanted;
}

/** The VM Services of a cluster, by NAMESPACE/NAME. Those whose place a user or a copy has are not wanted. */
export function compileVms(view: ClusterView): ReadonlyMap<string, WantedCopy> {
  const groups = Map.groupBy(view.virtualMachines, (vm) => {
    const service = serviceOfVm(vm, systemNamespace);
    return typeof service === 'string' ? keyOfObject(named(vm, service)) : undefined;
  });
  const wanted = new Map<string, WantedCopy>();
  for (const [key, vms] of groups) {
    if (key === undefined) continue;
    const [namespace = '', name = ''] = key.split('/');
    const { clusterID } = view;
    const { service, backends } = compileVmService({
      clusterID,
      namespace,
      name,
      vms,
      systemNamespace,
    });
    const live = view.services.find((each) => keyOfObject(each) === key);
    const isTaken = live !== undefined && (!isVmService(live) || hasSelector(live));
    if (service === undefined || isTaken) continue;
    const slices = live === undefined ? [] : compileVmSlices(live, backends);
    wanted.set(key, { copy: service, live, slices });
  }
  return wanted;
}

const named = ({ metadata }: VirtualMachine, name: string): Pick<Service, 'metadata'> => ({
  metadata: { ...(metadata as Service['metadata']), name },
});

export const keyOfObject = ({ metadata }: Pick<Service, 'metadata'>): string =>
  `${metadata.namespace ?? ''}/${metadata.name}`;

interface Federated {
  readonly ref: FederatedRef;
  readonly inputs: MemberInput[];
}

function inputsOf(
  views: readonly ClusterView[],
  target: ClusterView,
): ReadonlyMap<string, Federated> {
  const found = new Map<string, Federated>();
  const add = (ref: FederatedRef, input: MemberInput): void => {
    const key = keyOfRef(ref);
    const known = found.get(key) ?? { ref, inputs: [] };
    known.inputs.push(input);
    found.set(key, known);
  };
  for (const view of views) {
    const { clusterID, settings } = view;
    const isLocal = clusterID === target.clusterID;
    for (const service of view.services) {
      const ref = federatedRefOf(service.metadata, systemNamespace);
      if (!isRef(ref) || isCopy(service)) continue;
      const member = memberOfService(clusterID, ref, service);
      const sources = sourcesOf(view, keyOfObject(service));
      const readyPorts = member.ports.filter(
        (port) => isLocal && sources.some((source) => givesReady(port, source)),
      );
      add(ref, { service: member, fate: 'use', settings, readyPorts });
    }
    for (const native of view.nativeServices) {
      const ref = federatedRefOf(native.metadata, systemNamespace);
      if (!isRef(ref)) continue;
      const member = memberOfNativeService(clusterID, ref, native);
      add(ref, { service: member, fate: 'use', settings, readyPorts: isLocal ? member.ports : [] });
    }
  }
  return found;
}

function slicesOf(
  plan: Plan,
  copy: Service,
  views: readonly ClusterView[],
): readonly EndpointSlice[] {
  return [...plan.participants.values()].flatMap((participant) => {
    const { service, isLocal } = participant;
    const view = views.find(({ clusterID }) => clusterID === service.clusterID);
    if (view === undefined) return [];
    const usable = new UsableAddresses(view.settings.endpointPrefixes ?? []);
    if (isReachedByPods(service, isLocal)) {
      return sourcesOf(view, `${service.namespace}/${service.name}`).flatMap(
        (source) => compilePodSlices(copy, participant, source, usable).slices,
      );
    }
    return compileAddressSlices(copy, participant, addressesOf(participant, view), usable).slices;
  });
}

function addressesOf(
  { service: { exposure } }: Participant,
  { nodes }: ClusterView,
): readonly string[] {
  if (exposure.by === 'nodes') {
    return nodes.flatMap((node) => addressesOfNode(node, exposure.families));
  }
  return exposure.by === 'addresses' || exposure.by === 'loadBalancer' ? exposure.addresses : [];
}

/** The slices of a Service that Kubernetes made, not those of its copy. */
function sourcesOf({ slices }: ClusterView, key: string): readonly EndpointSlice[] {
  return slices.filter(
    (slice) =>
      isSource(slice) &&
      `${slice.metadata.namespace ?? ''}/${slice.metadata.labels?.[serviceNameLabel]}` === key,
  );
}

/** A user may have changed the ports of the Service, so that none of them is in its slices. */
const givesReady = (own: MemberPort, { endpoints, ports }: EndpointSlice): boolean =>
  (endpoints ?? []).some(({ conditions = {} }) => conditions.ready !== false) &&
  (ports ?? []).some(
    ({ name = '', protocol = 'TCP' }) => own.name === name && own.protocol === protocol,
  );
