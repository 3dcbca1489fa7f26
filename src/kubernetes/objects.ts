// The objects of Kubernetes that the plane reads and writes, with the fields that it uses. Reflectors cut
// objects down to these; what a cluster sends has been checked by then.

import type { KubeObject } from '../core/kube/kube-client.ts';

export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

export type Protocol = 'TCP' | 'UDP' | 'SCTP';
export type IPFamily = 'IPv4' | 'IPv6';

export interface ServicePort {
  readonly name?: string;
  readonly port: number;
  readonly protocol?: Protocol;
  readonly appProtocol?: string;
  /** A number, or the name of a port of the pods. */
  readonly targetPort?: number | string;
  readonly nodePort?: number;
}

export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number;
}

export interface Service extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: {
    readonly type?: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
    /** `None` for a headless Service. */
    readonly clusterIP?: string;
    readonly externalIPs?: readonly string[];
    readonly ports?: readonly ServicePort[];
    readonly selector?: Readonly<Record<string, string>>;
    readonly ipFamilies?: readonly IPFamily[];
    readonly ipFamilyPolicy?: string;
    readonly clusterIPs?: readonly string[];
    /** Copies have the defaults of these (services/copy-spec.ts). A cached copy has them only where they differ. */
    readonly sessionAffinity?: unknown;
    readonly sessionAffinityConfig?: unknown;
    readonly internalTrafficPolicy?: unknown;
    readonly externalTrafficPolicy?: unknown;
    readonly trafficDistribution?: unknown;
    readonly publishNotReadyAddresses?: unknown;
    readonly externalName?: unknown;
    readonly healthCheckNodePort?: unknown;
    readonly allocateLoadBalancerNodePorts?: unknown;
    readonly loadBalancerIP?: unknown;
    readonly loadBalancerClass?: unknown;
    readonly loadBalancerSourceRanges?: unknown;
  };
  readonly status?: {
    readonly loadBalancer?: {
      readonly ingress?: readonly {
        readonly ip?: string;
        readonly hostname?: string;
        readonly ports?: readonly { readonly port: number; readonly protocol?: Protocol }[];
      }[];
    };
    readonly conditions?: readonly Condition[];
  };
}

export interface Endpoint {
  readonly addresses: readonly string[];
  /** Absent means true for ready and serving, false for terminating. */
  readonly conditions?: {
    readonly ready?: boolean;
    readonly serving?: boolean;
    readonly terminating?: boolean;
  };
  readonly hostname?: string;
}

export interface EndpointPort {
  readonly name?: string;
  readonly port?: number;
  readonly protocol?: Protocol;
  readonly appProtocol?: string;
}

export interface EndpointSlice extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly addressType: IPFamily | 'FQDN';
  readonly endpoints?: readonly Endpoint[] | null;
  readonly ports?: readonly EndpointPort[] | null;
}

export interface Node extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly status?: {
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
    readonly conditions?: readonly Pick<Condition, 'type' | 'status'>[];
  };
}

export interface Namespace extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly status?: { readonly phase?: string };
}
