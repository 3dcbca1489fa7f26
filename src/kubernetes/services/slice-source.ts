// Where the endpoints of a slice of a copy come from: one slice of a member Service, or the addresses of
// one. Slices carry this in an annotation, so that each source can be followed alone.

import { isImportSlice } from '../mcs/import-marks.ts';
import {
  epochAnnotation,
  importManager,
  managedByLabel,
  manager,
  sourceAnnotation,
  sourceClusterLabel,
} from '../names.ts';
import type { EndpointSlice } from '../objects.ts';
import { isVmSlice } from '../vms/vm-marks.ts';
import { keyOfMember, type MemberService } from './member-service.ts';

export interface SliceSource {
  /** As `keyOfMember` produces it. */
  readonly member: string;
  readonly clusterID: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The name of the slice; undefined for the addresses of the member Service. */
  readonly slice: string | undefined;
}

/** CLUSTER/KIND/NAMESPACE/NAME/slice/SLICE or CLUSTER/KIND/NAMESPACE/NAME/addresses. */
export function sourceID(
  service: Pick<MemberService, 'clusterID' | 'kind' | 'namespace' | 'name'>,
  slice?: string,
): string {
  const member = keyOfMember(service);
  return slice === undefined ? `${member}/addresses` : sliceSourceID(member, slice);
}

/** `member` is as `keyOfMember` produces it. */
export function sliceSourceID(member: string, slice: string): string {
  return `${member}/slice/${slice}`;
}

/** Undefined for what `sourceID` does not produce. */
export function parseSourceID(text: string): SliceSource | undefined {
  const [clusterID, kind, namespace, name, type, slice, ...rest] = text.split('/');
  if (!clusterID || !kind || !namespace || !name || rest.length > 0) return undefined;
  const member = `${clusterID}/${kind}/${namespace}/${name}`;
  if (type === 'addresses' && slice === undefined) {
    return { member, clusterID, kind, namespace, name, slice: undefined };
  }
  return type === 'slice' && slice
    ? { member, clusterID, kind, namespace, name, slice }
    : undefined;
}

/** Of a slice of a copy. Empty where a user removed it. */
export function sourceOfSlice({ metadata }: Pick<EndpointSlice, 'metadata'>): string {
  return metadata.annotations?.[sourceAnnotation] ?? '';
}

/** Whether it is a slice of a copy. Only we can write epochs. */
export function isOwnSlice(slice: Pick<EndpointSlice, 'metadata'>): boolean {
  const hasEpoch = slice.metadata.annotations?.[epochAnnotation] !== undefined;
  return hasEpoch && !isVmSlice(slice) && !isImportSlice(slice);
}

/**
 * Whether its endpoints may be those of a member Service. Slices of copies and of ServiceImports never are. Neither are
 * those that another program brought from another cluster: a member has only endpoints of its own cluster.
 */
export function isSource(slice: Pick<EndpointSlice, 'metadata'>): boolean {
  const { labels } = slice.metadata;
  if (labels?.[sourceClusterLabel] !== undefined) return false;
  const isDerived = [manager, importManager].includes(labels?.[managedByLabel] ?? '');
  return !isDerived && !isOwnSlice(slice) && !isImportSlice(slice);
}
