// The part of the member controller that imports exported Services, as the Multi-Cluster Services API (KEP-1645)
// describes it.

import type { MemberPart } from '../controllers/member-controller.ts';
import { partWith } from '../copies/copies-part.ts';
import type { SyncOptions } from '../copies/sync-term.ts';
import { importRules } from './import-rules.ts';

export function mcsPart(options: SyncOptions): MemberPart {
  return partWith('mcs', options, (sink) => importRules(options, sink));
}
