// Checks the items of the section `identities` before an agent applies them. The agent keeps them in its
// store and reads them as a site reads its own objects, so they must have the expected types. Pure.

import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AgentItem } from '../../core/agent/state.ts';
import { toHansaError } from '../../core/errors/error.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { parseSiteItem, siteCollection, siteName } from '../agents/site-item.ts';

/** The path of the first wrong value, with the reason; undefined where the value is right. */
type Check = (value: unknown, path: string) => string | undefined;

const text: Check = (value, path) => (typeof value === 'string' ? undefined : `${path} is no text`);
const flag: Check = (value, path) =>
  typeof value === 'boolean' ? undefined : `${path} is neither true nor false`;
const countOf =
  (what: string): Check =>
  (value, path) =>
    Number.isSafeInteger(value) && (value as number) >= 0
      ? undefined
      : `${path} is not a number of ${what}`;
const seconds = countOf('seconds');

function listOf(check: Check): Check {
  return (value, path) => {
    if (!Array.isArray(value)) return `${path} is no list`;
    for (const [at, one] of value.entries()) {
      const problem = check(one, `${path}[${at}]`);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
}

function objectOf(
  required: Readonly<Record<string, Check>>,
  optional: Readonly<Record<string, Check>> = {},
): Check {
  return (value, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return `${path} is no object`;
    }
    const fields = value as Readonly<Record<string, unknown>>;
    for (const [name, check] of Object.entries({ ...required, ...optional })) {
      const at = path === '' ? name : `${path}.${name}`;
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
      if (field === undefined && Object.hasOwn(optional, name)) continue;
      const problem = field === undefined ? `${at} is missing` : check(field, at);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
}

const texts = listOf(text);
const anyObject = objectOf({});
const labels: Check = (value, path) =>
  anyObject(value, path) ??
  listOf(text)(Object.values(value as Readonly<Record<string, unknown>>), path);
const metadata = objectOf(
  { name: text },
  { uid: text, labels, creationTimestamp: text, deletionTimestamp: text },
);

const checks: ReadonlyMap<string, Check> = new Map([
  [
    workloadEntryKind.plural,
    objectOf({
      metadata: objectOf({ name: text, uid: text }),
      spec: objectOf(
        { spiffeID: text, selectors: texts, federatesWith: texts, ttlSeconds: seconds },
        { jwtTtlSeconds: seconds, dnsNames: texts, hint: text, federatesWithSelector: anyObject },
      ),
    }),
  ],
  [
    spiffeFederationKind.plural,
    objectOf(
      {
        metadata,
        spec: objectOf(
          {
            bundleSource: objectOf(
              {},
              { httpsSpiffe: anyObject, httpsWeb: anyObject, static: anyObject },
            ),
          },
          { quarantined: flag, staleAfterSeconds: seconds },
        ),
      },
      {
        status: objectOf(
          {},
          { source: text, bundle: text, refreshHintSeconds: seconds, syncedAt: text },
        ),
      },
    ),
  ],
  [
    federationPeerKind.plural,
    objectOf(
      { metadata, spec: objectOf({}, { desiredState: text }) },
      {
        status: objectOf(
          {},
          {
            state: text,
            reenrolments: countOf('re-enrolments'),
            offers: listOf(objectOf({ name: text, spiffeID: text, grantedTo: texts })),
          },
        ),
      },
    ),
  ],
  [
    federationGrantKind.plural,
    objectOf({
      metadata,
      spec: objectOf(
        { peer: text },
        {
          scopes: texts,
          offers: texts,
          nodeInstances: objectOf({}, { ids: texts, unrestricted: flag }),
          networks: objectOf({}, { ids: texts, unrestricted: flag }),
          sourceCIDRs: objectOf({}, { cidrs: texts, unrestricted: flag }),
          expiresAt: text,
        },
      ),
    }),
  ],
  [
    serviceOfferKind.plural,
    objectOf({
      metadata,
      spec: objectOf(
        { spiffeID: text },
        { callers: objectOf({}, { ids: texts, trustDomains: texts }) },
      ),
    }),
  ],
]);

/** An entry lists the federations that its selector matches, and a large site has ten thousand. */
const maxValues = 50_000;

/** Why the agent cannot use the item; undefined where it can. Collections that it does not read are ignored. */
export function identityItemProblem(
  { collection, name, value }: Pick<AgentItem, 'collection' | 'name' | 'value'>,
  trustDomain: TrustDomain,
): string | undefined {
  const refuse = (why: string): string => `the item ${collection}/${name} is invalid: ${why}`;
  try {
    if (collection === siteCollection) {
      if (name === siteName) parseSiteItem(value, trustDomain);
      return undefined;
    }
    const check = checks.get(collection);
    if (check === undefined) return undefined;
    const object = parseBoundedJson(value, maxValues);
    const problem = check(object, '');
    if (problem !== undefined) return refuse(problem);
    const named = (object as { readonly metadata: { readonly name: string } }).metadata.name;
    if (named !== name) return refuse('metadata.name is another name');
    // The names of federations and peers are trust domains.
    if (collection === spiffeFederationKind.plural || collection === federationPeerKind.plural) {
      TrustDomain.parse(name);
    }
    return undefined;
  } catch (error) {
    return refuse(error instanceof SyntaxError ? 'it is not JSON' : toHansaError(error).message);
  }
}
