// Finds the cluster that a request is about: from the path, the Host header or the TLS server name. A host
// that names no cluster is refused. It never means the local cluster. Pure.

import { isIP } from 'node:net';
import { HansaError } from '../../core/errors/error.ts';
import { authError } from '../errors.ts';
import { baseDomains, type HostMeaning, hostOfCluster, meaningOf } from './cluster-hosts.ts';

export interface AskedHost {
  /** The Host header or `:authority` as it came; undefined where there is none, or several that differ. */
  readonly host: string | undefined;
  /** The server name of the TLS connection (SNI). */
  readonly serverName: string | undefined;
  /** The cluster in the path `/clusters/{cluster}/…`. */
  readonly pathCluster?: string | undefined;
}

export interface RequestHosts {
  readonly baseDomain: string;
  /** The name of the cluster that is marked as local. */
  readonly localCluster: () => string | undefined;
  /** Other DNS names of the site. With them and with IP addresses, the server name decides. */
  readonly siteNames: () => readonly string[];
}

/** Longer than any host with its port (RFC 1035 §2.3.4). */
const maxHostLength = 262;
const hostPattern = /^[a-z0-9](?:[-_a-z0-9.]*[a-z0-9])?$/;

/** A site has fewer host names. Others come from strangers. */
const maxReadHosts = 1_000;

interface ReadHost {
  /** In lower case, without port and trailing dot. */
  readonly text: string;
  readonly meaning: HostMeaning;
}

export class ClusterOfRequest {
  readonly #hosts: RequestHosts;
  readonly #bases: readonly string[];
  /** What the hosts of recent requests mean, since each request asks several times. */
  readonly #read = new Map<string, ReadHost>();

  constructor(hosts: RequestHosts) {
    this.#hosts = hosts;
    this.#bases = baseDomains(hosts.baseDomain);
  }

  /**
   * The name of the cluster; it need not be registered. Throws HANSA_UNKNOWN_CLUSTER where the host names
   * none, and HANSA_BAD_REQUEST where host, server name and path name different clusters.
   */
  nameOf({ host, serverName, pathCluster }: AskedHost): string {
    const { text, meaning } = this.#readHost(host);
    const byHost = this.#named(meaning, host);
    const bySni = serverName === undefined ? undefined : this.#clusterAt(serverName);
    if (pathCluster !== undefined) {
      agree(pathCluster, byHost, 'path', host);
      agree(pathCluster, bySni, 'path', serverName);
      return pathCluster;
    }
    if (byHost !== undefined) {
      agree(byHost, bySni, 'host', serverName);
      return byHost;
    }
    // As with `tls-server-name` of a kubeconfig whose server is an address of the site.
    if (bySni !== undefined && this.#isSite(text)) return bySni;
    throw this.#unknown(`the host ${shown(host)} names no cluster`);
  }

  #readHost(host: string | undefined): ReadHost {
    if (host === undefined) throw this.#unknown('the request has no Host header, or several');
    const known = this.#read.get(host);
    if (known !== undefined) return known;
    const text = hostWithoutPort(host);
    if (text === undefined) throw this.#unknown(`the host ${shown(host)} is malformed`);
    const read = { text, meaning: meaningOf(this.#bases, text) };
    if (this.#read.size >= maxReadHosts) this.#read.clear();
    this.#read.set(host, read);
    return read;
  }

  #named(meaning: HostMeaning, host: string | undefined): string | undefined {
    if (typeof meaning === 'object') return meaning.cluster;
    if (meaning === 'elsewhere') return undefined;
    if (meaning === 'malformed')
      throw this.#unknown(`the host ${shown(host)} is not the name of an endpoint`);
    const local = this.#hosts.localCluster();
    if (local !== undefined) return local;
    throw this.#unknown(
      `the host ${shown(host)} means the local cluster, but no Cluster has local: true`,
    );
  }

  /** Server names of no cluster get the certificate of the site, and mean nothing here. */
  #clusterAt(serverName: string): string | undefined {
    const meaning = meaningOf(this.#bases, withoutDot(serverName.toLowerCase()));
    if (typeof meaning === 'object') return meaning.cluster;
    return meaning === 'local' ? this.#hosts.localCluster() : undefined;
  }

  #isSite(text: string): boolean {
    return isIP(text) !== 0 || text === 'localhost' || this.#hosts.siteNames().includes(text);
  }

  #unknown(why: string): HansaError {
    return authError(
      'HANSA_UNKNOWN_CLUSTER',
      `Cannot review the token: ${why}. Call ${hostOfCluster(this.#hosts.baseDomain, 'CLUSTER')}, or a path that begins with /clusters/CLUSTER.`,
    );
  }
}

/** Throws HANSA_BAD_REQUEST where both name a cluster, and not the same. */
function agree(
  wanted: string,
  other: string | undefined,
  where: 'path' | 'host',
  otherText: string | undefined,
): void {
  if (other === undefined || other === wanted) return;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot review the token: the ${where} names the cluster ${shown(wanted)}, but ${shown(otherText)} names another. Use one cluster in the host, the TLS server name and the path.`,
  );
}

/** In lower case, without port and trailing dot; undefined where it is malformed (RFC 9110 §7.2). */
export function hostWithoutPort(host: string): string | undefined {
  if (host.length > maxHostLength) return undefined;
  const text = host.toLowerCase();
  if (text.startsWith('[')) {
    const match = /^\[([0-9a-f:.]+)\](?::[0-9]{1,5})?$/.exec(text);
    return match?.[1] !== undefined && isIP(match[1]) === 6 ? match[1] : undefined;
  }
  const colon = text.indexOf(':');
  if (colon >= 0 && !isPort(text, colon + 1)) return undefined;
  const name = withoutDot(colon < 0 ? text : text.slice(0, colon));
  return hostPattern.test(name) && !name.includes('..') ? name : undefined;
}

function isPort(text: string, from: number): boolean {
  if (text.length === from || text.length > from + 5) return false;
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 48 || code > 57) return false;
  }
  return true;
}

function withoutDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name;
}

/** The text of a stranger, bounded. */
function shown(text: string | undefined): string {
  return JSON.stringify((text ?? '').slice(0, 100));
}
