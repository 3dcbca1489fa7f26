// Creates objects in a cluster by server-side apply, with the credential of the user.

import { HansaError } from '../../errors/error.ts';
import type { KubeClient } from '../kube-client.ts';
import { KubeStatusError } from '../kube-errors.ts';
import type { Manifest } from './manifest.ts';
import { manifestName, manifestPath } from './manifest-path.ts';

/**
 * Asks the API server whether it would accept the objects, so that a missing right shows before the first
 * change. Objects in a namespace that does not exist yet cannot be tried.
 */
export async function tryManifests(
  client: KubeClient,
  manifests: readonly Manifest[],
  force: boolean,
): Promise<void> {
  for (const manifest of manifests) {
    try {
      await client.apply(manifestPath(manifest), manifest, { force, dryRun: true });
    } catch (error) {
      if (error instanceof KubeStatusError && error.status === 404) continue;
      throw explained(error, manifest, 'Nothing was changed.');
    }
  }
}

/** Applies in order. An error says which objects exist already, and how to go on. */
export async function applyManifests(
  client: KubeClient,
  manifests: readonly Manifest[],
  force: boolean,
): Promise<void> {
  const done: string[] = [];
  for (const manifest of manifests) {
    try {
      await client.apply(manifestPath(manifest), manifest, { force });
    } catch (error) {
      const there =
        done.length === 0
          ? 'Nothing was changed.'
          : `The cluster has ${done.join(', ')} now, and the site knows nothing of it yet. Solve the problem and run the command again: it goes on from here.`;
      throw explained(error, manifest, there);
    }
    done.push(manifestName(manifest));
  }
}

function explained(error: unknown, manifest: Manifest, state: string): unknown {
  if (!(error instanceof HansaError)) return error;
  const what = `Cannot create ${manifestName(manifest)} in the cluster`;
  if (!(error instanceof KubeStatusError)) {
    return new HansaError(error, `${what}: ${error.message} ${state}`, { cause: error });
  }
  const { status, serverMessage, reason } = error;
  const words = serverMessage === '' ? `HTTP status ${status} ${reason}` : serverMessage;
  if (status === 403) {
    return new HansaError(
      'HANSA_FORBIDDEN',
      `${what}: your user of the kubeconfig lacks a right. The API server says: ${words}. Use a kubeconfig of a cluster administrator, or let one apply the output of --dry-run. ${state}`,
      { cause: error },
    );
  }
  if (status === 401) {
    return new HansaError(
      'HANSA_UNAUTHENTICATED',
      `${what}: the API server rejects the credential of the kubeconfig. Log in to the cluster again. ${state}`,
      { cause: error },
    );
  }
  if (status === 409) {
    return new HansaError(
      'HANSA_CONFLICT',
      `${what}: another program manages some of its fields. The API server says: ${words}. To take them over, add --force-conflicts. ${state}`,
      { cause: error },
    );
  }
  return new HansaError(error, `${what}: the API server answered ${words}. ${state}`, {
    cause: error,
  });
}
