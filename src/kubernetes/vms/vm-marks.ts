// Which Services and slices in a cluster are those of VirtualMachines. Copies are not among them.

import {
  epochAnnotation,
  managedByLabel,
  sourceAnnotation,
  vmAnnotation,
  vmManager,
} from '../names.ts';
import type { EndpointSlice, Service } from '../objects.ts';
import { hasSelector, isCopy } from '../services/compile-copy.ts';

/** Whether we wrote it. Only we can write epochs. One of the other marks may have been removed by hand. */
export function isVmService({ metadata }: Pick<Service, 'metadata'>): boolean {
  const { labels, annotations } = metadata;
  return (
    annotations?.[epochAnnotation] !== undefined &&
    !isCopy({ metadata }) &&
    (labels?.[managedByLabel] === vmManager || annotations[vmAnnotation] !== undefined)
  );
}

/** Whether we may delete it: a Service that was made from its manifest has another name than the annotation. */
export function isDisposableVmService(service: Pick<Service, 'metadata' | 'spec'>): boolean {
  const { annotations, name } = service.metadata;
  return isVmService(service) && !hasSelector(service) && annotations?.[vmAnnotation] === name;
}

/** A slice of a copy that got our label is still one of a copy. */
export function isVmSlice({ metadata }: Pick<EndpointSlice, 'metadata'>): boolean {
  const { labels, annotations } = metadata;
  return (
    annotations?.[epochAnnotation] !== undefined &&
    annotations[sourceAnnotation] === undefined &&
    labels?.[managedByLabel] === vmManager
  );
}
