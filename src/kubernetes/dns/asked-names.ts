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
import type { NameClaim } from './name-claims.ts';

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

interface Asking {
  readonly id: string;
  readonly createdAt: string;
  readonly text: string | undefined;
}

const noNames: Hostnames = { names: [], problems: [] };

/** Undefined where it asks for nothing: then there is nothing to write or to say. */
export function askedNames(
  ref: FederatedRef,
  key: string,
  {
    members,
    settings: { template, prefix },
    monotonicMs,
    leftOutOf,
  }: {
    readonly members: readonly SyncedMember[];
    readonly settings: NameSettings;
    readonly monotonicMs: number;
    readonly leftOutOf: (member: SyncedMember) => LeftOut;
  },
): AskedNames | undefined {
  const asking = members
    .flatMap((member) => askingIn(member, ref, key, monotonicMs, leftOutOf(member)))
    .toSorted((a, b) => compare(a.createdAt, b.createdAt) || compare(a.id, b.id));
  const [oldest] = asking;
  if (oldest === undefined) return undefined;
  const annotated = asking.find(({ text }) => text !== undefined);
  const common = allowed(
    annotated?.text === undefined ? (template?.nameOf(ref) ?? noNames) : parse(annotated.text),
    ref,
    template,
  );
  const own = new Map(
    members.flatMap((member) => {
      const text = textByHand(member, ref, prefix);
      const names = text === undefined ? undefined : allowed(parseHostnames(text), ref, template);
      return names === undefined ? [] : [[member.clusterID, names] as const];
    }),
  );
  if (annotated === undefined && template === undefined && own.size === 0) return undefined;
  const claim =
    (clusterID: string, { createdAt }: Asking) =>
    (name: string): NameClaim => ({ key, name, createdAt, clusterID });
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
      ...common.names.map(claim('', annotated ?? oldest)),
      ...[...own].flatMap(([clusterID, { names }]) => names.map(claim(clusterID, oldest))),
    ],
  };
}

const parse = parseHostnames;
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Clusters whose Services count in themselves only must not make others write names. */
function askingIn(
  { clusterID, isRead, state, settings, services, nativeServices }: SyncedMember,
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
      createdAt: creationTimestamp ?? '',
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
