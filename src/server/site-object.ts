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
import type { Store } from '../core/store/store.ts';
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
/** Readiness is not in the store, so the controller polls it. */
const lookEveryMs = 30_000;

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
  /** Why the site is not ready, or undefined. */
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
          message: 'All parts of the site are ready.',
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
