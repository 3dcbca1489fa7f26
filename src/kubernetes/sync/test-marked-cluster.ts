// Test fixture: a cluster in memory that serves kinds of the site, with CRDs that a test can delete, and a client
// that has the rights which `hansa cluster sync` gives to a site.

import type { Kind } from '../../api/kind.ts';
import type { Condition, JsonObject } from '../../api/object.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { customResource } from '../../../test/fakes/memory-kube/custom-resources.ts';
import { type AccessRequest, MemoryKube } from '../../../test/fakes/memory-kube/memory-kube.ts';
import { MemoryKubeClient } from '../../../test/fakes/memory-kube/memory-kube-client.ts';
import type { Resource } from '../../../test/fakes/memory-kube/resource.ts';
import {
  acceptedCondition,
  clusterSideKind,
  clusterSidePath,
  definitionName,
} from './cluster-side-kind.ts';

const definitions: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  isNamespaced: false,
  hasStatus: true,
};
const definitionsPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const siteUser = 'site';

export interface StoredStatus {
  readonly conditions?: readonly Condition[];
  readonly syncedTo?: string;
  readonly [field: string]: unknown;
}

type Stored = KubeObject & {
  readonly metadata: { readonly uid: string; readonly generation: number };
  readonly spec?: JsonObject;
  readonly status?: StoredStatus;
};

export class TestMarkedCluster {
  readonly kube: MemoryKube;
  /** The user who applies objects. */
  readonly user: MemoryKubeClient;
  /** Requests of the site, as `update spiffefederations/status bruges.example`. */
  readonly requests: string[] = [];
  /** Writes of a status that the API server refuses. */
  refusesStatus: (status: StoredStatus) => boolean = () => false;
  readonly #allowed = new Set<string>();
  /** Of every client that the site opened: whether it is closed. */
  readonly connections: { isClosed: boolean }[] = [];

  constructor(name: string, clock: Clock, kinds: readonly Kind[]) {
    this.kube = new MemoryKube({
      name,
      clock,
      resources: [definitions],
      allows: (request) => this.#allows(request),
      admit: ({ isStatus, object }) =>
        isStatus && this.refusesStatus((object?.['status'] ?? {}) as StoredStatus)
          ? 'refused by the test'
          : undefined,
    });
    this.user = new MemoryKubeClient({ cluster: this.kube });
    for (const kind of kinds) {
      this.serve(kind);
      const plural = `hansa.dev/${kind.plural}`;
      for (const verb of ['get', 'list', 'watch']) this.#allowed.add(`${verb} ${plural}`);
      this.#allowed.add(`update ${plural}/status`);
      this.#allowed.add(
        `get apiextensions.k8s.io/customresourcedefinitions ${definitionName(kind)}`,
      );
    }
  }

  connect(): MemoryKubeClient {
    const connection = { isClosed: false };
    this.connections.push(connection);
    const client = new MemoryKubeClient({ cluster: this.kube, user: siteUser });
    client.close = () => {
      connection.isClosed = true;
    };
    return client;
  }

  /** Takes a right away from the site, such as `update hansa.dev/roles/status`. */
  forbid(right: string): void {
    this.#allowed.delete(right);
  }

  /** Installs the CRD. */
  serve(kind: Kind): void {
    this.kube.serve(customResource(clusterSideKind(kind)));
    const name = definitionName(kind);
    this.kube.put(definitions.plural, '', name, {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: definitions.kind,
      metadata: { name },
    });
  }

  /** Deletes the CRD with all objects, as Kubernetes does it: the objects go first. */
  async undefine(kind: Kind, meanwhile: () => Promise<void>): Promise<void> {
    const name = definitionName(kind);
    const found = await this.user.get<KubeObject>(`${definitionsPath}/${name}`);
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    const metadata = { ...found.metadata, deletionTimestamp };
    this.kube.put(definitions.plural, '', name, { ...found, metadata });
    for (const { metadata: one } of this.kube.objects<KubeObject>(kind.plural)) {
      this.kube.put(kind.plural, '', one.name, undefined);
    }
    await meanwhile();
    this.kube.stopServing(kind.plural);
    this.kube.put(definitions.plural, '', name, undefined);
    await meanwhile();
  }

  /** Creates or replaces, as a user. */
  async apply(kind: Kind, name: string, spec: unknown, labels?: object): Promise<void> {
    const path = clusterSidePath(kind);
    const known = this.find(kind, name);
    const apiVersion = 'hansa.dev/v1alpha1';
    const metadata = { ...known?.metadata, name, ...(labels !== undefined && { labels }) };
    const object = { apiVersion, kind: kind.kind, metadata, spec };
    if (known === undefined) await this.user.create(path, object);
    else await this.user.replace(`${path}/${name}`, object);
  }

  async remove(kind: Kind, name: string): Promise<void> {
    await this.user.delete(`${clusterSidePath(kind)}/${name}`);
  }

  find(kind: Kind, name: string): Stored | undefined {
    return this.kube.objects<Stored>(kind.plural).find(({ metadata }) => metadata.name === name);
  }

  /** Of the condition Accepted, as `True Accepted`. */
  verdict(kind: Kind, name: string): string | undefined {
    const found = this.condition(kind, name);
    return found && `${found.status} ${found.reason}`;
  }

  condition(kind: Kind, name: string, wanted = acceptedCondition): Condition | undefined {
    const { conditions = [] } = this.find(kind, name)?.status ?? {};
    return conditions.find(({ type }) => type === wanted);
  }

  #allows({ user, verb, group, resource, isStatus, name }: AccessRequest): boolean {
    if (user !== siteUser) return true;
    const what = `${verb} ${group}/${resource}${isStatus ? '/status' : ''}`;
    this.requests.push(`${what} ${name}`.trim());
    return this.#allowed.has(what) || this.#allowed.has(`${what} ${name}`);
  }
}
