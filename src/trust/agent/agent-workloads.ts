// Serves the workloads of an agent: the services of a site, over the state that the site sent, with
// SVIDs that the site signs on request.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { timestamp } from '../../api/object.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { importPkcs8, PublicKey } from '../../core/identity/x509/keys.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Store } from '../../core/store/store.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { StoreEntries } from '../workload/entries/store-entries.ts';
import { type RestoredSvid, serveWorkloads } from '../workload/serve-workloads.ts';
import { defaultLimits, type WorkloadLimits } from '../workload/socket/workload-connections.ts';
import { RemoteIssuer } from './remote-issuer.ts';
import type { SigningLink } from './signing-link.ts';
import { SiteView } from './site-view.ts';
import { type SiteTrust, verifyX509 } from './verify-signed.ts';

/** An SVID with its key, as a cache keeps it across a restart. */
export interface KeptSvid {
  readonly entryName: string;
  readonly entryUid: string;
  /** DER: the leaf, then the intermediates. */
  readonly chain: readonly Buffer[];
  /** PKCS #8. */
  readonly key: Buffer;
  readonly authorityId: string;
  readonly issuedAtMs: number;
}

/** Keeps SVIDs across a restart of the agent. */
export interface SvidVault {
  /** Those of the last `save`. Their content is not trusted. */
  load(): Promise<readonly KeptSvid[]>;
  /**
   * Replaces all kept SVIDs with those that `held` returns when they are written. Called after every
   * change, so it should collect calls. Must not throw.
   */
  save(held: () => readonly KeptSvid[]): void;
}

export interface AgentWorkloadsOptions {
  readonly trustDomain: TrustDomain;
  readonly agentName: string;
  /** The state that the site sent, already checked. Only the site changes it. */
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The socket is `workload.sock` in this folder. */
  readonly dataDir: string;
  readonly link: SigningLink;
  /** Undefined where keys are not kept. */
  readonly kept?: SvidVault | undefined;
}

export interface AgentWorkloads {
  /** The path of the socket. */
  readonly socket: string;
  readonly health: ReadonlyMap<string, () => string | undefined>;
  /** What it serves, for the site. */
  report(): {
    readonly entries: number;
    readonly workloads: number;
    readonly problems: readonly string[];
  };
  /** The connection to the site is back: try again what failed. */
  refresh(): void;
  /** The site forgot this agent: no workload gets anything from now on. */
  dropAll(): void;
  stop(): Promise<void>;
}

/** How many entries get an SVID before a workload asks, so that it gets one while the site is dark. */
const entriesAhead = 1_000;

/**
 * Rejects with HANSA_UNAVAILABLE where the store has no state yet, and leaves nothing running. Start it
 * after the first state, from the site or from a cache.
 */
export async function startAgentWorkloads(
  options: AgentWorkloadsOptions,
  limits: WorkloadLimits = defaultLimits,
): Promise<AgentWorkloads> {
  const { trustDomain, agentName: agent, store, clock, link, kept } = options;
  const log = options.log.with({ component: 'workload' });
  const site = new SiteView(options);
  const bundles = new FederatedBundles(store, site, clock);
  const issuer = new RemoteIssuer({ trustDomain: trustDomain.name, agent, link, site, clock });
  const contact = { link, site, clock };
  const restored = kept === undefined ? [] : restore(await kept.load(), options, site, log);
  const served = await serveWorkloads(
    {
      trustDomain,
      store,
      clock,
      random: options.random,
      log: options.log,
      metrics: options.metrics,
      dataDir: options.dataDir,
      issuer,
      bundles,
      federationState: new StoreFederationState(store, bundles),
      entriesAhead,
      restored,
      outOfContact: () => offlineTooLong(contact),
      heldChanged: () => {
        kept?.save(() =>
          served.supply.held.map(({ entryName, entryUid, issuedAtMs, svid }) => {
            const { chain, key, authorityId } = svid;
            return { entryName, entryUid, chain, key, authorityId, issuedAtMs };
          }),
        );
      },
    },
    limits,
  );
  site.onChange(() => served.refresh());
  const stopSite = site.start();
  return {
    socket: served.socket,
    health: new Map([['workload-api', () => served.problem()]]),
    report: () => ({
      entries: store.list(workloadEntryKind.plural).entries.length,
      workloads: served.workloads,
      problems: [served.problem(), offlineTooLong(contact)].filter((one) => one !== undefined),
    }),
    refresh: () => served.refresh(),
    dropAll: () => {
      issuer.revoke(
        new HansaError('HANSA_FORBIDDEN', `The site no longer trusts the agent ${agent}.`),
      );
      served.dropAll();
    },
    stop: () => {
      stopSite();
      served.stop();
      return Promise.resolve();
    },
  };
}

/** Why ext_authz may not decide any more; undefined where it may. */
function offlineTooLong(contact: {
  readonly link: Pick<SigningLink, 'offlineMs'>;
  readonly site: Pick<SiteView, 'maxOfflineSeconds'>;
  readonly clock: Clock;
}): string | undefined {
  const forMs = contact.link.offlineMs();
  if (forMs === undefined) return undefined;
  const { maxOfflineSeconds } = contact.site;
  if (forMs < maxOfflineSeconds * 1000) return undefined;
  const since = Number.isFinite(forMs)
    ? `since ${timestamp(contact.clock.now() - forMs)}`
    : 'since its start, and the time of the last one is unknown';
  return `this agent has had no contact with its site ${since}, and access is denied after ${maxOfflineSeconds} seconds without contact; check the network and the site`;
}

/** The kept SVIDs of entries that still exist, each verified as if the site sent it now. */
function restore(
  kept: readonly KeptSvid[],
  options: AgentWorkloadsOptions,
  site: SiteTrust,
  log: Log,
): readonly RestoredSvid[] {
  const entries = new Map(
    new StoreEntries(options).first(Infinity).map((entry) => [entry.name, entry]),
  );
  return kept.flatMap(({ entryName, entryUid, chain, key, authorityId, issuedAtMs }) => {
    const entry = entries.get(entryName);
    if (entry === undefined || entry.uid !== entryUid) return [];
    try {
      const publicKey = PublicKey.of(importPkcs8(key));
      const signed = { chain, authority: authorityId };
      const svid = verifyX509(signed, entry, publicKey, site, options.clock.now());
      return [{ entry, svid: { ...svid, key }, issuedAtMs }];
    } catch (error) {
      log.info('dropped a kept SVID', { error, entry: entryName });
      return [];
    }
  });
}
