// Which ServiceImports, Services and slices in a cluster a site wrote for exported Services. Copies and the Services
// of machines are not among them.

import { createHash } from 'node:crypto';
import { epochAnnotation, importAnnotation, importManager, managedByLabel } from '../names.ts';
import type { EndpointSlice, ObjectMeta, Service } from '../objects.ts';
import { hasSelector, isCopy } from '../services/compile-copy.ts';
import { isVmService } from '../vms/vm-marks.ts';

interface Marked {
  readonly metadata: ObjectMeta;
}

const hasEpoch = ({ metadata }: Marked): boolean =>
  metadata.annotations?.[epochAnnotation] !== undefined;

/** Whether a site wrote it. A user cannot write epochs, but can remove one of the other marks. */
export function isOwnImport(object: Marked): boolean {
  const { labels, annotations } = object.metadata;
  return (
    hasEpoch(object) &&
    (labels?.[managedByLabel] === importManager || annotations?.[importAnnotation] !== undefined)
  );
}

export function isImportService(service: Marked): boolean {
  return isOwnImport(service) && !isCopy(service) && !isVmService(service);
}

/** Whether a site may delete it: a Service that was made from its manifest has another name. */
export function isDisposableImportService(service: Pick<Service, 'metadata' | 'spec'>): boolean {
  const { annotations, name } = service.metadata;
  return (
    isImportService(service) &&
    !hasSelector(service) &&
    importServiceName(annotations?.[importAnnotation] ?? '') === name
  );
}

/** The label alone does not count: a slice without the annotation does not say what it belongs to. */
export function isImportSlice(slice: Pick<EndpointSlice, 'metadata'>): boolean {
  return hasEpoch(slice) && slice.metadata.annotations?.[importAnnotation] !== undefined;
}

/** A name of a Service has 63 characters at most. */
const mostKept = 40;

/**
 * The Service behind a ServiceImport. It cannot have the name of the ServiceImport, because an exporting cluster
 * has a Service of that name. The hash keeps it apart from names that users choose, and from other long names.
 */
export function importServiceName(name: string): string {
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 10);
  return `${name.slice(0, mostKept).replace(/[.-]+$/, '')}-mcs-${hash}`;
}
