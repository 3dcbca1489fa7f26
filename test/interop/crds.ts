// The CRDs that make kube-apiserver serve what a site serves.

import { crdOf } from '../../src/api/documents/crd.ts';
import type { Kind } from '../../src/api/kind.ts';
import { allKinds } from '../../src/test-planes.ts';
import type { CustomResourceDefinition } from './kube-apiserver.ts';

export function crdsOf(...extra: readonly Kind[]): readonly CustomResourceDefinition[] {
  return [...allKinds, ...extra].map((kind) => crdOf(kind) as unknown as CustomResourceDefinition);
}
