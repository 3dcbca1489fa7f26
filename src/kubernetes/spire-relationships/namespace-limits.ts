// The namespaces whose workloads may federate, as the cluster has them now, and objects that escape that limit.

import { HansaError } from '../../core/errors/error.ts';
import type { Refusal, Warning } from '../spire/compile-conditions.ts';
import { namespaceSelectorOf, objectsOutside, selectorText } from './federation-namespaces.ts';
import type { SpireServerSpec } from '../spire/read-spire-server.ts';
import type { SpireWatches } from '../spire/spire-watches.ts';

type HandsOver = 'ControllerManager' | 'Sidecar';

export interface SelectedNamespaces {
  /** Undefined: all. */
  readonly namespaces: readonly string[] | undefined;
}

/** Undefined until they are read. */
export function selectedNamespaces(
  spec: SpireServerSpec,
  by: HandsOver,
  watches: Pick<SpireWatches, 'namespaces'>,
): SelectedNamespaces | Refusal | undefined {
  const selector = namespaceSelectorOf(spec);
  // spire-controller-manager writes the entries, so an admission policy limits them.
  const isWatched = selector !== undefined && by === 'Sidecar';
  try {
    const view = watches.namespaces(isWatched ? selectorText(selector) : undefined);
    if (!isWatched) return { namespaces: undefined };
    if (view?.failure === undefined) return view && { namespaces: view.names };
    const message = `The site cannot list the namespaces that federation.namespaceSelector selects: ${view.failure} Give the site its rights: hansa spire install CLUSTER --kubeconfig FILE.`;
    return { reason: 'NamespacesUnknown', message };
  } catch (error) {
    if (!(error instanceof HansaError)) throw error;
    const message = `spec.federation.namespaceSelector: ${error.message}.`;
    return { reason: 'Invalid', message };
  }
}

/** Where an object was written before the admission policy, or the cluster has none. */
export function outsideWarning(
  spec: SpireServerSpec,
  by: HandsOver,
  watches: Pick<SpireWatches, 'workloadIdentities'>,
  className: string,
): Warning | undefined {
  const selector = namespaceSelectorOf(spec);
  if (selector === undefined || by !== 'ControllerManager') return undefined;
  const { objects, failure } = watches.workloadIdentities();
  if (failure !== undefined) {
    const message = `The site cannot see which objects federation.namespaceSelector does not limit: ${failure} Give the site its rights: hansa spire install CLUSTER --kubeconfig FILE.`;
    return { reason: 'OutsideNamespaces', message };
  }
  const names = objectsOutside(objects, selector, className);
  if (names.length === 0) return undefined;
  const message = `These objects federate, and federation.namespaceSelector does not limit them: ${names.join(', ')}. Give each ClusterSPIFFEID the same namespaceSelector, or remove its federatesWith.`;
  return { reason: 'OutsideNamespaces', message };
}
