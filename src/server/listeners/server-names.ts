// DNS names and IP addresses in the site's certificate, for clients that do not speak SPIFFE.

import { isIP } from 'node:net';
import type { ServerConfig } from '../config/config.ts';

export interface ServerNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** Loopback, the trust domain, the listen addresses and the advertised host. */
export function serverNames(
  config: Pick<ServerConfig, 'api' | 'federation' | 'advertise'>,
  trustDomain: string,
): ServerNames {
  const hosts = ['localhost', '127.0.0.1', '::1', config.api.host];
  // A trust domain may contain `_`, but a DNS name in a certificate may not.
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
