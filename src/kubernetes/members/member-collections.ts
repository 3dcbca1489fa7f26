// The reflectors of one member. They run only while they are acquired.

import { clusterClaimKind } from '../../api/kinds/cluster-claim.ts';
import { clustersGroup, federationKind, federationName } from '../../api/kinds/federation.ts';
import { type NativeService, nativeServiceKind } from '../../api/kinds/native-service.ts';
import { type VirtualMachine, virtualMachineKind } from '../../api/kinds/virtual-machine.ts';
import { version } from '../../api/object.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { CacheBudget, type CacheLimits } from '../../core/kube/reflector/cache-budget.ts';
import { Reflector } from '../../core/kube/reflector/reflector.ts';
import type { Log } from '../../core/log/log.ts';
import {
  exportsPath,
  importsPath,
  type ServiceExport,
  type ServiceImport,
} from '../mcs/mcs-objects.ts';
import { readServiceExport, readServiceImport } from '../mcs/read-mcs-objects.ts';
import { serviceNameLabel } from '../names.ts';
import type { EndpointSlice, Namespace, Node, ObjectMeta, Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import { federatedRefOf, isRef, keyOfRef } from '../services/federated-name.ts';
import type { ExternalEntity } from '../entities/compile-external-entities.ts';
import { entityCollection } from '../entities/read-entity.ts';
import { allOfKind, idOfKind, type PolicyKind } from '../policies/policy-kinds.ts';
import { type CachedRecord, readRecord, recordsPath } from '../policies/policy-records.ts';
import { type CachedPolicy, readPolicy } from '../policies/read-policy.ts';
import { serviceOfVm } from '../vms/vm-tags.ts';
import { type ReflectedClaim, readClaim } from './identity.ts';
import type { ReflectedFederation } from './read-federation.ts';
import { readEndpointSlice, readNamespace, readNode, readService } from './read-objects.ts';
import { readNativeService, readVirtualMachine } from './read-outside.ts';

export interface CollectionOptions {
  readonly client: KubeClient;
  /** The name of the cluster, for messages. */
  readonly cluster: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Of the cluster. */
  readonly budget: CacheBudget;
  /** Called when a reflector synced, failed or recovered. */
  readonly statusChanged: () => void;
}

const pathOf = (plural: string): string => `/apis/${clustersGroup}/${version}/${plural}`;

const mebibyte = 1024 * 1024;

/** Claims and `Federation` are few and small. */
const fewObjects = { maxObjects: 1000, maxBytes: 8 * mebibyte, maxValues: 100_000 } as const;

/**
 * What this site holds of one cluster, all collections together, so that a hostile member cannot fill its memory.
 * There is room for 100,000 endpoints, 20,000 member Services and copies, 50,000 other Services, 5,000 nodes and
 * 10,000 namespaces at once, or for 20,000 machines instead of half of it. A field or item costs at most about 100 bytes.
 */
export const memberLimits: CacheLimits = {
  maxObjects: 200_000,
  maxBytes: 192 * mebibyte,
  maxValues: 6_000_000,
};

/**
 * Of policies and their records, beside `memberLimits`, so that too many of them hide no Services. There is room for
 * 10,000 policies of 4 KiB with their records in each of the usual kinds.
 */
export const policyLimits: CacheLimits = {
  maxObjects: 100_000,
  maxBytes: 256 * mebibyte,
  maxValues: 6_000_000,
};

/** What a cluster says about itself. */
export function identityCollections(options: CollectionOptions) {
  const common = commonOptions(options);
  return {
    claims: new Reflector<ReflectedClaim>({
      ...common,
      path: pathOf(clusterClaimKind.plural),
      transform: readClaim,
      limits: fewObjects,
    }),
    federation: new Reflector<ReflectedFederation>({
      ...common,
      path: pathOf(federationKind.plural),
      fieldSelector: `metadata.name=${federationName}`,
      limits: fewObjects,
    }),
  };
}

/** `namespace` is the one of global copies. */
export function objectCollections(options: CollectionOptions, namespace: string) {
  const common = commonOptions(options);
  const federated = ({ metadata }: { readonly metadata: ObjectMeta }): readonly string[] => {
    const ref = federatedRefOf(metadata, namespace);
    return isRef(ref) ? [keyOfRef(ref)] : [];
  };
  return {
    services: new Reflector<Service, 'federated' | 'copies'>({
      ...common,
      path: '/api/v1/services',
      transform: readService,
      indexes: {
        federated: (service) => (isCopy(service) ? [] : federated(service)),
        copies: (service) => (isCopy(service) ? [keyOf(service.metadata)] : []),
      },
    }),
    slices: new Reflector<EndpointSlice, 'service'>({
      ...common,
      path: '/apis/discovery.k8s.io/v1/endpointslices',
      transform: readEndpointSlice,
      indexes: {
        service: ({ metadata }) => {
          const name = metadata.labels?.[serviceNameLabel];
          return name === undefined ? [] : [keyOf({ ...metadata, name })];
        },
      },
    }),
    nodes: new Reflector<Node>({
      ...common,
      path: '/api/v1/nodes',
      transform: readNode,
    }),
    namespaces: new Reflector<Namespace>({
      ...common,
      path: '/api/v1/namespaces',
      transform: readNamespace,
    }),
    nativeServices: new Reflector<NativeService & KubeObject, 'federated'>({
      ...common,
      path: pathOf(nativeServiceKind.plural),
      transform: readNativeService,
      indexes: { federated },
    }),
  };
}

/**
 * Kinds that a cluster may not serve, or that a site may have no rights to because an older version joined. A
 * part of the member controller that needs one waits for it by itself.
 */
export function addedCollections(options: CollectionOptions, namespace: string) {
  const common = commonOptions(options);
  return {
    serviceExports: new Reflector<ServiceExport>({
      ...common,
      path: exportsPath,
      transform: readServiceExport,
    }),
    serviceImports: new Reflector<ServiceImport>({
      ...common,
      path: importsPath,
      transform: readServiceImport,
    }),
    externalEntities: new Reflector<ExternalEntity, 'copy'>({ ...common, ...entityCollection }),
    virtualMachines: new Reflector<VirtualMachine & KubeObject, 'service'>({
      ...common,
      path: pathOf(virtualMachineKind.plural),
      transform: readVirtualMachine,
      indexes: {
        service: (vm) => {
          const name = serviceOfVm(vm, namespace);
          return typeof name === 'string' ? [keyOf({ ...(vm.metadata as ObjectMeta), name })] : [];
        },
      },
    }),
  };
}

/** Kinds that a cluster may not serve, as `addedCollections`. Policies by `idOfKind`. */
export function policyCollections(
  options: Omit<CollectionOptions, 'budget'>,
  kinds: readonly PolicyKind[],
) {
  const common = commonOptions({ ...options, budget: new CacheBudget(policyLimits) });
  const limits = policyLimits;
  const policies = kinds.map((kind): [string, Reflector<CachedPolicy>] => [
    idOfKind(kind),
    new Reflector<CachedPolicy>({
      ...common,
      limits,
      path: allOfKind(kind),
      transform: readPolicy,
    }),
  ]);
  return {
    policies: new Map(policies),
    policyRecords: new Reflector<CachedRecord>({
      ...common,
      limits,
      path: recordsPath,
      transform: readRecord,
    }),
  };
}

const keyOf = ({ namespace = '', name }: ObjectMeta): string => `${namespace}/${name}`;

function commonOptions(options: CollectionOptions) {
  const { client, cluster, clock, random, log, budget, statusChanged } = options;
  return { client, cluster, clock, random, log, budget, hooks: { statusChanged } };
}
