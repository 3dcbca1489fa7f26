// The contract of a plane: what it receives from the site and what it adds. Each plane is in its own
// folder, does not import other planes, and shares data with them only through the store.

import type { GuardedField, Kind } from '../../api/kind.ts';
import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Resource } from '../../api/object.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Requester } from '../access/audit-draft.ts';
import type { PresetAdditions } from '../access/presets.ts';
import type { ApprovalGate } from '../approvals/approval-gate.ts';
import type { DeclaredAction } from '../approvals/policy.ts';
import type { AgentSections } from '../agent/section.ts';
import type { Audit } from '../audit/log.ts';
import type { PublicLog } from '../audit/public-log.ts';
import type { Clock, Random } from '../clock/clock.ts';
import type { PlaneSettings } from '../config/plane-settings.ts';
import type { PlaneErrors } from '../errors/plane-errors.ts';
import type { SiteAuthority } from '../identity/authority/authority.ts';
import type { BundleSource } from '../identity/bundle/bundle.ts';
import type { HostedNames } from '../identity/tls/host-certificates.ts';
import type { SiteCredentials } from '../identity/tls/site-credentials.ts';
import type { TlsCredential } from '../identity/tls/options.ts';
import type { Transport } from '../identity/tls/transport.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Controller, ControllerHost } from '../reconcile/controller.ts';
import type { ResourceClient } from '../reconcile/resource-client.ts';
import type { Sealer } from '../store/sealing/sealer.ts';
import type { Commit, Expectation, Store } from '../store/store.ts';
import type { CallPeer } from './call-peer.ts';
import type { EnforcementPoints } from './enforcement.ts';
import type { PlaneCommandLine } from './command-line.ts';
import type { AgentDirectory, PeerDirectory, PlaneRoute } from './route.ts';
import type { AdminCall, PlaneRpc } from './stream.ts';
import type { SyncedResources } from './synced-resources.ts';

export interface PlaneContext {
  readonly trustDomain: TrustDomain;
  readonly version: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly audit: Pick<Audit, 'record' | 'deny' | 'later'>;
  /** The audit log as other sites see it. */
  readonly publicLog: PublicLog;
  readonly sealer: Sealer;
  readonly authority: SiteAuthority;
  readonly credentials: Pick<SiteCredentials, 'current' | 'onRenewal'>;
  /** `RunningPlane.bundles.trusted` of the plane that provides it; until that plane runs, only the site's own bundle. */
  readonly bundles: BundleSource;
  /** `RunningPlane.bundles.held` of the same plane. */
  readonly heldBundles: BundleSource;
  readonly transport: Transport;
  /** The domains that planes reserve (`Plane.reservedDomains`). */
  readonly reservedDomains: readonly string[];
  /** The absolute path of the data folder, for sockets. */
  readonly dataDir: string;
  /** The URL of the federation listener as others reach it. */
  readonly advertiseURL: () => string;
  /** `RunningPlane.jwtIssuer` of the plane that provides it. */
  readonly jwtIssuer: () => string | undefined;
  /** `RunningPlane.connectCluster` of the plane that provides it. Throws HANSA_UNAVAILABLE where no plane does. */
  readonly connectCluster: (cluster: Cluster) => KubeClient;
  /** `RunningPlane.callPeer` of the plane that provides it. Without one, and before its start, no site is a peer. */
  readonly callPeer: CallPeer;
  /** For actions that are not writes of resources. Those pass it by themselves. */
  readonly approvals: Pick<ApprovalGate, 'allow' | 'review' | 'modeFor' | 'policy'>;
  /** The registry of enforcement points. */
  readonly enforcement: EnforcementPoints;
  /** The registry of what agents get. */
  readonly agentSections: AgentSections;
  /** The resources of a kind, on the same write path as the API. */
  resources<R extends Resource>(kind: Kind): ResourceClient<R>;
  /** Writes resources of all planes as the user `cluster:NAME`, for the Cluster of this name. */
  readonly syncedResources: (cluster: string) => SyncedResources;
}

/** The bundles of this site and of other trust domains. */
export interface SiteBundles {
  /** Our own bundle and those of every trust domain that this site trusts now, none that is stale. */
  readonly trusted: BundleSource;
  /** The same with stale ones: for calls between sites, never for workloads. */
  readonly held: BundleSource;
}

/** The certificate of the web listener, and the answers to ACME challenges. */
export interface WebCertificate {
  /** Undefined until there is one. Until then only handshakes of ACME challenges succeed. */
  readonly current: TlsCredential | undefined;
  /** Calls `listener` on every change. Returns how to stop. The listener must not throw. */
  onChange(listener: () => void): () => void;
  /** RFC 8737: the certificate for a handshake with ALPN `acme-tls/1` for this name; undefined where no challenge is open. */
  challengeFor(serverName: string): TlsCredential | undefined;
}

export interface Accompaniment extends Pick<Commit, 'put' | 'delete'> {
  /** What the change requests, for its audit record. Never contains a secret. */
  readonly meaning?: string;
}

export interface PlaneEndpoint {
  readonly address: string;
  /** For the greeting of `hansa server`: how to use the address. */
  readonly hint: string;
}

/** Started after the store, the identity and the writer, before any listener takes a connection. */
export interface RunningPlane {
  readonly controllers: readonly Controller[];
  /** Called once when controllers start to run, for those that start and stop later. They all end with the site. */
  readonly hostControllers?: (host: ControllerHost) => void;
  readonly routes: readonly PlaneRoute[];
  readonly rpcs?: readonly PlaneRpc[];
  readonly adminCalls?: readonly AdminCall[];
  /** Set by the one plane that federates with other trust domains. */
  readonly bundles?: SiteBundles;
  /** The `iss` of the site's JWT-SVIDs, where verifiers find the keys. Set by the one plane that serves them. */
  readonly jwtIssuer?: string | undefined;
  /**
   * The client of one version of a Cluster with `apiServer`, with the credential that its spec names. Makes it
   * without I/O; the caller closes it. Set by the one plane that keeps these credentials.
   */
  readonly connectCluster?: (cluster: Cluster) => KubeClient;
  /** Set by the one plane that manages the web listener's certificate. */
  readonly webCertificate?: WebCertificate;
  /** Set by the one plane whose routes on the api listener depend on the host name. */
  readonly hostedNames?: HostedNames;
  /** Set by the one plane that manages peers, for routes that allow peers. */
  readonly peers?: PeerDirectory;
  /** Set by the same plane, for calls of other planes. */
  readonly callPeer?: CallPeer;
  /** Set by the one plane that manages agents, for routes that allow agents. */
  readonly agents?: AgentDirectory;
  /**
   * Validates a new or changed object of the plane's kinds beyond its schema. Called before the commit
   * with the object as it would be stored and the one that it replaces. Throws to reject
   * (HANSA_INVALID); `warn` reports values that are allowed but unwise. The returned expectations must
   * hold at the commit, or it runs again. Must be quick and without I/O.
   */
  readonly admit?: (
    kind: Kind,
    next: Pick<Resource, 'metadata' | 'spec'>,
    live: Pick<Resource, 'spec'> | undefined,
    warn: (text: string) => void,
  ) => readonly Expectation[];
  /**
   * Fields of an object of the plane's kinds that are guarded because of other objects, in addition to the
   * `guardedFields` of the kind. Must be quick and without I/O.
   */
  readonly guards?: (kind: Kind, name: string) => readonly GuardedField[];
  /** Throws to reject the deletion of an object of the plane's kinds. Must be quick and without I/O. */
  readonly admitDeletion?: (kind: Kind, live: Pick<Resource, 'metadata' | 'spec'>) => void;
  /**
   * Adds the plane's own records to the commit of a new, changed or deleted object of its kinds, so that
   * both are written or neither. Called after `admit`, and again after a conflict. Must be quick, without
   * I/O, and must not throw.
   */
  readonly accompany?: (
    kind: Kind,
    next: Pick<Resource, 'metadata' | 'spec'> | undefined,
    live: Pick<Resource, 'metadata' | 'spec'> | undefined,
    by: Requester,
    /** The uid of the Approval that the commit spends. */
    approval?: string,
  ) => Accompaniment | undefined;
  /** Why the plane is not ready, by part, for /readyz. */
  readonly health?: ReadonlyMap<string, () => string | undefined>;
  /** Addresses that the plane itself opened (the workload socket), for status and the greeting. */
  readonly endpoints?: Readonly<Record<string, PlaneEndpoint>>;
  stop(): Promise<void>;
}

/**
 * A plane as a static value, listed in main.ts. Every command of the command line imports it, so it
 * must be cheap to import: `start` loads the code of the daemon.
 */
export interface Plane<Settings = unknown> extends PlaneCommandLine<Settings> {
  readonly name: string;
  readonly kinds: readonly Kind[];
  /** Configuration keys, and the settings for `start`. Without it, `start` gets undefined. */
  readonly settings?: PlaneSettings<Settings>;
  /** Error codes that only this plane raises; `errors.ts` of the plane declares them. */
  readonly errors?: PlaneErrors;
  /** Domains that no workload may have a DNS name in, from the settings. */
  reservedDomains?(settings: Settings): readonly string[];
  /** Preset rules in addition to those of its kinds (`editable`), and preset roles and bindings. */
  readonly presets?: PresetAdditions;
  /** Actions that can need approval, with their defaults. Writes of resources need no declaration. */
  readonly approvalActions?: readonly DeclaredAction[];
  /** Its pages in docs/guide, without the ending `.md`. A page belongs to the site or to one plane. */
  readonly guide?: readonly string[];
  /** For the last line of the greeting: the arguments of a command that an owner may want next. */
  readonly nextCommand?: (dataDir: string) => string;
  /** What runs on agents: the address of a module that exports an AgentPart as `agentPart`. Only agents load it. */
  readonly agentPart?: string;
  start(context: PlaneContext, settings: Settings): Promise<RunningPlane>;
}
