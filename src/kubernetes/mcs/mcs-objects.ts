// The objects of the Multi-Cluster Services API (KEP-1645) that the plane reads and writes, with the fields that
// it uses.

import type { KubeObject } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { Condition, IPFamily, ObjectMeta, Protocol } from '../objects.ts';

export const mcsGroup = 'multicluster.x-k8s.io';
/** Every release of the CRDs serves it. Objects that users write as v1beta1 are the same objects. */
export const mcsVersion = 'v1alpha1';
export const mcsApiVersion = `${mcsGroup}/${mcsVersion}`;

export const exportsPath = `/apis/${mcsApiVersion}/serviceexports`;
export const importsPath = `/apis/${mcsApiVersion}/serviceimports`;

export const exportPath = ({ namespace = '', name }: ObjectMeta): string =>
  `/apis/${mcsApiVersion}${kubePath`/namespaces/${namespace}/serviceexports/${name}`}`;
export const importCollection = (namespace: string): string =>
  `/apis/${mcsApiVersion}${kubePath`/namespaces/${namespace}/serviceimports`}`;
export const importPath = ({ namespace = '', name }: ObjectMeta): string =>
  `/apis/${mcsApiVersion}${kubePath`/namespaces/${namespace}/serviceimports/${name}`}`;

/** In a cluster that has the Service. */
export interface ServiceExport extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly status?: { readonly conditions?: readonly Condition[] };
}

export interface ImportPort {
  readonly name?: string;
  readonly port: number;
  readonly protocol?: Protocol;
  readonly appProtocol?: string;
}

/** In each cluster that has the namespace. */
export interface ServiceImport extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: {
    readonly type: 'ClusterSetIP' | 'Headless';
    readonly ports: readonly ImportPort[];
    /** The addresses of the Service behind it. None for a headless one. */
    readonly ips?: readonly string[];
    /** Of these. CRDs before v0.3 do not have it. */
    readonly ipFamilies?: readonly IPFamily[];
    readonly sessionAffinity?: 'None' | 'ClientIP';
    readonly sessionAffinityConfig?: { readonly clientIP?: { readonly timeoutSeconds?: number } };
  };
  readonly status?: { readonly clusters?: readonly { readonly cluster: string }[] };
}
