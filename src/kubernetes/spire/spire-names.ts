// Names and labels of the objects of a SPIRE server in its cluster.

import { ownLabels } from '../../core/kube/manifests/manifest.ts';

/** The StatefulSet, the ConfigMap with server.conf, the ServiceAccount, the roles, and the Service for agents. */
export const serverName = 'spire-server';
/** The one Pod of the StatefulSet. */
export const podName = `${serverName}-0`;
/** The Service of the bundle endpoint, and what exposes it. */
export const federationServiceName = 'spire-server-federation';
/** The port of that Service, by name. */
export const federationPortName = 'federation';

/** Selects the Pods of the server. It never changes: a StatefulSet refuses another selector. */
export const selectorLabels = {
  'app.kubernetes.io/name': 'spire-server',
  'app.kubernetes.io/instance': 'hansa',
} as const;

export const serverLabels = { ...ownLabels, ...selectorLabels } as const;

/** On the Pods: the hash of server.conf. Another one restarts them. */
export const confHashAnnotation = 'spire.hansa.dev/config-hash';

/** On all that the operator writes: the term of the process that wrote it. Only grows. */
export const spireEpochAnnotation = 'spire.hansa.dev/epoch';
/** On all that the operator writes: the trust domain of the site that does. */
export const spireSiteAnnotation = 'spire.hansa.dev/site';
/** A user sets it to "true" on an object that was made by hand, so that the operator takes it over. */
export const adoptAnnotation = 'spire.hansa.dev/adopt';
