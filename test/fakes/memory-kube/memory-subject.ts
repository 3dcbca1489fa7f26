// The in-memory API server as the conformance suite plays it.

import type { Clock } from '../../../src/core/clock/clock.ts';
import type { Subject } from './kube-conformance.ts';
import { MemoryKube } from './memory-kube.ts';
import { MemoryKubeClient } from './memory-kube-client.ts';

export function memorySubject(clock: Clock): Subject {
  const cluster = new MemoryKube({ clock });
  return {
    client: new MemoryKubeClient({ cluster }),
    compact: async () => cluster.compact(),
  };
}
