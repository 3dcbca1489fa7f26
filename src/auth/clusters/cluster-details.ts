// The details of one cluster for `hansa cluster show`. Pure.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { humanDuration } from '../../api/values/duration.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { authPaths } from '../paths.ts';
import { baseDomains, hostOfCluster } from '../routes/cluster-hosts.ts';
import { reusesAnswers } from './compile-cluster.ts';

/** The names by which clients reach the TokenReview endpoint of a cluster. */
export interface ClusterHosts {
  /** The long form first. */
  readonly names: readonly string[];
  /** Of the local cluster, in addition. */
  readonly localNames: readonly string[];
  /** For clients that can set a path but no host name. */
  readonly path: string;
}

type Row = readonly [label: string, value: string];

export function clusterHosts({ metadata, spec }: Cluster, baseDomain: string): ClusterHosts {
  const bases = baseDomains(baseDomain);
  const { name } = metadata;
  return {
    names: bases.map((base) => hostOfCluster(base, name)),
    localNames: spec.local ? bases.map((base) => hostOfCluster(base, undefined)) : [],
    path: pathTo(authPaths.review, { name }),
  };
}

export function clusterDetails(
  { metadata, spec, status = {} }: Cluster,
  hosts: ClusterHosts,
  nowMs: number,
): readonly Row[] {
  const { validation, callers, peer } = spec;
  const { mode } = status;
  return [
    ['cluster', `${metadata.name}${spec.local ? ' (local)' : ''}`],
    ...optional('mode', mode),
    ...(reusesAnswers(spec)
      ? [['revocation lag', `${validation?.maxRevocationLagSeconds ?? 10} s`] as const]
      : []),
    ...(mode === 'hybrid' || mode === 'tokenreview'
      ? [['if unreachable', validation?.onUnreachable ?? 'unavailable'] as const]
      : []),
    ...hosts.names.map((host) => ['host', host] as const),
    ...hosts.localNames.map((host) => ['local host', host] as const),
    ['path', hosts.path],
    ['issuer', spec.issuer],
    ...(peer === undefined
      ? [['audiences', (spec.apiAudiences ?? [spec.issuer]).join(', ')] as const]
      : [
          ['peer', `cluster ${peer.cluster} of ${peer.trustDomain}`] as const,
          ['prefix', `${peer.cluster}.${peer.trustDomain}:`] as const,
          ['audiences', 'each review must name them'] as const,
        ]),
    ...optional('API server', spec.apiServer),
    ['keys', keysText(status, nowMs)],
    ['credential', credentialText(spec, status, nowMs)],
    ...(callers?.acceptAPIServerAudience === true
      ? [['callers', 'its ServiceAccounts, also with tokens for its API server'] as const]
      : []),
    ...(callers?.webhookAuthenticators ?? []).map(
      ({ caller, prefix }) => ['webhook', `${caller} gets the prefix ${prefix}`] as const,
    ),
    ...(status.conditions ?? []).map(
      ({ type, status: state, message, lastTransitionTime }): Row => [
        type,
        `${state}, for ${humanDuration(nowMs - Date.parse(lastTransitionTime))}: ${message}`,
      ],
    ),
  ];
}

function optional(label: string, value: string | undefined): readonly Row[] {
  return value === undefined || value === '' ? [] : [[label, value]];
}

function keysText({ keys, keysFetchedAt }: NonNullable<Cluster['status']>, nowMs: number): string {
  if (keysFetchedAt === undefined) return 'none yet';
  return `${keys ?? 0}, fetched ${humanDuration(nowMs - Date.parse(keysFetchedAt))} ago`;
}

function credentialText(
  { apiServer, credential }: Cluster['spec'],
  { credentialExpiresAt }: NonNullable<Cluster['status']>,
  nowMs: number,
): string {
  const { tokenFile, clientCertificate, inCluster, jwtSVID } = credential ?? {};
  const source =
    tokenFile !== undefined
      ? `the token in ${tokenFile}`
      : clientCertificate !== undefined
        ? `the client certificate in ${clientCertificate.certFile}`
        : inCluster === true
          ? 'the ServiceAccount of the site'
          : jwtSVID !== undefined
            ? `a JWT-SVID of the site for ${jwtSVID.audience}`
            : apiServer === undefined
              ? 'not needed'
              : 'stored at the site';
  if (credentialExpiresAt === undefined) return source;
  const leftMs = Date.parse(credentialExpiresAt) - nowMs;
  const when = `${leftMs < 0 ? 'expired' : 'expires'} ${credentialExpiresAt}`;
  const distance = humanDuration(Math.abs(leftMs));
  return `${source}, ${when} (${leftMs < 0 ? `${distance} ago` : `in ${distance}`})`;
}
