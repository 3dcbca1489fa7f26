// The work of `hansa cluster manifests`: computes what `hansa cluster join` creates in a cluster. With a kubeconfig
// it reads the cluster first, so that the manifests keep what other sites need there.

import type { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { claimKeys } from '../../api/kinds/cluster-claim.ts';
import { isLabel } from '../../api/metadata/names.ts';
import { printable } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import { manifestText } from '../../core/kube/manifests/describe-manifests.ts';
import { defaultAccountName, type Manifest, siteUser } from '../../core/kube/manifests/manifest.ts';
import { serverOf } from '../../core/kube/registration/cluster-object.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { type FederationObject, membersOf, readFacts } from '../client/cluster-facts.ts';
import { leagueInfo, policyKindsOf } from '../client/league-info.ts';
import { prepareInstallation } from '../client/prepare-installation.ts';
import { trustDomainOf } from '../client/trust-domain.ts';
import { type LeagueOptions, leagueManifests } from '../manifests/league-manifests.ts';
import {
  claimManifests,
  federationManifest,
  memberEntry,
  type MemberEntry,
} from '../manifests/membership-manifests.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import { type Connection, withConnections } from './connections.ts';
import { defaultClusterSet, refuseOtherNamespace, serverOfCluster } from './plan-join.ts';

export interface ManifestsOptions {
  readonly supervisor?: boolean;
  readonly clusterSet?: string;
  readonly member?: readonly string[];
  readonly secret?: readonly string[];
  readonly endpointPrefix?: readonly string[];
  readonly routable?: boolean;
  readonly dns?: boolean;
  readonly namespace?: string;
  readonly account?: string;
  readonly user?: string | true;
  readonly principal?: readonly string[];
  readonly policies: boolean;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly output: OutputFormat;
}

export interface ManifestsRequest {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly id: string;
  readonly options: ManifestsOptions;
}

interface Site {
  readonly client: SiteClient;
  readonly trustDomain: string;
  /** The system namespace. */
  readonly namespace: string;
  readonly clusterSet: string | undefined;
  readonly policyKinds: readonly PolicyKind[];
}

/** What the cluster has already, or the flags say. */
interface Known {
  readonly league: LeagueOptions;
  readonly isWanted: (manifest: Manifest) => boolean;
  readonly federation: FederationObject | undefined;
}

export async function printManifests(request: ManifestsRequest): Promise<void> {
  const { kit, command, options } = request;
  checkNames(request);
  const { kubeconfig, context } = options;
  const print = (connection: Connection | undefined): Promise<void> =>
    kit.withClient(command, async (client) => {
      const league = await leagueInfo(client);
      const { namespace, clusterSet } = league;
      const site = {
        client,
        trustDomain: await trustDomainOf(client),
        namespace: options.namespace ?? namespace,
        clusterSet,
        policyKinds: policyKindsOf(league),
      };
      const known =
        connection === undefined
          ? knownByFlags(request, site)
          : await knownByCluster(request, site, connection);
      kit.print(manifestText(kit, manifestsOf(request, site, known), options.output));
    });
  if (kubeconfig === undefined && context === undefined) return print(undefined);
  const flags = { ...(kubeconfig && { kubeconfig }), ...(context && { context }) };
  await withConnections(kit.io, flags, ({ cluster }) => print(cluster));
}

function checkNames({ id, options }: ManifestsRequest): void {
  const { clusterSet, member = [], account, user } = options;
  for (const name of [id, clusterSet, account, ...member]) {
    if (name !== undefined && !isLabel(name)) {
      throw usageError(printable(`${JSON.stringify(name)} is not a DNS label.`));
    }
  }
  if (account !== undefined && user !== undefined) {
    throw usageError('The site is a ServiceAccount or a user: use --account or --user.');
  }
  if (options.supervisor !== true && (options.member ?? options.secret) !== undefined) {
    throw usageError('Only Federation of a supervisor lists members. Add --supervisor.');
  }
}

const userIn = ({ user }: ManifestsOptions, trustDomain: string): string | undefined =>
  user === true ? siteUser(trustDomain) : user;

function knownByFlags({ options }: ManifestsRequest, site: Site): Known {
  const { trustDomain, namespace, policyKinds } = site;
  const { account: name = defaultAccountName, principal: principals = [] } = options;
  const user = userIn(options, trustDomain);
  return {
    federation: undefined,
    isWanted: () => true,
    league: {
      trustDomain,
      namespace,
      principals,
      policyKinds,
      policies: options.policies,
      subject: user === undefined ? { kind: 'ServiceAccount', name } : { kind: 'User', name: user },
      ...(options.supervisor === true && { home: { secrets: options.secret ?? [] } }),
    },
  };
}

async function knownByCluster(
  { id, options }: ManifestsRequest,
  { client, trustDomain, namespace, policyKinds }: Site,
  { kube, loaded }: Connection,
): Promise<Known> {
  const server = serverOf(loaded.endpoint);
  const clusters = (await client.list(clusterKind)).items as unknown as readonly Cluster[];
  const { claims, federation } = await readFacts(kube);
  refuseOtherID(id, claims.get(claimKeys.id));
  refuseOtherNamespace(id, namespace, claims);
  const { account: name } = options;
  const installation = await prepareInstallation({
    kube,
    name: id,
    known: clusters.find((cluster) => serverOfCluster(cluster) === server),
    trustDomain,
    namespace,
    policyKinds,
    secrets:
      options.supervisor === true
        ? [...membersOf(federation).flatMap(({ secret = [] }) => secret), ...(options.secret ?? [])]
        : undefined,
    user: userIn(options, trustDomain),
  });
  const { league } = installation;
  return {
    federation,
    isWanted: installation.isWanted,
    league: {
      ...league,
      policies: options.policies && league.policies !== false,
      principals: [...(league.principals ?? []), ...(options.principal ?? [])],
      ...(name !== undefined && { subject: { kind: 'ServiceAccount', namespace, name } }),
    },
  };
}

function refuseOtherID(id: string, claimed: string | undefined): void {
  if (claimed === undefined || claimed === id) return;
  throw new HansaError(
    'HANSA_CONFLICT',
    printable(
      `Cannot print manifests for the ID ${id}: the cluster has the ID ${claimed} (ClusterClaim ${claimKeys.id}). Use that ID, or the kubeconfig of another cluster.`,
    ),
  );
}

function manifestsOf(
  { id, options }: ManifestsRequest,
  site: Site,
  { league, isWanted, federation }: Known,
): readonly Manifest[] {
  const isSupervisor = options.supervisor === true;
  const clusterSet =
    options.clusterSet ?? federation?.spec.clusterSet ?? site.clusterSet ?? defaultClusterSet;
  return [
    ...leagueManifests(league).filter(isWanted),
    ...claimManifests({ id, clusterSet, isSupervisor, namespace: site.namespace }),
    // Without members it leaves those alone that another site lists there.
    federationManifest(clusterSet, isSupervisor ? listed(id, options, membersOf(federation)) : []),
  ];
}

/** Members that the cluster lists already stay. */
function listed(
  id: string,
  { member = [], endpointPrefix: endpointPrefixes, routable, dns }: ManifestsOptions,
  known: readonly MemberEntry[],
): readonly MemberEntry[] {
  const entries = new Map(known.map((entry) => [entry.clusterID, entry]));
  entries.set(id, memberEntry(id, entries.get(id), { endpointPrefixes, routable, dns }));
  for (const other of member) entries.set(other, memberEntry(other, entries.get(other), {}));
  return [...entries.values()];
}
