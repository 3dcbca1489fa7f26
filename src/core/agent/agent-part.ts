// The contract of the part of a plane that runs on agents. It reads the replica of its section, which the
// site keeps current, and sends requests over the link.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock, Random } from '../clock/clock.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Sealer } from '../store/sealing/sealer.ts';
import type { Store } from '../store/store.ts';
import type { AgentLink, AgentReport } from './agent-link.ts';

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
  readonly link: Pick<AgentLink, 'sign' | 'onChange' | 'status'>;
  /** Wall time of the last contact, also before a restart; undefined: never. */
  readonly lastContactMs: () => number | undefined;
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
  report?(): AgentReport;
  /** The site no longer trusts this agent: end what it serves now. The store is empty already. */
  revoke?(): void;
  stop(): Promise<void>;
}

export interface AgentPart {
  /** The section of the agents' state that this part reads (`AgentSection.name`). */
  readonly section: string;
  start(context: AgentContext): Promise<RunningAgentPart>;
}
