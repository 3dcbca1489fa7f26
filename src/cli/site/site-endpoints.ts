// Reads endpoints.json, in which the daemon writes the addresses of its listeners.

import { HansaError } from '../../core/errors/error.ts';
import { readDataFile } from '../../core/plane/data-files.ts';
import { dataFolderAt } from '../../server/data-folder.ts';

export interface SiteEndpoints {
  readonly trustDomain: string;
  /** The process ID of the daemon that wrote the file. It may no longer run. */
  readonly pid: number;
  readonly api: string;
  readonly federation?: string;
  readonly web?: string;
  readonly metrics?: string;
  readonly advertise?: string;
}

/** It has a few lines. */
const maxFileBytes = 64 * 1024;

export function readEndpoints(dataDir: string): SiteEndpoints {
  const { endpointsFile } = dataFolderAt(dataDir);
  const text = readDataFile(endpointsFile, maxFileBytes)?.toString('utf8');
  if (text === undefined) {
    throw new HansaError(
      'HANSA_UNREACHABLE',
      `There is no site in ${dataDir} yet. Start one with hansa server, or name another folder with --data-dir.`,
    );
  }
  try {
    const value = JSON.parse(text) as Partial<SiteEndpoints>;
    if (typeof value.api !== 'string' || typeof value.trustDomain !== 'string') {
      throw new TypeError('the address of the api listener is missing');
    }
    return value as SiteEndpoints;
  } catch (error) {
    throw new HansaError(
      'HANSA_UNREACHABLE',
      `Cannot read ${endpointsFile}: ${(error as Error).message}.`,
      { cause: error },
    );
  }
}

/** Replaces a wildcard address by a loopback address, to which this machine can connect. */
export function localUrl(url: string): string {
  return url.replace(/^(https?:\/\/)(?:0\.0\.0\.0|\[::\])(?=[:/]|$)/, (_all, scheme: string) =>
    url.includes('[') ? `${scheme}[::1]` : `${scheme}127.0.0.1`,
  );
}

/** The URLs of the listeners by name, for connections from this machine. */
export function listenersOf(endpoints: SiteEndpoints): ReadonlyMap<string, string> {
  const { api, federation, web, metrics } = endpoints;
  const urls = Object.entries({ api, federation, web, metrics });
  return new Map(urls.flatMap(([name, url]) => (url === undefined ? [] : [[name, localUrl(url)]])));
}
