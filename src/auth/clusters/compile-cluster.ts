// Compiles a Cluster object into the form that reviews use, and decides where its keys come from. Pure.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import type { PeerCluster, ReviewedCluster, Upstream } from './reviewed-cluster.ts';

/** Where to fetch the keys of a cluster. */
export type KeySource =
  | {
      readonly from: 'issuer';
      /** Of the OpenID configuration. */
      readonly url: URL;
      /** PEM. The authorities that the issuer's certificate must chain to; undefined: the public ones. */
      readonly caBundle: string | undefined;
    }
  | { readonly from: 'apiServer'; readonly client: KubeClient }
  | { readonly from: 'peer'; readonly peer: PeerCluster };

/** A cluster with what the plane itself needs, beyond reviews. */
export interface StoredCluster extends ReviewedCluster {
  /** In the order in which they are tried. Never empty for an admitted Cluster. */
  readonly keySources: readonly KeySource[];
  /** Changes where keys of before must not be used any more. */
  readonly keyOrigin: string;
}

export type ReviewMode = ReviewedCluster['mode'];

export function compileCluster(
  { metadata, spec }: Cluster,
  client: KubeClient | undefined,
  upstreamOf?: (peer: PeerCluster) => Upstream,
): StoredCluster {
  const { validation, callers } = spec;
  const mode = modeOf(spec);
  const peer = peerOf(spec);
  return {
    name: metadata.name,
    uid: metadata.uid,
    generation: metadata.generation,
    issuer: spec.issuer,
    apiServer: spec.apiServer === undefined ? undefined : new URL(spec.apiServer).href,
    peer,
    upstream: peer && upstreamOf?.(peer),
    apiAudiences: peer === undefined ? (spec.apiAudiences ?? [spec.issuer]) : [],
    mode,
    maxRevocationLagMs: mode === 'jwks' ? 0 : (validation?.maxRevocationLagSeconds ?? 10) * 1000,
    onUnreachable: validation?.onUnreachable ?? 'unavailable',
    local: spec.local,
    acceptsAPIServerAudience: callers?.acceptAPIServerAudience === true,
    sharesKeys: spec.sharesKeys === true,
    webhookPrefixes: new Map(
      (callers?.webhookAuthenticators ?? []).map(({ caller, prefix }) => [caller, prefix]),
    ),
    client,
    keySources: peer === undefined ? keySourcesOf(spec, client) : [{ from: 'peer', peer }],
    keyOrigin: JSON.stringify([
      spec.issuer,
      spec.apiServer,
      spec.caFile,
      spec.caBundle,
      spec.tlsServerName,
      spec.proxyURL,
      // Only there, so that the stored keys of other clusters stay valid after an update of the site.
      ...(peer === undefined ? [] : [peer.prefix]),
    ]),
  };
}

/** The name of a Cluster has no dot, so the first dot of the prefix ends it. */
function peerOf({ peer }: Cluster['spec']): PeerCluster | undefined {
  return peer && { ...peer, prefix: `${peer.cluster}.${peer.trustDomain}:` };
}

export function modeOf({ validation, apiServer }: Cluster['spec']): ReviewMode {
  return validation?.mode ?? (apiServer === undefined ? 'jwks' : 'hybrid');
}

/** Whether a positive answer of the API server is ever used for more than one review. */
export function reusesAnswers(spec: Cluster['spec']): boolean {
  const mode = modeOf(spec);
  if (mode !== 'tokenreview') return mode === 'hybrid';
  return spec.validation?.onUnreachable === 'allowUntilLag';
}

/**
 * The issuer first, where it can be a public server. An API server of another network may have the same
 * internal name as one in the site's own network, so internal names are never asked.
 */
function keySourcesOf(spec: Cluster['spec'], client: KubeClient | undefined): readonly KeySource[] {
  const url = discoveryURL(spec.issuer);
  const apiServer: readonly KeySource[] =
    client === undefined ? [] : [{ from: 'apiServer', client }];
  if (url === undefined) return apiServer;
  if (client !== undefined && (isInternalName(url.hostname) || isAt(spec.apiServer, url))) {
    return apiServer;
  }
  // With an API server, the CA is that of the API server, and says nothing about the issuer.
  const caBundle = client === undefined ? spec.caBundle : undefined;
  return [{ from: 'issuer', url, caBundle }, ...apiServer];
}

/** OpenID Connect Discovery 1.0 §4; undefined for an issuer that has no such document. */
export function discoveryURL(issuer: string): URL | undefined {
  if (!URL.canParse(issuer)) return undefined;
  const { protocol, username, password, search, hash } = new URL(issuer);
  if (protocol !== 'https:' || [username, password, search, hash].some((part) => part !== '')) {
    return undefined;
  }
  return new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
}

/** Names that mean another machine in each network: those of Kubernetes Services, and those without a dot. */
function isInternalName(hostname: string): boolean {
  const name = hostname.replace(/\.$/, '');
  if (name.startsWith('[')) return false;
  return !name.includes('.') || /\.(?:svc|local|localhost|internal)$/.test(name);
}

function isAt(apiServer: string | undefined, { host }: URL): boolean {
  return apiServer !== undefined && URL.canParse(apiServer) && new URL(apiServer).host === host;
}
