// What a site adds to the services for workloads: signing with its authority, audit, the status of
// entries, and minting. The trust plane starts it and adds the returned routes and controllers.

import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { bundlesOfTrusted, trustProblem } from '../authorization/entitlement.ts';
import type { PlaneContext, RunningPlane } from '../../core/plane/plane.ts';
import { StoreAssignments } from '../agents/store-assignments.ts';
import { grantCheckRoute } from '../authorization/grant-check.ts';
import type { StoreFederationState } from '../authorization/federation-state.ts';
import { admitEntry } from './entries/admit-entry.ts';
import { entryController } from '../controllers/entry-controller.ts';
import { serveWorkloads } from './serve-workloads.ts';
import { siteIssuer } from './svids/issuer.ts';
import { mintRoute } from './svids/mint.ts';
import { mintJwtRoute } from './svids/mint-jwt.ts';
import { defaultLimits, type WorkloadLimits } from './socket/workload-connections.ts';
import { validateRoute } from './svids/validate-svid.ts';

export interface WorkloadServices extends Omit<RunningPlane, 'endpoints'> {
  readonly endpoints: { readonly workload: string };
  readonly health: NonNullable<RunningPlane['health']>;
  readonly admit: NonNullable<RunningPlane['admit']>;
  /** The earliest expiry of the SVIDs in use. */
  readonly firstExpiryMs: () => number | undefined;
  /** The number of connected workloads. */
  readonly connected: () => number;
  /** Something changed that is not in the store, such as the site's authority: look again. */
  refresh(): void;
}

export type WorkloadContext = Pick<
  PlaneContext,
  | 'enforcement'
  | 'trustDomain'
  | 'store'
  | 'clock'
  | 'random'
  | 'log'
  | 'metrics'
  | 'audit'
  | 'authority'
  | 'bundles'
  | 'dataDir'
  | 'resources'
> & {
  readonly federationState: StoreFederationState;
  /** The `iss` of JWT-SVIDs; undefined: they have none. */
  readonly jwtIssuer?: string | undefined;
  /** The DNS names of the site itself, which no workload gets. */
  readonly siteNames?: readonly string[];
  /** The Agent of this machine: only entries that are assigned to it. Undefined: all entries of the store. */
  readonly agent?: string;
  /** Default: one of its own. */
  readonly assignments?: StoreAssignments;
};

export async function workloadServices(
  context: WorkloadContext,
  limits: WorkloadLimits = defaultLimits,
): Promise<WorkloadServices> {
  const { clock, audit, authority, bundles, trustDomain, federationState } = context;
  const { jwtIssuer, siteNames = [] } = context;
  const issuer = siteIssuer({ authority, clock, audit, jwtIssuer });
  const served = await serveWorkloads(
    { ...context, issuer, siteNames, deny: (draft) => audit.deny(draft) },
    limits,
  );
  context.enforcement.register({
    name: 'ext_authz',
    refuses: (peer) => trustProblem(peer, federationState.current, clock.now()) !== undefined,
  });
  context.enforcement.register({
    name: 'bundle-delivery',
    refuses: (peer) => served.withholds(peer),
  });
  // Also of a peer whose federation an operator created: peering does not quarantine that one.
  const trusted = bundlesOfTrusted(bundles, federationState);
  context.enforcement.register({
    name: 'svid-validation',
    // Of X.509-SVIDs and JWT-SVIDs.
    refuses: (peer) => trusted.bundleFor(TrustDomain.parse(peer)) === undefined,
  });
  const unhook = authority.onChange(() => served.refresh());
  return {
    controllers: [
      entryController({
        ...context,
        federationState,
        siteNames,
        assignments: context.assignments ?? new StoreAssignments(context.store),
      }),
    ],
    routes: [
      mintRoute(context),
      mintJwtRoute(context),
      validateRoute({ ...context, bundles: trusted }),
      grantCheckRoute({ store: context.store, federationState, bundles, clock }),
    ],
    admit: (kind, next) => {
      if (kind === workloadEntryKind) admitEntry(next, trustDomain);
      return [];
    },
    endpoints: { workload: served.socket },
    health: new Map([['workload-api', () => served.problem()]]),
    firstExpiryMs: () => served.supply.firstExpiryMs,
    connected: () => served.workloads,
    refresh: () => served.refresh(),
    stop: () => {
      unhook();
      served.stop();
      return Promise.resolve();
    },
  };
}
