// The steps of an examination that concern the connection to the API server: name, address, certificate and
// clock.

import { isIP } from 'node:net';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { humanDuration } from '../../api/values/duration.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { KubeResponse } from '../../core/kube/kube-client.ts';
import { unreachableReason } from '../../core/kube/kube-errors.ts';
import { type Finding, ok, problem, warning } from '../../core/plane/doctor.ts';
import { manifestOf } from './ask.ts';
import { credentialRemedy } from './examine-access.ts';

export type LookUp = (name: string, clock: Clock) => Promise<readonly string[]>;

/** A name may resolve to many addresses. */
const maxAddresses = 8;
/** The header Date has whole seconds, and the request takes time. */
const smallSkewMs = 5_000;
/** Kubernetes allows tokens a leeway of one minute. */
const largeSkewMs = 60_000;

function hostOf({ spec }: Cluster): { readonly host: string; readonly where: string } {
  const { hostname, port } = new URL(spec.apiServer as string);
  return { host: hostname.replaceAll(/[[\]]/g, ''), where: `${hostname}:${port || 443}` };
}

/** Undefined behind a proxy, which resolves the name. */
export async function examineName(
  object: Cluster,
  lookUp: LookUp,
  clock: Clock,
): Promise<Finding | undefined> {
  if (object.spec.proxyURL !== undefined) return undefined;
  const { host } = hostOf(object);
  if (isIP(host) !== 0) return ok('DNS', `${host} is an address`);
  try {
    const addresses = await lookUp(host, clock);
    return ok('DNS', `${host} → ${addresses.slice(0, maxAddresses).join(', ')}`);
  } catch {
    return unresolved(object, host);
  }
}

const unresolved = (object: Cluster, host: string): Finding =>
  problem(
    'DNS',
    `${host} cannot be resolved`,
    `The machine of this site cannot resolve the name of the API server. Check spec.apiServer (${manifestOf(object)}), /etc/hosts and the resolver.`,
  );

/** What an error of the first request says about the connection. */
export function connectionFindings(object: Cluster, error: unknown): readonly Finding[] {
  if (!(error instanceof HansaError)) throw error;
  const { message } = error;
  const { host, where } = hostOf(object);
  const connected = ok('TCP', `${where} accepts connections`);
  if (hasCode(error, 'HANSA_CERTIFICATE_INVALID')) {
    return [
      connected,
      problem(
        'TLS',
        message,
        `The certificate of the API server must be signed by caFile or caBundle of the Cluster, and name ${object.spec.tlsServerName ?? host}. Compare with the kubeconfig of the cluster (certificate-authority-data, tls-server-name). If the name differs, set spec.tlsServerName.`,
      ),
    ];
  }
  if (hasCode(error, 'HANSA_UNAVAILABLE')) {
    return [problem('credential', message, credentialRemedy(object))];
  }
  switch (unreachableReason(error)) {
    case 'dns':
      return [unresolved(object, host)];
    case 'tls':
      return [
        connected,
        problem(
          'TLS',
          message,
          'The TLS handshake did not complete: another program may listen on that port, or a proxy may end TLS.',
        ),
      ];
    case 'proxy':
      return [
        problem(
          'proxy',
          message,
          `Check spec.proxyURL (${manifestOf(object)}) and whether the proxy lets this site connect to ${where}.`,
        ),
      ];
    case 'protocol':
      return [
        connected,
        problem(
          'HTTP',
          message,
          `Check the path and port in spec.apiServer (${manifestOf(object)}): another server answers there.`,
        ),
      ];
    default:
      return [
        problem(
          'TCP',
          message,
          'Check whether the API server is running, and whether a firewall lets the machine of this site reach it. Reviews in the modes tokenreview and hybrid answer 503 until then.',
        ),
      ];
  }
}

/** After the first answer. */
export function reachedFindings({ spec }: Cluster, ms: number): readonly Finding[] {
  const { hostname, port } = new URL(spec.apiServer as string);
  const through = spec.proxyURL === undefined ? '' : ' through the proxy';
  const name = spec.tlsServerName ?? hostname.replaceAll(/[[\]]/g, '');
  const authority =
    spec.caFile === undefined && spec.caBundle === undefined && spec.credential?.inCluster !== true
      ? 'a public authority'
      : 'the CA of the Cluster';
  return [
    ok('TCP', `${hostname}:${port || 443} answers${through} in ${Math.max(1, Math.round(ms))} ms`),
    ok('TLS', `a certificate for ${name}, signed by ${authority}`),
  ];
}

/** Nothing where the server sends no Date. */
export function clockFinding({ headers }: KubeResponse, nowMs: number): readonly Finding[] {
  const theirsMs = Date.parse(headers['date'] ?? '');
  if (Number.isNaN(theirsMs)) return [];
  const skewMs = theirsMs + 500 - nowMs;
  const distance = humanDuration(Math.abs(skewMs));
  if (Math.abs(skewMs) <= smallSkewMs) return [ok('clock', 'agrees with the API server')];
  const text = `the API server is ${distance} ${skewMs > 0 ? 'ahead of' : 'behind'} this site`;
  const remedy =
    'Synchronise the clocks of both machines (NTP). Otherwise one of them rejects tokens that the other accepts.';
  return [(Math.abs(skewMs) > largeSkewMs ? problem : warning)('clock', text, remedy)];
}
