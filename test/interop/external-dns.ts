// A real ExternalDNS that writes the names of a cluster's Services into a name server.

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NameServer } from './bind.ts';
import { assertRunning, endProgram, startProgram } from './program.ts';

export interface ExternalDnsOptions {
  /** The owner in its TXT records: ExternalDNS changes only names of this owner. */
  readonly owner?: string;
  readonly annotationPrefix?: string;
  /** Added to the command line. */
  readonly flags?: readonly string[];
}

export interface ExternalDns {
  /** Throws if it has ended. */
  check(): void;
  log(): Promise<string>;
  stop(): Promise<void>;
}

/** It compares once a second; ExternalDNS itself does so once a minute, unless told otherwise. */
export async function startExternalDns(
  kubeconfig: string,
  server: NameServer,
  { owner = 'hansa-test', annotationPrefix, flags = [] }: ExternalDnsOptions = {},
): Promise<ExternalDns> {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-external-dns-'));
  const program = await startProgram(folder, 'external-dns', [
    `--kubeconfig=${kubeconfig}`,
    '--source=service',
    '--provider=rfc2136',
    '--rfc2136-host=127.0.0.1',
    `--rfc2136-port=${server.port}`,
    `--rfc2136-zone=${server.zone}`,
    `--rfc2136-tsig-keyname=${server.key.name}`,
    `--rfc2136-tsig-secret=${server.key.secret}`,
    `--rfc2136-tsig-secret-alg=${server.key.algorithm}`,
    '--rfc2136-tsig-axfr',
    `--domain-filter=${server.zone}`,
    '--registry=txt',
    `--txt-owner-id=${owner}`,
    '--txt-prefix=owner-%{record_type}-',
    '--interval=1s',
    ...(annotationPrefix === undefined ? [] : [`--annotation-prefix=${annotationPrefix}`]),
    ...flags,
  ]);
  return {
    check: () => assertRunning([program]),
    log: () => readFile(join(folder, 'external-dns.log'), 'utf8'),
    stop: async () => {
      await endProgram(program);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
