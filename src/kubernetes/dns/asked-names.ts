// The DNS names that a federated Service asks for: by an annotation of its member Services, by the template of
// the site, or by hand on one of its copies.

import { fateOf } from '../services/unreachable.ts';
import { hostnameAnnotation } from '../names.ts';
import type { Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import type { FederatedRef } from '../services/federated-name.ts';
import { mayJoin } from '../services/global-namespaces.ts';
import { keyOfMember } from '../services/member-service.ts';
import type { LeftOut } from '../copies/origin-usage.ts';
import type { SyncedMember } from '../copies/synced-member.ts';
import { type Hostnames, type HostnameTemplate, parseHostnames } from './hostnames.ts';
import { byHand } from './name-annotations.ts';
import type { NameClaim, NameTenure } from './name-claims.ts';
import { byDate, byPlace, type DatedClaim, placesOf, type Tenancy } from '../services/tenures.ts';

export interface NameSettings {
  /** Undefined: only names by hand. */
  readonly template: HostnameTemplate | undefined;
  /** Of the annotations that ExternalDNS reads, without the slash. */
  readonly prefix: string;
  /** What happens to names without a reachable address. */
  readonly whenUnhealthy: 'remove' | 'keep';
}

export interface AskedNames extends Hostnames {
  /** By the cluster of the copy on which a user wrote them. */
  readonly byHand: ReadonlyMap<string, Hostnames>;
  /** The member Service that decides, as CLUSTER/NAMESPACE/NAME. Undefined: the template decides. */
  readonly decidedBy: string | undefined;
  /** Member Services, in the same form, that ask for something else than the one that decides. */
  readonly ignored: ReadonlySet<string>;
  readonly claims: readonly NameClaim[];
}

interface Asking extends DatedClaim {
  readonly id: string;
  readonly text: string | undefined;
  readonly settings: SyncedMember['settings'];
}

/** What decides between those that ask. */
export interface AskOptions {
  readonly members: readonly SyncedMember[];
  readonly settings: NameSettings;
  readonly monotonicMs: number;
  readonly leftOutOf: (member: SyncedMember) => LeftOut;
  /** Of the federated Service. */
  readonly tenancy: Tenancy;
  /** Since when the federated Service has a name for which the clusters ask; undefined where it does not. */
  readonly since: (name: string, askers: readonly string[]) => NameTenure | undefined;
}

type Limited = Pick<SyncedMember, 'clusterID' | 'settings'>;

const noNames: Hostnames = { names: [], problems: [] };

/** Undefined where it asks for nothing: then there is nothing to write or to say. */
export function askedNames(
  ref: FederatedRef,
  key: string,
  { members, settings: { template, prefix }, monotonicMs, leftOutOf, tenancy, since }: AskOptions,
): AskedNames | undefined {
  const unsorted = members.flatMap((member) =>
    askingIn(member, ref, key, monotonicMs, leftOutOf(member)),
  );
  const order = byPlace(placesOf(unsorted, tenancy));
  const asking = unsorted.toSorted((a, b) => order(a, b) || byDate(a, b) || compare(a.id, b.id));
  const [first] = asking;
  if (first === undefined) return undefined;
  const mayHave = ({ clusterID, settings: own }: Limited, names: Hostnames): Hostnames =>
    allowed(limited(names, clusterID, own.dnsNames), ref, template);
  const named = asking.flatMap((one) =>
    one.text === undefined ? [] : [{ one, names: mayHave(one, parseHostnames(one.text)) }],
  );
  // A cluster that may not have a name keeps no other one from asking.
  const chosen = named.find(({ names }) => names.names.length > 0) ?? named[0];
  const annotated = chosen?.one;
  const made = template?.nameOf(ref) ?? noNames;
  const taker = asking.find(
    (one) => limited(made, one.clusterID, one.settings.dnsNames).names.length > 0,
  );
  const common = chosen?.names ?? mayHave(taker ?? first, made);
  const own = new Map(
    members.flatMap((member) => {
      const text = textByHand(member, ref, prefix);
      return text === undefined
        ? []
        : [[member.clusterID, mayHave(member, parseHostnames(text))] as const];
    }),
  );
  if (annotated === undefined && template === undefined && own.size === 0) return undefined;
  const claim =
    (clusterID: string, one: DatedClaim) =>
    (name: string): NameClaim => ({
      key,
      name,
      since: since(name, [clusterID, one.clusterID]),
      asking: one,
      clusterID,
    });
  return {
    ...common,
    byHand: own,
    decidedBy: annotated?.id,
    ignored: new Set(
      asking
        .filter(({ text }) => text !== undefined && text !== annotated?.text)
        .map(({ id }) => id),
    ),
    claims: [
      ...common.names.map(claim('', annotated ?? taker ?? first)),
      ...[...own].flatMap(([clusterID, { names }]) => names.map(claim(clusterID, first))),
    ],
  };
}

/** For messages. */
const mostNamed = 5;

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Clusters whose Services count in themselves only must not make others write names. */
function askingIn(
  { clusterID, isRead, state, settings, services, nativeServices, admittedAt }: SyncedMember,
  ref: FederatedRef,
  key: string,
  monotonicMs: number,
  leftOut: LeftOut,
): readonly Asking[] {
  if (!isRead || (settings.endpointPrefixes ?? []).length === 0) return [];
  if (fateOf(state, settings, undefined, monotonicMs).fate === 'remove') return [];
  const found = [
    ...services
      .byIndex('federated', key)
      .filter((service) => !isCopy(service))
      .map(({ metadata }) => ({ kind: 'Service', metadata }) as const),
    ...nativeServices
      .byIndex('federated', key)
      .map(({ metadata }) => ({ kind: 'NativeService', metadata }) as const),
  ];
  return found.flatMap(({ kind, metadata }) => {
    const { namespace = '', name, creationTimestamp, deletionTimestamp, annotations } = metadata;
    if (deletionTimestamp !== undefined || !mayJoin(settings, ref, namespace)) return [];
    if (leftOut.services.has(keyOfMember({ clusterID, kind, namespace, name }))) return [];
    return {
      id: `${clusterID}/${namespace}/${name}`,
      clusterID,
      createdAt: creationTimestamp ?? '',
      admittedAt,
      settings,
      text: annotations?.[hostnameAnnotation],
    };
  });
}

function textByHand(
  { isRead, services }: SyncedMember,
  { namespace, name }: FederatedRef,
  prefix: string,
): string | undefined {
  const copy: Service | undefined = isRead ? services.byKey(`${namespace}/${name}`) : undefined;
  if (copy === undefined || !isCopy(copy)) return undefined;
  return byHand(copy.metadata.annotations ?? {}, prefix, 'hostname');
}

/** Without the names that `Federation` does not allow the cluster. */
function limited(
  { names, problems }: Hostnames,
  clusterID: string,
  dnsNames: SyncedMember['settings']['dnsNames'],
): Hostnames {
  if (dnsNames === undefined) return { names, problems };
  const isAllowed = (name: string): boolean =>
    dnsNames.some((suffix) => name === suffix || name.endsWith(`.${suffix}`));
  const below =
    dnsNames.length === 0
      ? 'no names'
      : `only ${dnsNames.slice(0, mostNamed).join(', ')} and names below`;
  const refused = names.filter((name) => !isAllowed(name));
  return {
    names: names.filter(isAllowed),
    problems: [
      ...problems,
      ...refused.map(
        (name) => `${name} is refused: dnsNames in Federation allows ${clusterID} ${below}.`,
      ),
    ],
  };
}

/** Without the names that the template makes for other Services. */
function allowed(
  { names, problems }: Hostnames,
  ref: FederatedRef,
  template: HostnameTemplate | undefined,
): Hostnames {
  const isReserved = (name: string): boolean => template?.isReserved(name, ref) ?? false;
  return {
    names: names.filter((name) => !isReserved(name)),
    problems: [
      ...problems,
      ...names
        .filter(isReserved)
        .map(
          (name) =>
            `${name} is refused: the site gives this name to another Service, by its template ${template?.text}.`,
        ),
    ],
  };
}
