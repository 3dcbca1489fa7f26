// The part of the member controller that makes Services out of tagged VirtualMachines.

import type { MemberPart } from '../controllers/member-controller.ts';
import { syncMachine } from './sync-machine.ts';
import { syncVmService } from './sync-vm-service.ts';
import { VmEvents } from './vm-events.ts';
import { parseVmKey } from './vm-keys.ts';
import { type VmOptions, VmTerm } from './vm-term.ts';

export function vmsPart(options: VmOptions): MemberPart {
  let term: VmTerm | undefined;
  return {
    name: 'vms',
    start: (sink) => {
      term = new VmTerm(options, sink);
      return new VmEvents(term);
    },
    reconcile: async (key, context) => {
      if (term === undefined) return undefined;
      const { type, name } = parseVmKey(key);
      return type === 'service'
        ? syncVmService(term, name, context)
        : syncMachine(term, name, context);
    },
  };
}
