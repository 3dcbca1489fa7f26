// The lease epoch that agents get with every state. It grows with every new holder, so an agent can tell
// a site that took over from one that was left behind. The holder of the lease writes it into the store,
// so that every replica reads it at the same revision as the rest of the state.

import { commitFenced } from '../../core/lease/current-fence.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

/** The lease of the controller of agents. */
export const agentsLease = 'controller.agents';
export const epochCollection = 'trust.agent-epoch';
const epochName = 'current';

export interface EpochRecord {
  readonly epoch: number;
}

const reader = recordReader<EpochRecord>(epochCollection);

/** 0 before the first holder. */
export function agentEpoch(store: Pick<Store, 'get'>): number {
  return reader.get(store, epochName)?.epoch ?? 0;
}

/** For the holder of the lease. Writes once per holder. */
export async function keepEpoch(
  store: Pick<Store, 'get' | 'commit'>,
  epoch: number | undefined,
): Promise<void> {
  if (epoch === undefined || epoch <= agentEpoch(store)) return;
  const bytes = Buffer.from(JSON.stringify({ epoch } satisfies EpochRecord));
  await commitFenced(store, {
    put: [{ collection: epochCollection, name: epochName, encode: () => bytes }],
    fence: { lease: agentsLease, epoch },
  });
}
