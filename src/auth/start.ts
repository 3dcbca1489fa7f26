// Starts the auth plane in a site: creates its controllers and routes.

import { clusterConnector } from '../core/kube/cluster-connections.ts';
import type { PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import { clusterParts } from './cluster-parts.ts';
import type { AuthSettings } from './settings.ts';

export async function startAuth(
  context: PlaneContext,
  settings: AuthSettings,
): Promise<RunningPlane> {
  const connect = clusterConnector(
    {
      sourceOf: () => ({ current: () => ({ type: 'none' }) }),
      caOf: ({ spec }) => spec.caBundle,
    },
    context.clock,
  );
  const { controllers, admit, accompany, stop } = clusterParts(context, settings, connect);
  return {
    controllers,
    routes: [],
    admit,
    accompany,
    stop: async () => stop(),
  };
}
