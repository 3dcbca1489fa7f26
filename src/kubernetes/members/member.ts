// What the plane knows of a member: its settings, its state, its client, and copies of its objects.

import type { Federation } from '../../api/kinds/federation.ts';
import type { NativeService } from '../../api/kinds/native-service.ts';
import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import type { Reflector } from '../../core/kube/reflector/reflector.ts';
import type { ExternalEntity } from '../entities/compile-external-entities.ts';
import type { ServiceExport, ServiceImport } from '../mcs/mcs-objects.ts';
import type { CachedRecord } from '../policies/policy-records.ts';
import type { CachedPolicy } from '../policies/read-policy.ts';
import type { EndpointSlice, Namespace, Node, Service } from '../objects.ts';

export type MemberSettings = NonNullable<Federation['spec']['members']>[number];

/**
 * `Connecting`: not read yet. `Ready`: all collections are read and followed. `Unreachable`: they were, or
 * never could be, also where the credential was rejected or has too few rights; what was read stays.
 * `Refused`: it is not the cluster that `Federation` means; nothing of it is read.
 */
export interface MemberState {
  readonly state: 'Connecting' | 'Ready' | 'Unreachable' | 'Refused';
  /** Wall time, to show. */
  readonly sinceMs: number;
  /** The same moment on the monotonic clock, for grace periods: a wall clock can be corrected by hours. */
  readonly sinceMonotonicMs: number;
  /** One word in CamelCase. */
  readonly reason: string;
  /** Why, and what to do. */
  readonly message: string;
}

/** The process that writes into a member, as the Lease there says. */
export interface MemberLeader {
  /** TRUST-DOMAIN/HOST/PID/UUID; empty where nobody leads. */
  readonly holder: string;
  readonly epoch: number;
}

/** Per process: another replica of the site has its own view of each member. */
export interface Member {
  readonly clusterID: string;
  readonly settings: MemberSettings;
  /** Whether this site leads from it. */
  readonly isHome: boolean;
  /** When this supervisor found it in `Federation`. RFC 3339. No date that it states counts before that. */
  readonly admittedAt: string;
  readonly state: MemberState;
  /** Undefined until this process has seen the Lease. */
  readonly leader: MemberLeader | undefined;
  /** Whether all its objects were read. It stays so while it is unreachable, until it is refused. */
  readonly isRead: boolean;
  readonly client: KubeClient;
  /** Member Services by the key of their federated Service (`federated`), and copies by `copies`. */
  readonly services: Reflector<Service, 'federated' | 'copies'>;
  /** By NAMESPACE/NAME of their Service; ours (`managed-by`) too. */
  readonly slices: Reflector<EndpointSlice, 'service'>;
  readonly nodes: Reflector<Node>;
  readonly namespaces: Reflector<Namespace>;
  readonly nativeServices: Reflector<NativeService & KubeObject, 'federated'>;
  /** By NAMESPACE/NAME of the Service that their tags name. A cluster may not serve them. */
  readonly virtualMachines: Reflector<VirtualMachine & KubeObject, 'service'>;
  /** Those of the configured kinds, by RESOURCE.GROUP. A cluster may not serve them. */
  readonly policies: ReadonlyMap<string, Reflector<CachedPolicy>>;
  readonly policyRecords: Reflector<CachedRecord>;
  /** Of the Multi-Cluster Services API. A cluster may not serve them. */
  readonly serviceExports: Reflector<ServiceExport>;
  readonly serviceImports: Reflector<ServiceImport>;
  /** Of Antrea. Ours by NAMESPACE/NAME of their copy. A cluster may not serve them. */
  readonly externalEntities: Reflector<ExternalEntity, 'copy'>;
}

/** The members that `Federation` of the home cluster lists. */
export interface Members {
  get(clusterID: string): Member | undefined;
  list(): readonly Member[];
  /**
   * Calls `listener` when a member comes, goes, or changes its settings, state or leader, or when one of the kinds
   * that it may not serve was read, is missing, or is served again. Returns how to stop.
   */
  onChange(listener: (clusterID: string) => void): () => void;
}
