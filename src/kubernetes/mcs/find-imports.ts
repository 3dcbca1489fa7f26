// Finds what sites wrote into objects of the Multi-Cluster Services API, by lists, for a cluster that leaves.

import type { KubeClient } from '../../core/kube/kube-client.ts';
import { type Listed, listServed } from '../../core/kube/list-served.ts';
import { termManager } from '../names.ts';
import type { Condition, ObjectMeta } from '../objects.ts';
import { exportConditions } from './export-conditions.ts';
import { isOwnImport } from './import-marks.ts';
import { exportsPath, importsPath, type ServiceExport, type ServiceImport } from './mcs-objects.ts';

export interface McsObjects {
  /** ServiceImports of sites. */
  readonly imports: readonly ServiceImport[];
  /** ServiceExports whose conditions a site wrote. */
  readonly exports: readonly ServiceExport[];
  /** Not all could be read. */
  readonly forbidden: Listed<unknown>['forbidden'];
}

export async function findMcsObjects(
  kube: Pick<KubeClient, 'list' | 'request'>,
): Promise<McsObjects> {
  const imports = await listServed<ServiceImport>(kube, importsPath);
  const exports = await listServed<ServiceExport>(kube, exportsPath);
  return {
    imports: imports.items.filter(isOwnImport),
    exports: exports.items.filter((each) => isTold(each)),
    forbidden: imports.forbidden ?? exports.forbidden,
  };
}

const own: readonly string[] = exportConditions;

/** Another program may write the same conditions where no site does. The field manager tells them apart. */
function isTold({ metadata, status }: ServiceExport): boolean {
  const { managedFields = [] } = metadata as ObjectMeta & {
    readonly managedFields?: readonly {
      readonly manager?: string;
      readonly subresource?: string;
    }[];
  };
  return (
    (status?.conditions ?? []).some(({ type }) => own.includes(type)) &&
    managedFields.some(
      ({ manager = '', subresource }) =>
        subresource === 'status' && manager.startsWith(termManager),
    )
  );
}

/** The conditions that stay. */
export const otherExportConditions = ({ status }: ServiceExport): readonly Condition[] =>
  (status?.conditions ?? []).filter(({ type }) => !own.includes(type));
