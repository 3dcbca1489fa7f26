// Decides for the machines of one Service what that Service looks like, which of its ports each machine
// serves, and what each machine is told. Pure.

import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import {
  deletingAnnotation,
  managedByLabel,
  memberAnnotations,
  taggedAnnotation,
  vmAnnotation,
  vmManager,
} from '../names.ts';
import type { ObjectMeta, Service } from '../objects.ts';
import { type AgreedPort, agreePorts, byAge, type PortVoter } from '../services/agree-ports.ts';
import { isSameCopy, plainSpec, repairedCopy } from '../services/compile-copy.ts';
import { conflictText, type Outcome } from '../services/compile-plan.ts';
import { type AnnotatedRef, isRef, keyOfRef } from '../services/federated-name.ts';
import { keyOfMember } from '../services/member-service.ts';
import { familyOf } from '../services/usable-address.ts';
import { federationOfVm, type VmProblem } from './vm-tags.ts';

export interface VmGroup {
  readonly clusterID: string;
  readonly namespace: string;
  /** Of the Service. */
  readonly name: string;
  /** All machines whose tags name it. */
  readonly vms: readonly VirtualMachine[];
  readonly systemNamespace: string;
}

/** A machine that the Service leads to. */
export interface Backend {
  /** Of the machine. */
  readonly name: string;
  readonly addresses: readonly string[];
  readonly ports: readonly AgreedPort[];
}

export interface VmServicePlan {
  /** Undefined where no machine has a port, because a Service needs one. */
  readonly service: Service | undefined;
  /** The oldest first. */
  readonly backends: readonly Backend[];
  /** By name of the machine. */
  readonly outcomes: ReadonlyMap<string, Outcome>;
}

export function compileVmService(group: VmGroup): VmServicePlan {
  const machines = group.vms.map((vm) => machineOf(vm, group)).toSorted(byAge);
  const { ports, mappings, conflicts } = agreePorts(machines);
  const deciding = machines.find(({ federation }) => isRef(federation));
  const federated = isRef(deciding?.federation) ? deciding.federation : undefined;
  /** Address → the first machine that has it. */
  const owners = new Map<string, string>();
  const backends: Backend[] = [];
  const outcomes = new Map<string, Outcome>();
  for (const machine of machines) {
    const { name, addresses } = machine;
    const own = mappings.get(keyOfMember(machine)) ?? [];
    const clashes = conflicts.get(keyOfMember(machine)) ?? [];
    const owner = addresses.map((address) => owners.get(address)).find((one) => one !== undefined);
    for (const address of addresses) if (!owners.has(address)) owners.set(address, name);
    if (own.length > 0 && addresses.length > 0) {
      backends.push({ name, addresses, ports: uniquePorts(own.map(({ agreed }) => agreed)) });
    }
    outcomes.set(
      name,
      firstOf(
        portOutcome(own.length, clashes.map(conflictText)),
        addresses.length === 0 ? noAddress : undefined,
        clashes.length === 0
          ? undefined
          : told('PortConflict', clashes.map(conflictText).join(' ')),
        federationOutcome(machine, deciding),
        owner === undefined
          ? undefined
          : told('AddressInUse', `The machine ${owner} has the same address and is older.`),
      ) ?? told('Published', `It is a backend of the Service ${group.namespace}/${group.name}.`),
    );
  }
  return { service: serviceOf(group, ports, federated), backends, outcomes };
}

interface Machine extends PortVoter {
  readonly addresses: readonly string[];
  readonly federation: AnnotatedRef | VmProblem | undefined;
}

function machineOf(vm: VirtualMachine, { clusterID, name, systemNamespace }: VmGroup): Machine {
  const { metadata, spec } = vm;
  const { networkInterfaces = [], ports = [] } = spec;
  return {
    clusterID,
    kind: 'VirtualMachine',
    namespace: (metadata as ObjectMeta).namespace ?? '',
    name: metadata.name,
    createdAt: metadata.creationTimestamp,
    ports: ports.map(({ name: own = '', port, protocol }) => ({
      name: own,
      port,
      protocol,
      appProtocol: undefined,
      outside: port,
    })),
    addresses: networkInterfaces
      .flatMap(({ externalIP, internalIP }) => externalIP ?? internalIP ?? [])
      .filter((address) => familyOf(address) !== undefined),
    federation: federationOfVm(vm, name, systemNamespace),
  };
}

/** Two ports of a machine can be one port of the Service only if a cluster sent what its CRD does not allow. */
function uniquePorts(ports: readonly AgreedPort[]): readonly AgreedPort[] {
  return [...new Set(ports)];
}

const told = (reason: string, message: string): Outcome => ({ status: 'True', reason, message });
const no = (reason: string, message: string): Outcome => ({ status: 'False', reason, message });

const noAddress = no(
  'NoAddress',
  'It has no address that an endpoint can have. Add one to networkInterfaces.',
);

const firstOf = (...outcomes: readonly (Outcome | undefined)[]): Outcome | undefined =>
  outcomes.find((one) => one !== undefined);

function portOutcome(mapped: number, clashes: readonly string[]): Outcome | undefined {
  if (mapped > 0) return undefined;
  return clashes.length === 0
    ? no('NoPorts', 'It has no ports. Add one.')
    : no('PortConflict', clashes.join(' '));
}

/** The oldest machine that names a federated Service decides for all. One that names none agrees with it. */
function federationOutcome(
  { federation, name }: Machine,
  deciding: Machine | undefined,
): Outcome | undefined {
  if (federation === undefined) return undefined;
  if (!isRef(federation)) return told(federation.reason, federation.message);
  const winner = deciding?.federation;
  if (!isRef(winner) || keyOfRef(winner) === keyOfRef(federation)) return undefined;
  return told(
    'FederationConflict',
    `Its tags name the federated Service ${keyOfRef(federation)}, and those of ${deciding?.name ?? name} name ${keyOfRef(winner)}, which is older and decides. Use the same tag for all machines of a Service.`,
  );
}

function serviceOf(
  { namespace, name }: VmGroup,
  ports: readonly AgreedPort[],
  federated: AnnotatedRef | undefined,
): Service | undefined {
  if (ports.length === 0) return undefined;
  const [key = ''] = federated === undefined ? [] : memberAnnotations[federated.scope];
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace,
      labels: { [managedByLabel]: vmManager },
      annotations: {
        [vmAnnotation]: name,
        ...(federated !== undefined && { [key]: federated.name, [taggedAnnotation]: key }),
      },
    },
    spec: plainSpec(ports),
  };
}

export function isSameVmService(wanted: Service, live: Service): boolean {
  const [want, have] = [wanted, live].map(
    ({ metadata }) => metadata.annotations?.[taggedAnnotation],
  );
  return want === have && isSameCopy(wanted, live);
}

const memberKeys: ReadonlySet<string> = new Set([
  ...memberAnnotations.global,
  ...memberAnnotations.namespaced,
]);

/** An annotation for federation that a user set by hand stays. One that came from a tag goes with the tag. */
export function repairedVmService(wanted: Service, live: Service): Service {
  const annotations = { ...live.metadata.annotations };
  const tagged = annotations[taggedAnnotation];
  if (tagged !== undefined && memberKeys.has(tagged)) delete annotations[tagged];
  delete annotations[taggedAnnotation];
  delete annotations[deletingAnnotation];
  return repairedCopy(wanted, { ...live, metadata: { ...live.metadata, annotations } });
}
