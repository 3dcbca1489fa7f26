// Federated policies in the scenario `league`: users of all clusters edit, delete and end them, on both sides of
// partitions, and namespaces go with them.
//
// Invariants: what no user deleted is never deleted, whatever happens to namespaces, API servers and their etcd. When
// the faults end, all clusters agree, and sites write nothing more. A deletion by a user then ends a policy everywhere.

import assert from 'node:assert/strict';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import type { KubeObject } from '../../src/core/kube/kube-client.ts';
import { policyAnnotation, replicaAnnotation } from '../../src/kubernetes/names.ts';
import type { ObjectMeta } from '../../src/kubernetes/objects.ts';
import { parsePolicyKinds } from '../../src/kubernetes/policies/policy-kinds.ts';
import type { RecordSpec } from '../../src/kubernetes/policies/policy-records.ts';
import { recordNameOf } from '../../src/kubernetes/policies/policy-ref.ts';
import { networkPolicies, policy } from '../../src/kubernetes/policies/test-policy-league.ts';
import type { StoredChange } from '../fakes/memory-kube/memory-etcd.ts';
import type { MemoryKube } from '../fakes/memory-kube/memory-kube.ts';

const { group, version, plural, kind } = networkPolicies;

export const policySettings = {
  kinds: parsePolicyKinds(`${group}/${version}/${plural}/${kind}`),
  retentionMs: 168 * 3_600_000,
};

const namespace = 'app';
/** Users delete the second one, and end its federation. */
const names = ['kept', 'gone'] as const;
type Name = (typeof names)[number];

interface StoredPolicy extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: unknown;
}

interface StoredRecord extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: RecordSpec;
}

/** The policies of one cluster. Requests of users always arrive. */
export class LeaguePolicies {
  readonly id: string;
  readonly #kube: MemoryKube;
  readonly #act: (work: () => void) => void;
  /** Writes of sites. */
  readonly writes: string[] = [];
  #isKept = true;

  /** `act` runs each change of a user. */
  constructor(id: string, kube: MemoryKube, act: (work: () => void) => void) {
    this.id = id;
    this.#kube = kube;
    this.#act = act;
    kube.serve(networkPolicies);
  }

  /** Something that users do. */
  change(random: SeededRandom): void {
    const name = random.pick(names);
    const act = random.pick([
      () => this.#edit(random, name),
      () => this.#edit(random, name),
      () => this.#edit(random, name),
      () => this.#deleteRecord(name),
      ...(name === 'gone' ? [() => this.#delete(name), () => this.#end(name)] : []),
    ]);
    this.#act(act);
  }

  /** Whether it is there, and federated. */
  has(name: Name): boolean {
    return this.held(name).isFederated;
  }

  /** A namespace that ended after the last look of its users stays away. */
  get hasNamespace(): boolean {
    return this.#kube.objects('namespaces').some(({ metadata }) => metadata.name === namespace);
  }

  /** As a user does. */
  deleteAsUser(name: Name): void {
    this.#act(() => this.#delete(name));
  }

  /** From now on, users delete all of them. */
  mayDelete(): void {
    this.#isKept = false;
  }

  #delete(name: Name): void {
    this.#send('DELETE', `/${name}`, undefined);
  }

  /** A site wrote it. Returns what is wrong. */
  judge({ key, new: now }: StoredChange): string | undefined {
    const isRecord = key.includes('/policyrecords/');
    if (!isRecord && !key.includes(`/${plural}/`)) return undefined;
    if (key.endsWith('/synced')) return undefined;
    this.writes.push(key);
    const { spec } = (now ?? {}) as Partial<StoredRecord>;
    const isEnd = spec?.state === 'Deleted' || spec?.state === 'Ended';
    return this.#isKept && isRecord && isEnd && spec.policy?.name === 'kept'
      ? `${this.id}: a site recorded ${spec.state} for a policy that no user deleted`
      : undefined;
  }

  held(name: Name) {
    const found = this.#find(name);
    const { annotations = {} } = found?.metadata ?? {};
    const { state, stamp } = this.#record(name)?.spec ?? {};
    return {
      id: this.id,
      content: found && JSON.stringify(found.spec),
      isFederated: annotations[policyAnnotation] === 'true',
      isReplica: annotations[replicaAnnotation] !== undefined,
      state,
      stamp,
    };
  }

  #find(name: Name): StoredPolicy | undefined {
    return this.#kube
      .objects<StoredPolicy>(plural, namespace)
      .find(({ metadata }) => metadata.name === name);
  }

  #record(name: Name): StoredRecord | undefined {
    const record = recordNameOf({ group, plural, namespace, name });
    return this.#kube
      .objects<StoredRecord>('policyrecords')
      .find(({ metadata }) => metadata.name === record);
  }

  #edit(random: SeededRandom, name: Name): void {
    const made = policy(random.pick(['v1', 'v2', 'v3']), name);
    const object = { ...made, metadata: { ...made.metadata, namespace } };
    const isThere = this.#find(name) !== undefined;
    this.#send(isThere ? 'PUT' : 'POST', isThere ? `/${name}` : '', object);
  }

  #end(name: Name): void {
    const patch = { metadata: { annotations: { [policyAnnotation]: null } } };
    this.#send('PATCH', `/${name}`, patch);
  }

  #deleteRecord(name: Name): void {
    const record = this.#record(name);
    if (record === undefined) return;
    this.#handle(
      'DELETE',
      `/apis/clusters.hansa.dev/v1alpha1/policyrecords/${record.metadata.name}`,
    );
  }

  #send(method: string, name: string, body: unknown): void {
    this.#handle(
      method,
      `/apis/${group}/${version}/namespaces/${namespace}/${plural}${name}`,
      body,
    );
  }

  #handle(method: string, path: string, body?: unknown): void {
    this.#kube.handle({
      method,
      path,
      query: { fieldManager: 'kubectl' },
      body,
      contentType: method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
      user: 'user',
    });
  }
}

/** All clusters with the namespace have the same version, or none has a federated policy. What a user keeps without the annotation stays. */
export function checkPolicies(clusters: readonly LeaguePolicies[]): void {
  for (const name of names) {
    const all = clusters
      .filter(({ hasNamespace }) => hasNamespace)
      .map((cluster) => cluster.held(name));
    const text = JSON.stringify(all);
    const open = all.filter(({ content, isFederated }) => content === undefined || isFederated);
    const live = open.find(({ state }) => state === 'Live');
    for (const held of open) {
      if (live === undefined) {
        const isKept = held.state === 'Ended' && !held.isReplica;
        assert.ok(held.content === undefined || isKept, `${name} is still in ${held.id}: ${text}`);
      } else {
        assert.equal(held.state, 'Live', `${name} is not live in ${held.id}: ${text}`);
        assert.equal(held.content, live.content, `${name} differs in ${held.id}: ${text}`);
        assert.deepEqual(held.stamp, live.stamp, `${name} differs in ${held.id}: ${text}`);
      }
    }
  }
}

/** After a user deleted a policy in one cluster. */
export function checkDeleted(clusters: readonly LeaguePolicies[], name: Name): void {
  const all = clusters.map((cluster) => cluster.held(name));
  assert.ok(
    all.every(({ isFederated }) => !isFederated),
    `${name} was deleted, and is still there: ${JSON.stringify(all)}`,
  );
}
