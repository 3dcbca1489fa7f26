// The controller of one marked cluster: does the work that the Cluster is marked for, and writes into the status of
// the Cluster how that goes.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import type { ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import { changeSource, type Source } from '../../core/reconcile/source.ts';
import type { Mark } from '../marked/marks.ts';

/** The key of the status of the Cluster. The work has other keys. */
const statusKey = '';
/** Between two writes of the status. Users of the cluster decide how often it changes. */
const pauseMs = 10_000;
/** The first write soon after the start, when the first objects are read. */
const firstPauseMs = 500;

type ClusterStatus = NonNullable<Cluster['status']>;

export interface MarkedController {
  readonly clusters: ResourceClient<Cluster>;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly mark: Mark;
  /** Of the controllers of all clusters. */
  readonly name: string;
  readonly work: {
    readonly cluster: Cluster;
    sources(): readonly Source[];
    /** Called when `statusOf` may return something else. Returns how to stop. */
    onChange(listener: () => void): () => void;
  };
  readonly reconcile: (
    key: string,
    run: ReconcileContext,
    fence: WriteAs['fence'],
  ) => Promise<ReconcileResult | undefined>;
  readonly statusOf: (cluster: Cluster, nowMs: number) => ClusterStatus;
}

export function markedController(options: MarkedController): Controller {
  const { clusters, clock, mark, work, statusOf } = options;
  const { name, uid } = work.cluster.metadata;
  const lease = `controller.${options.name}.${name}`;
  let nextMs = clock.monotonic() + firstPauseMs;

  const writeStatus = async (as: WriteAs): Promise<ReconcileResult | undefined> => {
    const waitMs = nextMs - clock.monotonic();
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const before = clock.monotonic();
    let isWritten = false;
    await clusters.patchStatus(
      name,
      (current) => {
        if (current.metadata.uid !== uid || current.spec[mark] === undefined) {
          return current.status ?? {};
        }
        isWritten = true;
        return statusOf(current, clock.now());
      },
      as,
    );
    if (isWritten) nextMs = before + pauseMs;
    return undefined;
  };

  return {
    name: `${options.name}-${name}`,
    lease,
    sources: [...work.sources(), changeSource((listener) => work.onChange(listener), [statusKey])],
    reconcile: (key, run) => {
      const fence = run.epoch === undefined ? undefined : { lease, epoch: run.epoch };
      return key === statusKey
        ? writeStatus({ controller: options.name, ...(fence && { fence }) })
        : options.reconcile(key, run, fence);
    },
  };
}
