// Checks whether the ports of a stopped site are free. If the configuration does not set an address, the
// check uses the address of the last run, which may come from a variable or a --config file that
// `hansa doctor` does not know.

import type { Setting } from '../../server/config/config.ts';
import {
  formatListenAddress,
  type ListenAddress,
  parseListenAddress,
} from '../../core/config/config-values.ts';
import { type Finding, ok, problem, warning } from '../../core/plane/doctor.ts';
import {
  type ListenAddresses,
  type ListenerName,
  listenerNames,
  whyNotFree,
} from '../../server/listeners/free-ports.ts';
import { readEndpoints, type SiteEndpoints } from '../site/site-endpoints.ts';

export interface PortPatient {
  readonly config: ListenAddresses & { readonly dataDir: string };
  readonly settings: readonly Setting[];
}

export async function checkPorts({ config, settings }: PortPatient): Promise<Finding[]> {
  const last = lastEndpoints(config.dataDir);
  const findings: Finding[] = [];
  for (const listener of listenerNames) {
    const isDefault = settings.some(
      ({ key, source }) => key === listener && source.from === 'default',
    );
    const address = isDefault && last !== undefined ? addressIn(last[listener]) : config[listener];
    if (address !== 'off') findings.push(await checkPort(listener, address));
  }
  return findings;
}

/** Undefined before the first start. */
function lastEndpoints(dataDir: string): SiteEndpoints | undefined {
  try {
    return readEndpoints(dataDir);
  } catch {
    return undefined;
  }
}

function addressIn(url: string | undefined): ListenAddress | 'off' {
  return url === undefined ? 'off' : parseListenAddress(new URL(url).host);
}

async function checkPort(listener: ListenerName, address: ListenAddress): Promise<Finding> {
  const shown = formatListenAddress(address);
  if (address.port === 0) return ok(listener, `${shown}: the operating system chooses a free port`);
  const reason = await whyNotFree(address);
  switch (reason?.code) {
    case undefined:
      return ok(listener, `${shown} is free`);
    case 'EACCES':
      return warning(
        listener,
        `cannot check whether ${shown} is free: you have no permission to listen on this port`,
        'Run doctor as the user that runs the site. Ports below 1024 need CAP_NET_BIND_SERVICE.',
      );
    case 'EADDRINUSE':
      return problem(
        listener,
        `cannot listen on ${shown}: another program listens there`,
        `Stop that program, or choose another address with --${listener}.`,
      );
    case 'EADDRNOTAVAIL':
      return problem(
        listener,
        `cannot listen on ${shown}: this machine does not have the address`,
        `Choose an address of this machine with --${listener}, or 0.0.0.0 for all of them.`,
      );
    default:
      return problem(
        listener,
        `cannot listen on ${shown}: ${reason?.message}`,
        `Choose another address with --${listener}.`,
      );
  }
}
