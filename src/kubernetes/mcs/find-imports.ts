// Finds what sites wrote into objects of the Multi-Cluster Services API, by lists, for a cluster that leaves.

import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
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
}

/** None where the cluster does not serve them, or the site joined with a version that did not ask for the rights. */
export async function findMcsObjects(kube: Pick<KubeClient, 'list'>): Promise<McsObjects> {
  const imports = await listed<ServiceImport>(kube, importsPath);
  const exports = await listed<ServiceExport>(kube, exportsPath);
  return {
    imports: imports.filter(isOwnImport),
    exports: exports.filter((each) => isTold(each)),
  };
}

async function listed<T extends KubeObject>(
  kube: Pick<KubeClient, 'list'>,
  path: string,
): Promise<readonly T[]> {
  try {
    return await kube.list<T>(path);
  } catch (error) {
    if (error instanceof KubeStatusError && [403, 404].includes(error.status)) return [];
    throw error;
  }
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
