// The Site resource: there is one, made at the first start, and its controller keeps its status
// true to what runs.

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
import type { Store } from '../core/store/store.ts';
import { objectOf } from './resources/object-of.ts';
import { type ResourceClientParts, resourceClient } from './resources/resource-client.ts';

type Site = ResourceOf<typeof siteKind>;

export interface SiteFacts {
  readonly trustDomain: string;
  readonly version: string;
  readonly startedAtMs: number;
  /** What --advertise says; the Site's own spec goes before it. */
  readonly advertiseURL: string;
  readonly listeners: readonly { readonly name: string; readonly address: string }[];
  readonly authorities: NonNullable<NonNullable<Site['status']>['authorities']>;
}

export const siteName = siteKind.singleton as string;
const controllerName = 'site';
const leaseName = 'controller.site';
/** Readiness is not in the store, so it is asked for regularly. */
const lookEveryMs = 30_000;

export function siteClient(parts: ResourceClientParts): ResourceClient<Site> {
  return resourceClient<Site>(siteKind, parts);
}

/**
 * Where others reach the site: what its own spec says goes before the configuration. Earlier
 * versions stored URLs that no parser reads: such a value is ignored, and a condition says so.
 */
export function advertisedURL(store: Pick<Store, 'get'>, configured: string): string {
  const entry = store.get(siteKind.plural, siteName);
  return (entry && usableURL(objectOf(entry) as unknown as Site)) ?? configured;
}

function usableURL({ spec }: Pick<Site, 'spec'>): string | undefined {
  const url = spec?.advertiseURL;
  return url === undefined || parseSiteURL(url) === undefined ? undefined : url;
}

/** Refuses with HANSA_INVALID what the schema cannot tell. */
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

/** Idempotent. */
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
  /** Why the site is not ready; undefined where it is. */
  readonly problem: () => string | undefined;
}): Controller {
  const { store, clock, sites, facts, authority, problem } = parts;
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection: siteKind.plural }),
      changeSource((changed) => authority.onChange(changed), [siteName]),
    ],
    reconcile: async (name, { epoch }) => {
      const fence = epoch === undefined ? {} : { fence: { lease: leaseName, epoch } };
      await sites.patchStatus(name, (site) => statusOf(site, facts, problem(), clock.now()), {
        controller: controllerName,
        ...fence,
      });
      return { requeueAfterMs: lookEveryMs };
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
  const ready =
    problem === undefined
      ? ({
          status: 'True',
          reason: 'Running',
          message: 'Every part of the site is running.',
        } as const)
      : ({ status: 'False', reason: 'PartNotReady', message: problem } as const);
  const observedGeneration = site.metadata.generation;
  const known = setCondition(
    site.status?.conditions,
    { type: 'Ready', ...ready, observedGeneration },
    nowMs,
  );
  const advertiseURL = usableURL(site) ?? facts.advertiseURL;
  return {
    ...shown,
    advertiseURL,
    startedAt: timestamp(startedAtMs),
    conditions: advertiseURLCondition(site, advertiseURL, known, nowMs),
  };
}

/** There only while spec.advertiseURL cannot be used. */
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
    message: `spec.advertiseURL is ignored and ${usedInstead} is advertised: it must be ${siteURLRule}.`,
    observedGeneration: site.metadata.generation,
  } as const;
  return setCondition(conditions, update, nowMs);
}
