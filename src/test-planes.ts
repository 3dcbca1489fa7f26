// The planes and kinds of the program, for tests: main.ts cannot be imported, because it runs the
// command line. A test compares this list with the reference pages, which main.ts decides.

import { coreKinds } from './api/kinds/core-kinds.ts';
import type { Kind } from './api/kind.ts';
import type { Plane } from './core/plane/plane.ts';
import { authPlane } from './auth/plane.ts';
import { kubernetesPlane } from './kubernetes/plane.ts';
import { peeringPlane } from './peering/plane.ts';
import { trustPlane } from './trust/plane.ts';

export const allPlanes: readonly Plane[] = [trustPlane, peeringPlane, authPlane, kubernetesPlane];

export const allKinds: readonly Kind[] = [
  ...coreKinds,
  ...allPlanes.flatMap((plane) => plane.kinds),
];
