// Test fixture: members with caches that a test fills with objects as clusters send them.

import type { KubeObject } from '../../../core/kube/kube-client.ts';
import type { ExternalEntity } from '../../entities/compile-external-entities.ts';
import type { EndpointSlice, Namespace, Service } from '../../objects.ts';
import type { ListPoliciesOptions } from './list-policies.ts';
import { defaultPolicyKinds, idOfKind, parsePolicyKinds } from '../policy-kinds.ts';
import { type CachedRecord, readRecord, recordObject, sentRecord } from '../policy-records.ts';
import { cacheKeyOf, type PolicyRef } from '../policy-ref.ts';
import type { HeldRecord } from '../policy-state.ts';
import { type CachedPolicy, readPolicy } from '../read-policy.ts';
import { nowMs, retentionMs } from '../test-policy-views.ts';

type AnyMember = ReturnType<ListPoliciesOptions['members']['list']>[number];

export const kinds = parsePolicyKinds(defaultPolicyKinds);

class TestCache<T extends KubeObject> {
  readonly #objects = new Map<string, T>();
  isServed = true;
  /** Of a collection that is served. */
  failure: { readonly reason: string; readonly message: string } | undefined;

  get isSynced(): boolean {
    return this.isServed;
  }

  put(object: T): void {
    const { namespace = '', name } = object.metadata as { namespace?: string; name: string };
    this.#objects.set(namespace === '' ? name : `${namespace}/${name}`, object);
  }

  remove(key: string): void {
    this.#objects.delete(key);
  }

  byKey(key: string): T | undefined {
    return this.#objects.get(key);
  }

  byIndex(): readonly T[] {
    return [];
  }

  objects(): IterableIterator<T> {
    return this.#objects.values();
  }

  onChange(): () => void {
    return () => {};
  }

  status() {
    return {
      isSynced: this.isServed,
      failure: this.isServed ? this.failure : { reason: 'not-found', message: '', atMs: 0 },
      objects: this.#objects.size,
      bytes: 0,
    };
  }
}

export class TestPolicyMember {
  readonly clusterID: string;
  readonly policies = new Map(
    kinds.map(({ group, plural }) => [idOfKind({ group, plural }), new TestCache<CachedPolicy>()]),
  );
  readonly policyRecords = new TestCache<CachedRecord>();
  readonly namespaces = new TestCache<Namespace>();
  readonly services = new TestCache<Service>();
  readonly slices = new TestCache<EndpointSlice>();
  readonly externalEntities = new TestCache<ExternalEntity>();
  state: AnyMember['state'] = {
    state: 'Ready',
    sinceMs: 0,
    sinceMonotonicMs: 0,
    reason: 'Ready',
    message: '',
  };
  isRead = true;
  settings: AnyMember['settings'] = {};

  constructor(clusterID: string, ...namespaces: readonly string[]) {
    this.clusterID = clusterID;
    for (const name of namespaces) {
      this.namespaces.put({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    }
  }

  /** Returns the hash of its content. */
  put(ref: PolicyRef, object: object): string {
    const policy = readPolicy(object as KubeObject);
    this.policies.get(idOfKind(ref))?.put(policy);
    return policy.held.hash ?? '';
  }

  remove(ref: PolicyRef): void {
    this.policies.get(idOfKind(ref))?.remove(cacheKeyOf(ref));
  }

  record(ref: PolicyRef, held: HeldRecord, condition?: object): void {
    const object = sentRecord(recordObject(ref, held));
    const status = condition && { conditions: [{ type: 'Replicated', ...condition }] };
    this.policyRecords.put(readRecord({ ...object, ...(status && { status }) }));
  }
}

export const optionsOf = (...members: readonly TestPolicyMember[]): ListPoliciesOptions => ({
  members: { list: () => members as unknown as readonly AnyMember[] },
  settings: { kinds, retentionMs },
  dnsPrefix: 'dns.example',
  now: { nowMs, monotonicMs: 0 },
});
