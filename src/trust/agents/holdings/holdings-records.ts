// The record of what an agent held when its last stream ended: the trust domains that it trusts while it is not
// connected, peers or not. The commit that releases the claim writes it. Without a record, the site does not know.

import { recordReader } from '../../../core/store/reader.ts';
import { holdingsCollection } from '../../join/member-records.ts';

export { holdingsCollection };

export interface HoldingsRecord {
  /** Names of trust domains, in order. */
  readonly peers: readonly string[];
}

export const holdingsReader = recordReader<HoldingsRecord>(holdingsCollection);
