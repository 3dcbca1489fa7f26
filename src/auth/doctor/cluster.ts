// `hansa doctor --cluster`: asks the daemon to examine a cluster and shows its findings.

import { isLabel } from '../../api/metadata/names.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { DoctorSubject, Finding, SubjectCheck } from '../../core/plane/doctor.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { clusterNamed } from '../client/clusters.ts';
import { authPaths } from '../paths.ts';

const clusterSubject: DoctorSubject = {
  flag: 'cluster',
  placeholder: 'name',
  description: 'check the connection to this cluster instead',
  help: `With --cluster, the running site calls the API server of that cluster with its own credential, and
reports each step: name, address, certificate, clock, credential, rights, issuer, keys and one review.
It changes nothing. With --site, this needs the right to update that Cluster.`,
  example: '--cluster app1',
  listedBy: 'cluster list',
  parse: (text) => {
    if (isLabel(text)) return text;
    throw new HansaError(
      'HANSA_USAGE',
      `${JSON.stringify(text)} is not the name of a cluster. To list them: hansa cluster list`,
    );
  },
};

export const clusterCheck: SubjectCheck = {
  subject: clusterSubject,
  name: 'cluster',
  what: 'cluster',
  listedBy: 'hansa cluster list',
  run: async ({ client }, name) =>
    (await clusterNamed(client, name)) === undefined ? undefined : examine(client, name),
};

/** Throws HANSA_UNKNOWN_CLUSTER. */
export async function examine(client: SiteClient, name: string): Promise<readonly Finding[]> {
  const path = pathTo(authPaths.examine, { name });
  const { body } = await client.request({ method: 'POST', path });
  return (body as { readonly findings: readonly Finding[] }).findings;
}

/** As `examine`, with an error as a finding, for checks of several clusters. */
export async function examineOrSay(client: SiteClient, name: string): Promise<readonly Finding[]> {
  try {
    return await examine(client, name);
  } catch (error) {
    // Without an answer of the site, the other clusters have none either.
    if (!(error instanceof HansaError) || error.code === 'HANSA_UNREACHABLE') throw error;
    return [{ check: 'site', level: 'problem', text: error.message }];
  }
}
