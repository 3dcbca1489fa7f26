// An agent in the simulation: its real end of the channel, its real store, and a disk that outlives it.

import { AgentLink } from '../../src/core/agent/agent-link.ts';
import { HeldState, type NextState, type StateFloor } from '../../src/core/agent/held-state.ts';
import { ReplicaStore } from '../../src/core/agent/replica-store.ts';
import { type AgentItem, hashState, type StateVersion } from '../../src/core/agent/state.ts';
import { sleep } from '../../src/core/clock/clock.ts';
import { HansaError } from '../../src/core/errors/error.ts';
import type { Store } from '../../src/core/store/store.ts';
import { openChannel } from './agent-channel.ts';
import type { Process } from './simulation.ts';

/** What outlives the process of an agent. */
export interface AgentDisk {
  floor?: StateFloor;
  state?: { readonly version: StateVersion; readonly items: readonly AgentItem[] };
}

const slowestDiskMs = 20;

export interface SimulatedAgent {
  readonly store: Store;
  readonly link: AgentLink;
  readonly version: StateVersion | undefined;
  /** Over the items that it holds. */
  readonly hash: Buffer;
  /** Whether the site has refused it for good. */
  readonly isForgotten: boolean;
}

export interface AgentPlace {
  readonly process: Process;
  readonly disk: AgentDisk;
  /** The replica that it connects to next. */
  readonly replica: () => string;
  /** Called after each accepted state. */
  readonly applied: (store: Store, version: StateVersion) => void;
  /** Called when a state is on the disk. */
  readonly kept: (version: StateVersion) => void;
}

export async function bootAgent(place: AgentPlace): Promise<SimulatedAgent> {
  const { process, disk } = place;
  const { clock, random, log, node } = process;
  const state = new HeldState(
    disk.floor && { floor: disk.floor, ...(disk.state && { state: disk.state }) },
  );
  const replica = await ReplicaStore.open(clock, ['identities'], disk.state?.items);
  let isForgotten = false;
  const link = new AgentLink({
    clock,
    random: random.fork('link'),
    log,
    version: 'simulated',
    host: node,
    state,
    connect: () => openChannel(process, place.replica()),
    problemOf: () => undefined,
    apply: async (next: NextState) => {
      await replica.apply(next);
      place.applied(replica.store, next.version);
    },
    keep: async () => {
      await sleep(clock, random.integer(0, slowestDiskMs));
      const { version } = state;
      if (version === undefined) return;
      const { incarnation, revision, epoch } = version;
      disk.floor = { incarnation, revision, epoch };
      disk.state = { version, items: [...state.items] };
      place.kept(version);
    },
    denied: (error) => {
      if (error.code !== 'HANSA_UNAUTHENTICATED') return Promise.resolve();
      // As the process does: it drops what it serves, and ends.
      isForgotten = true;
      delete disk.state;
      state.drop();
      return Promise.reject(new HansaError('HANSA_UNAUTHENTICATED', error.message));
    },
    report: () => ({ entries: 0, workloads: 0, problems: [] }),
  });
  const agent: SimulatedAgent = {
    store: replica.store,
    link,
    get version() {
      return state.version;
    },
    get hash() {
      return hashState(state.items);
    },
    get isForgotten() {
      return isForgotten;
    },
  };
  const never = new AbortController();
  process.spawn(async () => {
    await link.run(never.signal).catch((error: unknown) => {
      if (!isForgotten) throw error;
    });
  });
  return agent;
}
