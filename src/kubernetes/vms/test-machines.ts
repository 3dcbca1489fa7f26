// Machines for tests.

import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import { clustersGroup } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';

export type MachineSpec = VirtualMachine['spec'];

/** The machine shop/NAME with the tag for the Service `web`, one address and the port http. */
export function machine(
  name: string,
  spec: Partial<MachineSpec> = {},
  creationTimestamp = '2026-01-01T00:00:00Z',
): VirtualMachine {
  return {
    apiVersion: `${clustersGroup}/${version}`,
    kind: 'VirtualMachine',
    metadata: {
      name,
      namespace: 'shop',
      creationTimestamp,
    },
    spec: {
      tags: { 'svc.hansa.dev': 'web' },
      networkInterfaces: [{ internalIP: '10.1.0.1' }],
      ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
      ...spec,
    },
  } as unknown as VirtualMachine;
}
