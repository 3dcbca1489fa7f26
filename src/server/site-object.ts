// The Site resource: created at the first start. Its controller updates its status.

import type { Kind, ResourceOf } from '../api/kind.ts';
import { siteKind } from '../api/kinds/site.ts';
import { type Condition, type Resource, timestamp } from '../api/object.ts';
import { checkSiteURL, parseSiteURL, siteURLRule } from '../api/values/site-url.ts';
import type { Clock } from '../core/clock/clock.ts';
import { hasCode } from '../core/errors/error.ts';
import type { SiteAuthority } from '../core/identity/authority/authority.ts';
import { setCondition } from '../core/reconcile/conditions.ts';
import type { Controller } from '../core/reconcile/controller.ts';
import type { ResourceClient } from '../core/reconcile/resource-client.ts';
import { changeSource, StoreSource } from '../core/reconcile/source.ts';
import type { Health } from '../core/metrics/health.ts';
import type { Entry, Store } from '../core/store/store.ts';
import { objectOf } from './resources/object-of.ts';
import { type ResourceClientParts, resourceClient } from './resources/resource-client.ts';

type Site = ResourceOf<typeof siteKind>;

export interface SiteFacts {
  readonly trustDomain: string;
  readonly version: string;
  readonly startedAtMs: number;
  /** The value of --advertise. `spec.advertiseURL` of the Site takes precedence. */
  readonly advertiseURL: string;
  readonly listeners: readonly { readonly name: string; readonly address: string }[];
  readonly authorities: NonNullable<NonNullable<Site['status']>['authorities']>;
}

export const siteName = siteKind.singleton as string;
const controllerName = 'site';
const leaseName = 'controller.site';

export function siteClient(parts: ResourceClientParts): ResourceClient<Site> {
  return resourceClient<Site>(siteKind, parts);
}

/**
 * The URL at which others reach the site. `spec.advertiseURL` takes precedence over the configuration.
 * Ignores an invalid URL that an earlier version stored, and a condition reports it.
 */
export function advertisedURL(store: Pick<Store, 'get'>, configured: string): string {
  const entry = store.get(siteKind.plural, siteName);
  return (entry && usableURL(objectOf(entry) as unknown as Site)) ?? configured;
}

function usableURL({ spec }: Pick<Site, 'spec'>): string | undefined {
  const url = spec?.advertiseURL;
  return url === undefined || parseSiteURL(url) === undefined ? undefined : url;
}

/** Checks what the schema cannot express. Throws HANSA_INVALID. */
export function admitSite(
  kind: Kind,
  next: Pick<Resource, 'spec'> | undefined,
  live: Pick<Resource, 'spec'> | undefined,
): void {
  if (kind !== (siteKind as Kind) || next === undefined) return;
  checkSiteURL(
    { kind: siteKind.kind, name: siteName },
    'spec.advertiseURL',
    (next.spec as Site['spec'])?.advertiseURL,
    (live?.spec as Site['spec'])?.advertiseURL,
  );
}

/** Creates the Site if it is missing. Idempotent. */
export async function ensureSite(sites: ResourceClient<Site>): Promise<void> {
  try {
    await sites.create({ name: siteName, spec: {} }, { controller: controllerName });
  } catch (error) {
    if (!hasCode(error, 'HANSA_ALREADY_EXISTS')) throw error;
  }
}

export function siteController(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly sites: ResourceClient<Site>;
  readonly facts: SiteFacts;
  readonly authority: Pick<SiteAuthority, 'onChange'>;
  readonly health: Pick<Health, 'problem' | 'onChange'>;
}): Controller {
  const { store, clock, sites, facts, authority, health } = parts;
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection: siteKind.plural }),
      changeSource((changed) => authority.onChange(changed), [siteName]),
      changeSource((changed) => health.onChange(clock, changed), [siteName]),
    ],
    reconcile: async (name, { epoch }) => {
      const fence = epoch === undefined ? {} : { fence: { lease: leaseName, epoch } };
      await sites.patchStatus(
        name,
        (site) => statusOf(site, facts, health.problem(), clock.now()),
        {
          controller: controllerName,
          ...fence,
        },
      );
      return {};
    },
  };
}

function statusOf(
  site: Site,
  facts: SiteFacts,
  problem: string | undefined,
  nowMs: number,
): NonNullable<Site['status']> {
  const { startedAtMs, ...shown } = facts;
  const known = withReady(site, problem, nowMs);
  const advertiseURL = usableURL(site) ?? facts.advertiseURL;
  return {
    ...shown,
    advertiseURL,
    startedAt: timestamp(startedAtMs),
    conditions: advertiseURLCondition(site, advertiseURL, known, nowMs),
  };
}

function withReady(site: Site, problem: string | undefined, nowMs: number): readonly Condition[] {
  const ready =
    problem === undefined
      ? ({
          status: 'True',
          reason: 'Running',
          message: 'All parts of the site are ready.',
        } as const)
      : ({ status: 'False', reason: 'PartNotReady', message: problem } as const);
  const observedGeneration = site.metadata.generation;
  return setCondition(
    site.status?.conditions,
    { type: 'Ready', ...ready, observedGeneration },
    nowMs,
  );
}

/**
 * The facts of the Site: its conditions as /readyz says them now. The controller writes them too, for watches,
 * but a little later, and not while the store cannot write.
 */
export function siteReadiness(
  store: Pick<Store, 'get'>,
  clock: Pick<Clock, 'now'>,
  health: Pick<Health, 'problem'>,
): () => Readonly<Record<string, unknown>> | undefined {
  let known:
    | { entry: Entry; problem: string | undefined; facts: Readonly<Record<string, unknown>> }
    | undefined;
  return () => {
    const entry = store.get(siteKind.plural, siteName);
    if (entry === undefined) return undefined;
    const problem = health.problem();
    if (known?.entry !== entry || known.problem !== problem) {
      const site = objectOf(entry) as unknown as Site;
      const conditions = withReady(site, problem, clock.now());
      known = { entry, problem, facts: { uid: site.metadata.uid, conditions } };
    }
    return known.facts;
  };
}

/** Present only while spec.advertiseURL is not valid. */
function advertiseURLCondition(
  site: Site,
  usedInstead: string,
  conditions: readonly Condition[],
  nowMs: number,
): readonly Condition[] {
  const type = 'AdvertiseURLValid';
  const isUsable = site.spec?.advertiseURL === undefined || usableURL(site) !== undefined;
  if (isUsable) return conditions.filter((condition) => condition.type !== type);
  const update = {
    type,
    status: 'False',
    reason: 'NotASiteURL',
    message: `The site ignores spec.advertiseURL and advertises ${usedInstead}: spec.advertiseURL must be ${siteURLRule}.`,
    observedGeneration: site.metadata.generation,
  } as const;
  return setCondition(conditions, update, nowMs);
}
