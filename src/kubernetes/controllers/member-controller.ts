// The controller of one member that this site leads. Parts do its work: each has its own keys, and all share
// the Lease of the member and its epoch.

import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import type { RunningSource, Source, SourceSink } from '../../core/reconcile/source.ts';
import { leaseName } from '../names.ts';

/** Runs for one member at once. The writes that one cluster causes take half of them at most. */
export const parallelism = 16;
/** Of one run; a request has ten seconds. */
const timeoutMs = 30_000;
/** A member that does not answer is asked again soon: others are not delayed by it. */
const backOff = { firstMs: 50, longestMs: 30_000 } as const;

/** One kind of work in a member, such as the copies of Services. */
export interface MemberPart {
  /** Before its keys. Unique among the parts of a member, in lower case. */
  readonly name: string;
  /** Called at the begin of each term. What it learned in an earlier one no longer counts. */
  start(sink: SourceSink): RunningSource;
  /** The contract of `Controller.reconcile`. */
  reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | undefined>;
}

/** Not in the name of a part. */
const separator = ':';

export function memberController(clusterID: string, parts: readonly MemberPart[]): Controller {
  return {
    name: `league-${clusterID}`,
    lease: leaseName,
    parallelism,
    timeoutMs,
    backOff,
    sources: parts.map(sourceOf),
    reconcile: async (key, context) => {
      const end = key.indexOf(separator);
      const part = parts.find(({ name }) => name === key.slice(0, end));
      return part?.reconcile(key.slice(end + 1), context);
    },
  };
}

function sourceOf(part: MemberPart): Source {
  return {
    start: (sink) =>
      part.start({
        add: (key) => sink.add(`${part.name}${separator}${key}`),
        ended: (error) => sink.ended(error),
      }),
  };
}
