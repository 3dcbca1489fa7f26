// The link of an agent with a site in memory, for tests.

import { SeededRandom } from '../clock/seeded-random.ts';
import { VirtualClock } from '../clock/virtual.ts';
import type { HansaError } from '../errors/error.ts';
import { AgentLink, type AgentLinkParts, type AgentReport } from './agent-link.ts';
import { HeldState, type NextState } from './held-state.ts';
import { hashState } from './state.ts';
import { TestSite } from './test-site.ts';
import { silentLog } from '../log/test-log.ts';

export interface Scene {
  readonly clock: VirtualClock;
  readonly site: TestSite;
  readonly state: HeldState;
  readonly link: AgentLink;
  readonly applied: NextState[];
  readonly denials: HansaError[];
  report: AgentReport;
  /** Settles when the link has stopped. */
  readonly ran: Promise<unknown>;
  readonly stop: () => Promise<void>;
}

export function scene(
  options: Partial<AgentLinkParts> & { site?: TestSite; clock?: VirtualClock } = {},
): Scene {
  const clock = options.clock ?? new VirtualClock();
  const site = options.site ?? new TestSite();
  const state = options.state ?? new HeldState();
  const applied: NextState[] = [];
  const denials: HansaError[] = [];
  const over = new AbortController();
  const link = new AgentLink({
    clock,
    random: new SeededRandom('link'),
    log: silentLog,
    version: '1.2.3',
    host: 'crane',
    connect: site.connect,
    problemOf: () => undefined,
    apply: (next) => {
      applied.push(next);
      return Promise.resolve();
    },
    keep: () => Promise.resolve(),
    denied: (error) => {
      denials.push(error);
      return Promise.resolve();
    },
    report: () => made.report,
    ...options,
    state,
  });
  const ran = link.run(over.signal).catch((error: unknown) => error);
  const made: Scene = {
    clock,
    site,
    state,
    link,
    applied,
    denials,
    report: { entries: 0, workloads: 0, problems: [] },
    ran,
    stop: async () => {
      over.abort(new Error('stopped'));
      await ran;
    },
  };
  return made;
}

/** The hash of the held items. */
export const held = (state: HeldState): string => hashState(state.items).toString('hex');
