// Starts the auth plane in a site: creates its controllers and routes.

import type { PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import type { AuthSettings } from './settings.ts';

export async function startAuth(
  _context: PlaneContext,
  _settings: AuthSettings,
): Promise<RunningPlane> {
  return { controllers: [], routes: [], stop: async () => undefined };
}
