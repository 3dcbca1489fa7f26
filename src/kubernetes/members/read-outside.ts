// Makes the objects that reflectors cache out of NativeServices and VirtualMachines, which stand for services
// outside Kubernetes: only the fields that the plane uses, each of its type. Never throws. Pure.

import type { NativeService } from '../../api/kinds/native-service.ts';
import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { memberAnnotations, serviceTags } from '../names.ts';
import type { Protocol } from '../objects.ts';
import { compact, itemsIn, labelIn, portIn, recordIn, textIn } from './field-values.ts';
import { metaIn, picked } from './read-meta.ts';
import { conditionIn, isPortName, isProtocol, protocolIn } from './read-objects.ts';

/** As the CRDs allow. */
const most = { interfaces: 100, ports: 250, conditions: 64 } as const;

/** Interfaces and ports that are not as the CRD wants them are left out. */
export function readNativeService(object: NativeService & KubeObject): NativeService & KubeObject {
  const { apiVersion, kind, metadata, spec } = object as unknown as Readonly<
    Record<string, unknown>
  >;
  return {
    apiVersion,
    kind,
    metadata: { creationTimestamp: '', ...metaIn(metadata) },
    spec: placeIn(spec),
  } as unknown as NativeService & KubeObject;
}

const tags: ReadonlySet<string> = new Set([
  ...serviceTags,
  ...memberAnnotations.global,
  ...memberAnnotations.namespaced,
]);

export function readVirtualMachine(
  object: VirtualMachine & KubeObject,
): VirtualMachine & KubeObject {
  const { apiVersion, kind, metadata, spec, status } = object as unknown as Readonly<
    Record<string, unknown>
  >;
  const from = recordIn(spec);
  return {
    apiVersion,
    kind,
    metadata: metaIn(metadata),
    spec: compact<VirtualMachine['spec']>({
      id: textIn(from['id']),
      tags: picked(from['tags'], (key) => tags.has(key)),
      ...placeIn(spec),
    }),
    status: compact<NonNullable<VirtualMachine['status']>>({
      service: textIn(recordIn(status)['service']),
      conditions: itemsIn(recordIn(status)['conditions'], most.conditions, conditionIn),
    }),
  } as unknown as VirtualMachine & KubeObject;
}

/** Where it is, and what it serves there. */
function placeIn(spec: unknown): NativeService['spec'] {
  const from = recordIn(spec);
  return {
    networkInterfaces: itemsIn(from['networkInterfaces'], most.interfaces, (item) => {
      const { externalIP, internalIP } = recordIn(item);
      const own = compact<{ externalIP?: string; internalIP?: string }>({
        externalIP: textIn(externalIP),
        internalIP: textIn(internalIP),
      });
      return Object.keys(own).length === 0 ? undefined : own;
    }),
    ports: itemsIn(from['ports'], most.ports, (item) => {
      const { name, port, protocol } = recordIn(item);
      const number = portIn(port);
      if (number === undefined || !isProtocol(protocol) || !isPortName(name)) return undefined;
      return compact<{ name?: string; port: number; protocol: Protocol }>({
        name: labelIn(name),
        port: number,
        protocol: protocolIn(protocol) ?? 'TCP',
      });
    }),
  };
}
