// The contract of the part of a plane that runs on agents. It reads the replica of its section, which the
// site keeps current, and sends requests over the link.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock, Random } from '../clock/clock.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Sealer } from '../store/sealing/sealer.ts';
import type { Store } from '../store/store.ts';
import type { AgentLink, AgentReport } from './agent-link.ts';
import type { AgentItem } from './state.ts';

export interface AgentContext {
  /** The trust domain of the site. */
  readonly trustDomain: TrustDomain;
  /** The name of this agent. */
  readonly agent: string;
  readonly version: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The items of all sections that this agent knows. Only the site changes it. */
  readonly store: Store;
  readonly link: Pick<AgentLink, 'sign' | 'onChange'>;
  /**
   * How long the site has not been reachable, also before a restart; undefined: it is connected.
   * Infinity where nobody knows. A clock that is set back does not shorten it.
   */
  readonly offlineMs: () => number | undefined;
  /** The absolute path of the data folder, for sockets. */
  readonly dataDir: string;
  /** The absolute path of a folder that only this user can read. */
  readonly secretsDir: string;
  /** Seals what the part keeps on disk. Undefined where the key would be in the data folder too. */
  readonly sealer: Sealer | undefined;
}

export interface RunningAgentPart {
  /** Why the part is not ready, by component, for /readyz. */
  readonly health?: ReadonlyMap<string, () => string | undefined>;
  /** Addresses that it serves, for the log and `hansa agent status`. */
  readonly endpoints?: Readonly<Record<string, string>>;
  /** What it serves, for the site. */
  report(): AgentReport;
  /** Wall time from which on it denies because the site is not reachable; undefined: not. */
  deniesFromMs?(): number | undefined;
  /**
   * The site no longer trusts this agent: the store has lost its items, and nothing may be served.
   * `isFinal`: the agent ends. Otherwise the site may send items again.
   */
  revoke(isFinal: boolean): Promise<void>;
  stop(): Promise<void>;
}

/** Loads the modules that planes name (`Plane.agentPart`). */
export function loadAgentParts(modules: readonly string[]): Promise<readonly AgentPart[]> {
  return Promise.all(
    modules.map(async (module) => {
      const { agentPart } = (await import(module)) as { readonly agentPart?: AgentPart };
      if (agentPart === undefined) throw new TypeError(`${module} exports no agentPart`);
      return agentPart;
    }),
  );
}

export interface AgentPart {
  /** The section of the agents' state that this part reads (`AgentSection.name`). */
  readonly section: string;
  /** Why this part cannot use an item; undefined if it can. The agent refuses a state with such an item. */
  problemOf?(item: AgentItem, trustDomain: TrustDomain): string | undefined;
  /** Whether the item stays in the store when the site no longer trusts this agent. */
  survives?(item: AgentItem): boolean;
  /** Declares the metrics that only agents have, for the reference. */
  declareMetrics?(metrics: Metrics): Promise<void>;
  /** Called when the store holds a state for the first time, from the site or from the cache. */
  start(context: AgentContext): Promise<RunningAgentPart>;
}
