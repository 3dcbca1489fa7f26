// Where a site listens, as its daemon wrote it into the data folder.

import { readFileSync } from 'node:fs';
import { HansaError } from '../../core/errors/error.ts';
import { dataFolderAt } from '../../server/data-folder.ts';

export interface SiteEndpoints {
  readonly trustDomain: string;
  /** Of the daemon that wrote it; it may be gone. */
  readonly pid: number;
  readonly api: string;
  readonly federation?: string;
  readonly web?: string;
  readonly metrics?: string;
  readonly advertise?: string;
}

export function readEndpoints(dataDir: string): SiteEndpoints {
  const { endpointsFile } = dataFolderAt(dataDir);
  try {
    const value = JSON.parse(readFileSync(endpointsFile, 'utf8')) as Partial<SiteEndpoints>;
    if (typeof value.api !== 'string' || typeof value.trustDomain !== 'string') {
      throw new TypeError('it does not say where the api listens');
    }
    return value as SiteEndpoints;
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new HansaError(
      'HANSA_UNREACHABLE',
      missing
        ? `No site was started in ${dataDir} yet. Start it with hansa server, or name its folder with --data-dir.`
        : `Cannot read ${endpointsFile}: ${(error as Error).message}.`,
      { cause: error },
    );
  }
}

/** The URL at which this machine reaches a listener: a wildcard address is not one to connect to. */
export function localUrl(url: string): string {
  return url.replace(/^(https?:\/\/)(?:0\.0\.0\.0|\[::\])(?=[:/]|$)/, (_all, scheme: string) =>
    url.includes('[') ? `${scheme}[::1]` : `${scheme}127.0.0.1`,
  );
}

/** The listeners among them by name, as this machine reaches them. */
export function listenersOf(endpoints: SiteEndpoints): ReadonlyMap<string, string> {
  const { api, federation, web, metrics } = endpoints;
  const urls = Object.entries({ api, federation, web, metrics });
  return new Map(urls.flatMap(([name, url]) => (url === undefined ? [] : [[name, localUrl(url)]])));
}
