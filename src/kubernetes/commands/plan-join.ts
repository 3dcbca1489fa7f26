// Decides as what a cluster joins: under which ID, in which cluster set, and as a member or as the home of the
// site. Refuses contradictions with what the site and the clusters already say. Pure.

import { claimKeys } from '../../api/kinds/cluster-claim.ts';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { isLabel } from '../../api/metadata/names.ts';
import { printable } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { MemberEntry } from '../manifests/membership-manifests.ts';
import { clusterIDLabel } from '../names.ts';

/** Where the first supervisor joins without a name of the set. */
export const defaultClusterSet = 'default';

export interface JoinQuestion {
  /** Of the Cluster at the site. */
  readonly name: string;
  /** As `spec.apiServer` of a Cluster. */
  readonly server: string;
  readonly id: string | undefined;
  readonly supervisor: boolean;
  /** All of the site. */
  readonly clusters: readonly Cluster[];
  /** Of the cluster that joins, by key. */
  readonly claims: ReadonlyMap<string, string>;
}

export interface JoinPlan {
  readonly id: string;
  /** The Cluster that the site has under this name. */
  readonly known: Cluster | undefined;
  /** The Cluster in which the site reads Federation. Undefined: the one that joins becomes it, or is it. */
  readonly home: Cluster | undefined;
}

export function planJoin(question: JoinQuestion): JoinPlan {
  const { name, server, supervisor, clusters } = question;
  const known = clusters.find(({ metadata }) => metadata.name === name);
  refuseOtherServer(question, known);
  const id = idFor(question, known);
  const others = clusters.filter((cluster) => cluster !== known);
  const twin = others.find((cluster) => serverOfCluster(cluster) === server);
  if (twin !== undefined) {
    throw conflict(
      `Cannot join ${name}: the site has the cluster ${server} under the name ${twin.metadata.name}. Use that name: hansa cluster join ${twin.metadata.name}`,
    );
  }
  const same = others.find((cluster) => idOf(cluster) === id);
  if (same !== undefined) {
    throw conflict(
      `Cannot join ${name}: the ID ${id} belongs to the cluster ${same.metadata.name} (${serverOfCluster(same) ?? 'without an API server'}), and two clusters of a set cannot have one ID. Choose another one with --id.`,
    );
  }
  const local = clusters.find(({ spec }) => spec.local);
  if (local === known && local !== undefined) return { id, known, home: undefined };
  if (supervisor) {
    if (local === undefined) return { id, known, home: undefined };
    throw conflict(
      `Cannot join ${name} as a supervisor: this site already leads from ${local.metadata.name}. Each supervisor cluster has its own site. Join it here without --supervisor, and with --supervisor at its own site.`,
    );
  }
  if (local !== undefined) return { id, known, home: local };
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot join ${name}: this site has no supervisor cluster yet, which lists the members. Add --supervisor if ${name} is to be it. Otherwise join that one first: hansa cluster join NAME --kubeconfig FILE --supervisor`,
  );
}

function idFor({ name, id, claims }: JoinQuestion, known: Cluster | undefined): string {
  const claimed = claims.get(claimKeys.id);
  if (claimed !== undefined && id !== undefined && claimed !== id) {
    throw conflict(
      `Cannot join ${name} with the ID ${id}: the cluster has the ID ${claimed} (ClusterClaim ${claimKeys.id}). Leave --id out to keep it. To change it, first run: hansa cluster leave ${name}`,
    );
  }
  const chosen = claimed ?? id ?? (known && idOf(known)) ?? name;
  if (isLabel(chosen)) return chosen;
  throw usageError(
    printable(
      `${JSON.stringify(chosen)} cannot be the ID of a cluster. Use a DNS label, such as app1.`,
    ),
  );
}

/** A name must not silently change its cluster. */
function refuseOtherServer({ name, server }: JoinQuestion, known: Cluster | undefined): void {
  const registered = known && serverOfCluster(known);
  if (registered === undefined || registered === server) return;
  throw conflict(
    `Cannot join ${name}: the site has a cluster of this name at ${registered}, and the kubeconfig is for ${server}. Choose another name, or another kubeconfig.`,
  );
}

export function idOf({ metadata }: Cluster): string {
  return metadata.labels?.[clusterIDLabel] ?? metadata.name;
}

export const serverOfCluster = ({ spec }: Cluster): string | undefined =>
  spec.apiServer?.replace(/\/+$/, '');

export interface SetQuestion {
  readonly name: string;
  readonly given: string | undefined;
  /** Of the cluster that joins. */
  readonly claims: ReadonlyMap<string, string>;
  readonly ownFederation: string | undefined;
  /** Of the home cluster; undefined where the one that joins is the home. */
  readonly home: { readonly name: string; readonly clusterSet: string } | undefined;
}

export function chooseClusterSet({
  name,
  given,
  claims,
  ownFederation,
  home,
}: SetQuestion): string {
  const chosen = given ?? home?.clusterSet ?? ownFederation ?? claims.get(claimKeys.clusterSet);
  const clusterSet = chosen ?? defaultClusterSet;
  if (!isLabel(clusterSet)) {
    throw usageError(
      printable(
        `${JSON.stringify(clusterSet)} cannot be the name of a cluster set. Use a DNS label.`,
      ),
    );
  }
  if (home !== undefined && home.clusterSet !== clusterSet) {
    throw conflict(
      `Cannot join ${name} to the cluster set ${clusterSet}: this site leads ${home.clusterSet} (Federation in ${home.name}). Leave --cluster-set out, or use the site of the other set.`,
    );
  }
  for (const [source, own] of [
    [`ClusterClaim ${claimKeys.clusterSet}`, claims.get(claimKeys.clusterSet)],
    ['Federation', ownFederation],
  ] as const) {
    if (own === undefined || own === clusterSet) continue;
    throw conflict(
      `Cannot join ${name} to the cluster set ${clusterSet}: the cluster belongs to ${own} (${source}), and a cluster is in one set only. First run at a site of ${own}: hansa cluster leave ${name}`,
    );
  }
  return clusterSet;
}

/** Throws where the sites that lead the cluster have another system namespace. */
export function refuseOtherNamespace(
  name: string,
  namespace: string,
  claims: ReadonlyMap<string, string>,
): void {
  const claimed = claims.get(claimKeys.namespace);
  if (claimed === undefined || claimed === namespace) return;
  throw conflict(
    `Cannot use the system namespace ${namespace} in ${name}: the sites that lead the cluster have ${claimed} (ClusterClaim ${claimKeys.namespace}), and it is the same for all sites of a cluster set. Start this site with --kubernetes-namespace ${claimed}, and leave --namespace out.`,
  );
}

/** Throws where Federation gives the ID to another API server. */
export function refuseOtherMember(
  name: string,
  server: string,
  entry: MemberEntry | undefined,
): void {
  const listed = entry?.server?.replace(/\/+$/, '');
  if (entry === undefined || listed === undefined || listed === server) return;
  throw conflict(
    `Cannot join ${name}: Federation has the ID ${entry.clusterID} for the API server ${listed}, and the kubeconfig is for ${server}. Choose another ID with --id, or remove that member from Federation.`,
  );
}

/** Texts of clusters may contain anything. */
function conflict(message: string): HansaError {
  return new HansaError('HANSA_CONFLICT', printable(message));
}
