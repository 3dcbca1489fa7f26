// The work of `hansa cluster join`: installs what the site needs in a cluster with the kubeconfig of the user,
// registers it with the site, and lists it in Federation of the home cluster. Every step can be repeated.

import type { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { JsonObject } from '../../api/object.ts';
import { printable } from '../../core/command/columns.ts';
import { HansaError } from '../../core/errors/error.ts';
import { applyManifests, tryManifests } from '../../core/kube/manifests/apply-manifests.ts';
import { manifestLines, yamlDocuments } from '../../core/kube/manifests/describe-manifests.ts';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { publishedIssuer, requestToken } from '../../core/kube/registration/account-token.ts';
import { clusterObject, serverOf } from '../../core/kube/registration/cluster-object.ts';
import { setCredential } from '../../core/kube/registration/set-credential.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { membersOf, readFacts, readFederation } from '../client/cluster-facts.ts';
import { type Connection, type KubeconfigFlags, withConnections } from './connections.ts';
import { changeMembers, withMember } from '../client/home-federation.ts';
import { leagueInfo, policyKindsOf } from '../client/league-info.ts';
import { type Installation, prepareInstallation } from '../client/prepare-installation.ts';
import { trustDomainOf } from '../client/trust-domain.ts';
import { awaitEstablished, awaitMember } from '../client/wait-for-member.ts';
import { leagueManifests } from '../manifests/league-manifests.ts';
import {
  claimManifests,
  federationManifest,
  memberEntry,
  type Membership,
} from '../manifests/membership-manifests.ts';
import { clusterIDLabel } from '../names.ts';
import {
  chooseClusterSet,
  type JoinPlan,
  planJoin,
  refuseOtherMember,
  refuseOtherNamespace,
} from './plan-join.ts';

export interface JoinOptions extends KubeconfigFlags {
  readonly supervisor?: boolean;
  readonly clusterSet?: string;
  readonly id?: string;
  readonly endpointPrefix?: readonly string[];
  readonly routable?: boolean;
  readonly dns?: boolean;
  readonly namespace?: string;
  readonly dryRun?: boolean;
  readonly forceConflicts?: boolean;
  readonly output: OutputFormat;
}

/** Its own, so that a repetition keeps fields that others set, and `leave` knows whose the Cluster is. */
export const joinManager = 'hansa-cluster-join';

export interface JoinRequest {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly name: string;
  readonly options: JoinOptions;
}

interface Join extends JoinRequest {
  readonly client: SiteClient;
  readonly cluster: Connection;
  readonly plan: JoinPlan;
  readonly membership: Membership;
  readonly installation: Installation;
  /** The cluster whose Federation lists the members: the one that joins, or the home cluster. */
  readonly list: Connection;
}

export async function joinCluster(request: JoinRequest): Promise<void> {
  const { kit, command, options } = request;
  await withConnections(kit.io, options, (connections) =>
    kit.withClient(command, async (client) => {
      const join = await prepare(request, client, connections.cluster, (home) =>
        connections.home(home),
      );
      await run(join);
    }),
  );
}

async function prepare(
  request: JoinRequest,
  client: SiteClient,
  cluster: Connection,
  connectHome: (home: Cluster) => Connection,
): Promise<Join> {
  const { name, options } = request;
  const server = serverOf(cluster.loaded.endpoint);
  const { claims, federation } = await readFacts(cluster.kube);
  const clusters = (await client.list(clusterKind)).items as unknown as readonly Cluster[];
  const supervisor = options.supervisor === true;
  const plan = planJoin({ name, server, id: options.id, supervisor, clusters, claims });
  const list = plan.home === undefined ? cluster : connectHome(plan.home);
  const listed = plan.home === undefined ? federation : await readFederation(list.kube);
  const home = plan.home && {
    name: plan.home.metadata.name,
    clusterSet: listed?.spec.clusterSet ?? missingFederation(plan.home),
  };
  const clusterSet = chooseClusterSet({
    name,
    given: options.clusterSet,
    claims,
    ownFederation: federation?.spec.clusterSet,
    home,
  });
  const entry = membersOf(listed).find(({ clusterID }) => clusterID === plan.id);
  refuseOtherMember(name, server, entry);
  const league = await leagueInfo(client);
  const namespace = options.namespace ?? league.namespace;
  refuseOtherNamespace(name, namespace, claims);
  const installation = await prepareInstallation({
    kube: cluster.kube,
    name,
    known: plan.known,
    trustDomain: await trustDomainOf(client),
    namespace,
    policyKinds: policyKindsOf(league),
    secrets:
      plan.home === undefined ? membersOf(listed).flatMap((each) => each.secret ?? []) : undefined,
  });
  const membership = { id: plan.id, clusterSet, isSupervisor: plan.home === undefined, namespace };
  return { ...request, client, cluster, plan, membership, installation, list };
}

function missingFederation({ metadata: { name } }: Cluster): never {
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `The cluster ${name}, which is the local cluster of this site, has no Federation. Make it the supervisor first: hansa cluster join ${name} --kubeconfig FILE --supervisor`,
  );
}

async function run(join: Join): Promise<void> {
  const { kit, command, client, cluster, name, options, membership, installation } = join;
  const force = options.forceConflicts === true;
  const manifests = leagueManifests(installation.league).filter(installation.isWanted);
  const claims = claimManifests(membership);
  if (options.dryRun === true) {
    kit.print(yamlDocuments(kit, [...manifests, ...claims, ...ownFederation(join)]));
    return;
  }
  await tryManifests(cluster.kube, manifests, force);
  for (const line of planLines(join, [...manifests, ...claims])) kit.note(printable(line));
  for (const line of installation.warnings) kit.note(printable(`Warning: ${line}`));
  await kit.confirm(command, `Join ${name}?`);
  await applyManifests(cluster.kube, manifests, force);
  await awaitEstablished(cluster.kube, kit.io.clock, manifests);
  await applyManifests(cluster.kube, [...claims, ...ownFederation(join)], force);
  // Before the Cluster, so that the site finds a Federation in its home cluster.
  if (join.plan.home === undefined) await listMember(join);
  const created = await register(join, client, force);
  if (join.plan.home !== undefined) await listMember(join);
  await report(join, created);
}

/** In a member, an empty Federation says that it is one. In the home cluster, `listMember` writes it. */
function ownFederation({ plan, membership }: Join): readonly Manifest[] {
  if (plan.home === undefined) return [];
  return [federationManifest(membership.clusterSet)];
}

async function listMember({ list, membership, options }: Join): Promise<void> {
  const { id, clusterSet } = membership;
  const { endpointPrefix: endpointPrefixes, routable, dns } = options;
  await changeMembers(list.kube, clusterSet, (members) => {
    const known = members.find(({ clusterID }) => clusterID === id);
    return withMember(members, memberEntry(id, known, { endpointPrefixes, routable, dns }));
  });
}

/** Returns whether the Cluster is new. */
async function register(join: Join, client: SiteClient, force: boolean): Promise<boolean> {
  const { cluster, name, plan, installation } = join;
  const { known } = plan;
  const { endpoint } = cluster.loaded;
  const { account } = installation;
  const token = account && (await requestToken(cluster.kube, account));
  const issuer = token?.issuer ?? known?.spec.issuer ?? (await publishedIssuer(cluster.kube));
  const object = clusterObject({
    name,
    endpoint,
    issuer: issuer ?? 'https://kubernetes.default.svc',
    audiences: token?.audiences ?? known?.spec.apiAudiences ?? [],
    // The account may not create TokenReviews. `hansa cluster add` gives it that right, and keeps other modes.
    mode: known === undefined ? 'jwks' : undefined,
    local: plan.home === undefined ? true : undefined,
    known,
  });
  const { created } = await client.apply(clusterKind, name, labelled(object, join), {
    fieldManager: joinManager,
    force,
  });
  if (token !== undefined) {
    await setCredential(client, name, { token: token.token, apiServer: serverOf(endpoint) });
  }
  return created;
}

function labelled(object: JsonObject, { name, membership: { id } }: Join): JsonObject {
  return id === name ? object : { ...object, metadata: { name, labels: { [clusterIDLabel]: id } } };
}

function planLines(join: Join, manifests: readonly Manifest[]): readonly string[] {
  const { name, plan, cluster, membership, installation, options } = join;
  const { context, endpoint } = cluster.loaded;
  const { account } = installation;
  const prefixes = options.endpointPrefix?.join(', ');
  return [
    `In the cluster ${serverOf(endpoint)} (context ${context.name}), this creates or updates:`,
    ...manifestLines(manifests),
    `In Federation of the cluster ${plan.home?.metadata.name ?? name}, this creates or updates:`,
    `  the member ${membership.id} of the cluster set ${membership.clusterSet}${prefixes === undefined ? '' : `, endpoints in ${prefixes}`}${options.routable === true ? ', pods are routable' : ''}${options.dns === true ? ', it carries DNS names' : ''}`,
    'At the site, this creates or updates:',
    `  Cluster ${name}${plan.home === undefined ? ', the local one, from which this site leads' : ''}`,
    ...(account === undefined
      ? []
      : [
          `  its credential: a token of ServiceAccount ${account.namespace}/${account.name}, valid for 7 days, which the site renews`,
        ]),
  ];
}

async function report(join: Join, created: boolean): Promise<void> {
  const { kit, client, name, membership, options } = join;
  const { id, clusterSet } = membership;
  const member = await awaitMember(client, kit.io.clock, id);
  const state = member?.state ?? 'Unknown';
  kit.print(
    kit.renderValue({ name, created, ...membership, state }, options.output) ??
      printable(`${name} joined the cluster set ${clusterSet}${id === name ? '' : ` as ${id}`}`),
  );
  if (state === 'Ready') return;
  const why =
    member === undefined ? 'the site has not seen it yet' : `${member.reason}: ${member.message}`;
  throw new HansaError(
    'HANSA_UNHEALTHY',
    printable(
      `${name} is a member, but the site cannot use it yet: ${why}. Everything is installed; the site tries again. To see its state: hansa status`,
    ),
  );
}
