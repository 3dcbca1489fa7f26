// Starts the auth plane in a site: creates its controllers and routes.

import type { PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import { authInfoRoute } from './routes/auth-info-route.ts';
import type { AuthSettings } from './settings.ts';

export async function startAuth(
  context: PlaneContext,
  settings: AuthSettings,
): Promise<RunningPlane> {
  return {
    controllers: [],
    routes: [authInfoRoute(context, settings)],
    stop: async () => undefined,
  };
}
