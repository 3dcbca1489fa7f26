// The lease epoch that agents get with every state. The holder of the lease writes it into the store,
// so that every replica reads it at the same revision as the rest of the state.

import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

export const agentsLease = 'controller.agents';
export const epochCollection = 'trust.agent-epoch';
export const epochName = 'current';

export interface EpochRecord {
  readonly epoch: number;
}

const reader = recordReader<EpochRecord>(epochCollection);

/** 0 before the first holder. */
export function agentEpoch(store: Pick<Store, 'get'>): number {
  return reader.get(store, epochName)?.epoch ?? 0;
}
