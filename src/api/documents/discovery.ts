// API discovery, with which clients learn the kinds and their verbs. It serves both formats: the old
// one (one document per group) and the aggregated one (apidiscovery.k8s.io/v2), which kubectl
// prefers.

import { category } from './crd.ts';
import type { Kind } from '../kind.ts';
import { group, type JsonObject, version } from '../object.ts';
import type { Registry } from '../registry.ts';
import { reviewGroups } from './review-types.ts';

export type Verb =
  | 'create'
  | 'delete'
  | 'deletecollection'
  | 'get'
  | 'list'
  | 'patch'
  | 'update'
  | 'watch';

/** In the order in which kube-apiserver lists them for custom resources. */
const allVerbs: readonly Verb[] = [
  'delete',
  'deletecollection',
  'get',
  'list',
  'patch',
  'create',
  'update',
  'watch',
];

/** What the API can do with objects of a kind. The one object of a singleton is neither made nor deleted. */
export function verbsOf(kind: Kind): readonly Verb[] {
  if (kind.singleton === undefined) return allVerbs;
  return allVerbs.filter((verb) => !['create', 'delete', 'deletecollection'].includes(verb));
}

const statusVerbs: readonly Verb[] = ['get', 'patch', 'update'];

interface ServedResource {
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly verbs: readonly string[];
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  readonly status: boolean;
}

interface ServedVersion {
  readonly version: string;
  readonly resources: readonly ServedResource[];
}

interface ServedGroup {
  readonly name: string;
  /** The preferred one first. */
  readonly versions: readonly ServedVersion[];
}

function servedGroups(registry: Registry): readonly ServedGroup[] {
  const own: ServedVersion = {
    version,
    resources: registry.kinds.map((kind) => ({
      plural: kind.plural,
      singular: kind.singular,
      kind: kind.kind,
      verbs: verbsOf(kind),
      shortNames: kind.shortNames,
      categories: [category],
      status: kind.status !== undefined,
    })),
  };
  const groups = new Map<string, ServedVersion[]>([[group, [own]]]);
  for (const review of reviewGroups) {
    const versions = groups.get(review.group) ?? [];
    versions.push({
      version: review.version,
      resources: review.kinds.map((kind) => ({
        plural: kind.plural,
        singular: kind.singular,
        kind: kind.kind,
        verbs: ['create'],
        status: false,
      })),
    });
    groups.set(review.group, versions);
  }
  return [...groups].map(([name, versions]) => ({ name, versions }));
}

/** Documents by their path: `/api`, `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION`. */
export function discoveryDocuments(registry: Registry): ReadonlyMap<string, JsonObject> {
  const documents = new Map<string, JsonObject>();
  const groups = servedGroups(registry);
  documents.set('/api', { kind: 'APIVersions', versions: [], serverAddressByClientCIDRs: [] });
  documents.set('/apis', {
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: groups.map(groupSummary),
  });
  for (const served of groups) {
    documents.set(`/apis/${served.name}`, {
      kind: 'APIGroup',
      apiVersion: 'v1',
      ...groupSummary(served),
    });
    for (const { version: one, resources } of served.versions) {
      documents.set(`/apis/${served.name}/${one}`, {
        kind: 'APIResourceList',
        apiVersion: 'v1',
        groupVersion: `${served.name}/${one}`,
        resources: resources.flatMap(resourceEntries),
      });
    }
  }
  return documents;
}

function groupSummary(served: ServedGroup): JsonObject {
  const versions = served.versions.map(({ version: one }) => ({
    groupVersion: `${served.name}/${one}`,
    version: one,
  }));
  return { name: served.name, versions, preferredVersion: versions[0] as JsonObject };
}

function resourceEntries(resource: ServedResource): JsonObject[] {
  const entries: JsonObject[] = [
    {
      name: resource.plural,
      singularName: resource.singular,
      namespaced: false,
      kind: resource.kind,
      verbs: resource.verbs,
      ...namesOf(resource),
    },
  ];
  if (resource.status) {
    entries.push({
      name: `${resource.plural}/status`,
      singularName: '',
      namespaced: false,
      kind: resource.kind,
      verbs: statusVerbs,
    });
  }
  return entries;
}

function namesOf({ shortNames, categories }: ServedResource): JsonObject {
  return {
    ...(shortNames === undefined || shortNames.length === 0 ? {} : { shortNames }),
    ...(categories === undefined ? {} : { categories }),
  };
}

/** The media type that asks for, and labels, the aggregated documents. */
export const aggregatedMediaType =
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** Aggregated documents by their path: `/api` (nothing: there is no core group) and `/apis`. */
export function aggregatedDiscovery(registry: Registry): ReadonlyMap<string, JsonObject> {
  return new Map([
    ['/api', aggregatedList([])],
    ['/apis', aggregatedList(servedGroups(registry).map(aggregatedGroup))],
  ]);
}

function aggregatedList(items: readonly JsonObject[]): JsonObject {
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: 'apidiscovery.k8s.io/v2',
    metadata: {},
    items,
  };
}

function aggregatedGroup({ name, versions }: ServedGroup): JsonObject {
  return {
    metadata: { name },
    versions: versions.map(({ version: one, resources }) => ({
      version: one,
      freshness: 'Current',
      resources: resources.map((resource) => {
        const responseKind = { group: name, version: one, kind: resource.kind };
        return {
          resource: resource.plural,
          responseKind,
          scope: 'Cluster',
          singularResource: resource.singular,
          verbs: resource.verbs,
          ...namesOf(resource),
          ...(resource.status
            ? { subresources: [{ subresource: 'status', responseKind, verbs: statusVerbs }] }
            : {}),
        };
      }),
    })),
  };
}
