// The names under which clients that know no SPIFFE find the site's listeners.

import { isIP } from 'node:net';
import type { ServerConfig } from '../config/config.ts';

export interface ServerNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** Loopback, the trust domain itself, where it listens, and what it advertises. */
export function serverNames(
  config: Pick<ServerConfig, 'api' | 'federation' | 'advertise'>,
  trustDomain: string,
): ServerNames {
  const hosts = ['localhost', '127.0.0.1', '::1', config.api.host];
  // A trust domain may hold `_`, a DNS name in a certificate may not.
  if (/^[a-z0-9.-]+$/.test(trustDomain)) hosts.push(trustDomain);
  if (config.federation !== 'off') hosts.push(config.federation.host);
  if (config.advertise !== undefined)
    hosts.push(new URL(config.advertise).hostname.replace(/^\[|\]$/g, ''));
  const distinct = [
    ...new Set(hosts.filter((host) => host !== '0.0.0.0' && host !== '::' && host !== '')),
  ];
  return {
    dnsNames: distinct.filter((host) => isIP(host) === 0),
    ipAddresses: distinct.filter((host) => isIP(host) !== 0),
  };
}
