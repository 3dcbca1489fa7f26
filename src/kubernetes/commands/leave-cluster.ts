// The work of `hansa cluster leave`: takes a cluster out of the cluster set and deletes what sites created in it,
// with the kubeconfig of the user. Nothing of a user is deleted. Every step can be repeated.

import type { Command } from 'commander';
import { claimKeys } from '../../api/kinds/cluster-claim.ts';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { printable } from '../../core/command/columns.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { serverOf } from '../../core/kube/registration/cluster-object.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import {
  claimsPath,
  explained,
  type FederationObject,
  hasOwnLabels,
  type LabelledObject,
  membersOf,
  orMissing,
  readFacts,
  readFederation,
} from '../client/cluster-facts.ts';
import { type Connection, type KubeconfigFlags, withConnections } from './connections.ts';
import { changeMembers, withoutMember } from '../client/home-federation.ts';
import {
  findInstalled,
  type Installed,
  type InstalledObjects,
} from '../client/installed-objects.ts';
import { forgetLeaving, leagueInfo, policyKindsOf } from '../client/league-info.ts';
import { namespaceContents } from '../client/namespace-contents.ts';
import { removeCopies, removeMarks } from '../client/remove-copies.ts';
import { removePolicyMarks, removeReplicas } from '../client/remove-replicas.ts';
import { trustDomainOf } from '../client/trust-domain.ts';
import { awaitLease, awaitRelease } from '../client/wait-for-member.ts';
import { whilePoliciesEnd } from '../client/wait-for-policies.ts';
import { type Copies, findCopies } from '../copies/find-copies.ts';
import { findReplicas, type Replicas } from '../leaving/find-replicas.ts';
import { supervisorClaims } from '../names.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import { joinManager } from './join-cluster.ts';
import { idOf, serverOfCluster } from './plan-join.ts';

export interface LeaveOptions extends KubeconfigFlags {
  readonly namespace?: string;
  readonly deleteObjects?: boolean;
  readonly output: OutputFormat;
}

export interface LeaveRequest {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly name: string;
  readonly options: LeaveOptions;
}

interface Leave extends LeaveRequest {
  readonly client: SiteClient;
  readonly kube: KubeClient;
  readonly trustDomain: string;
  readonly id: string;
  readonly known: Cluster | undefined;
  /** Whether this site leads from this cluster. */
  readonly isHome: boolean;
  readonly federation: FederationObject | undefined;
  /** Where Federation lists the cluster. Undefined: nowhere, or in the cluster itself. */
  readonly home: { readonly kube: KubeClient; readonly federation: FederationObject } | undefined;
  readonly found: InstalledObjects;
  readonly copies: Copies;
  readonly policyKinds: readonly PolicyKind[];
  readonly replicas: Replicas;
}

export async function leaveCluster(request: LeaveRequest): Promise<void> {
  const { kit, command, options } = request;
  await withConnections(kit.io, options, (connections) =>
    kit.withClient(command, async (client) => {
      const leave = await prepare(request, client, connections.cluster, (home) =>
        connections.home(home),
      );
      for (const line of planLines(leave)) kit.note(printable(line));
      await kit.confirm(command, `Let ${request.name} leave?`);
      await run(leave);
    }),
  );
}

async function prepare(
  request: LeaveRequest,
  client: SiteClient,
  { kube, loaded }: Connection,
  connectHome: (home: Cluster) => Connection,
): Promise<Leave> {
  const { name, options } = request;
  const clusters = (await client.list(clusterKind)).items as unknown as readonly Cluster[];
  const known = clusters.find(({ metadata }) => metadata.name === name);
  refuseOtherServer(name, known, serverOf(loaded.endpoint));
  const { claims, federation } = await readFacts(kube);
  const id = claims.get(claimKeys.id) ?? (known && idOf(known)) ?? name;
  const local = clusters.find(({ spec }) => spec.local);
  const isHome = local !== undefined && local === known;
  if (isHome) refuseOthers(name, id, federation);
  const home =
    local === undefined || isHome ? undefined : await listedIn(connectHome(local).kube, id);
  const trustDomain = await trustDomainOf(client);
  const league = await leagueInfo(client);
  const policyKinds = policyKindsOf(league);
  const found = await findInstalled(kube, {
    trustDomain,
    namespace: options.namespace ?? league.namespace,
  });
  if (found.otherSites.length === 0) refuseObjectsOfUsers(request, found);
  const copies = await findCopies(kube);
  const replicas = await findReplicas(kube, policyKinds);
  const forbidden = copies.forbidden ?? replicas.forbidden;
  if (found.otherSites.length === 0 && forbidden !== undefined) throw explained(forbidden);
  return {
    ...request,
    client,
    kube,
    trustDomain,
    id,
    known,
    isHome,
    federation,
    home,
    found,
    copies,
    policyKinds,
    replicas,
  };
}

async function listedIn(kube: KubeClient, id: string): Promise<Leave['home']> {
  const federation = await readFederation(kube);
  const isListed = membersOf(federation).some(({ clusterID }) => clusterID === id);
  return federation !== undefined && isListed ? { kube, federation } : undefined;
}

function refuseOtherServer(name: string, known: Cluster | undefined, server: string): void {
  const registered = known && serverOfCluster(known);
  if (registered === undefined || registered === server) return;
  throw new HansaError(
    'HANSA_CONFLICT',
    printable(
      `Cannot let ${name} leave: the site has it at ${registered}, and the kubeconfig is for ${server}. Choose the kubeconfig or context of ${name}.`,
    ),
  );
}

/** Without the Federation of its home cluster, the site would forget the others. */
function refuseOthers(name: string, id: string, federation: FederationObject | undefined): void {
  const others = membersOf(federation)
    .map(({ clusterID }) => clusterID)
    .filter((clusterID) => clusterID !== id);
  const [first] = others;
  if (first === undefined) return;
  throw new HansaError(
    'HANSA_CONFLICT',
    printable(
      `Cannot let ${name} leave: this site leads ${others.slice(0, 10).join(', ')} from it. Let these leave first: hansa cluster leave ${first}`,
    ),
  );
}

function refuseObjectsOfUsers(
  { name, options }: LeaveRequest,
  { ofUsers, crds }: InstalledObjects,
): void {
  if (ofUsers.length === 0 || crds.length === 0 || options.deleteObjects === true) return;
  throw new HansaError(
    'HANSA_CONFLICT',
    printable(
      `Cannot let ${name} leave: the CRDs of Hansa have ${ofUsers.length === 1 ? 'an object' : `${ofUsers.length} objects`} of users, which would be deleted with them: ${ofUsers.slice(0, 10).join(', ')}. Save them if you need them. Then add --delete-objects.`,
    ),
  );
}

function planLines(leave: Leave): readonly string[] {
  const { id, known, home, found, copies } = leave;
  const { services, vmServices, importServices, imports, exports, slices, members, takenOver } =
    copies;
  const { entities } = copies;
  const isLast = found.otherSites.length === 0;
  const { replicas, marked } = leave.replicas;
  const countOf = (number: number, one: string, several: string): string =>
    `  ${number} ${number === 1 ? one : several}`;
  const count = (number: number, what: string): string => countOf(number, what, `${what}s`);
  return [
    ...(home === undefined
      ? []
      : ['In Federation of the home cluster, this deletes:', `  the member ${id}`]),
    ...(removesCluster(leave) && known !== undefined
      ? ['At the site, this deletes:', `  Cluster ${known.metadata.name}, and its credential`]
      : []),
    `In the cluster ${leave.name}, this deletes:`,
    ...(isLast
      ? [
          count(services.length, 'copied Service'),
          count(vmServices.length, 'VM Service'),
          count(imports.length, 'ServiceImport'),
          countOf(
            importServices.length,
            'Service of a ServiceImport',
            'Services of ServiceImports',
          ),
          count(slices.length, 'EndpointSlice'),
          countOf(entities.length, 'ExternalEntity', 'ExternalEntities'),
          countOf(
            replicas.length,
            'replica of a federated policy',
            'replicas of federated policies',
          ),
          count(members.length + exports.length, 'condition'),
        ].filter((line) => !line.startsWith('  0 '))
      : []),
    ...deleted(found).map(({ title }) => `  ${title}`),
    ...(isLast ? found.ofUsers.map((title) => `  ${title} (of users)`) : []),
    ...(isLast && takenOver.length > 0
      ? [`Services of users stay, and lose the marks of copies: ${namesOf(takenOver)}`]
      : []),
    ...(isLast && marked.length > 0
      ? [`Policies of users stay, and lose the marks of sites: ${namesOf(marked)}`]
      : []),
    ...(isLast
      ? []
      : [
          `Copies, CRDs, policies and claims stay, because other sites lead this cluster: ${found.otherSites.join(', ')}`,
        ]),
  ];
}

/** More would hide the rest of the plan. */
const maxNamed = 10;

function namesOf(objects: Copies['takenOver'] | Replicas['marked']): string {
  const names = objects.map(({ metadata: { namespace, name } }) =>
    namespace === undefined ? name : `${namespace}/${name}`,
  );
  const more = names.length - maxNamed;
  return `${names.slice(0, maxNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function deleted({ own, shared, crds, otherSites }: InstalledObjects): readonly Installed[] {
  return otherSites.length === 0 ? [...own, ...shared, ...crds] : own;
}

/** A Cluster that `hansa cluster add` or a user made stays. */
function removesCluster({ known, found }: Leave): boolean {
  if (known === undefined || found.isUsedElsewhere) return false;
  const managers = known.metadata.managedFields ?? [];
  const appliers = managers.filter(({ operation }) => operation === 'Apply');
  return appliers.length > 0 && appliers.every(({ manager }) => manager === joinManager);
}

async function run(leave: Leave): Promise<void> {
  const { kit, client, kube, id, name, home, found, options, policyKinds } = leave;
  if (leave.isHome) await stopLeading(leave);
  if (home !== undefined) {
    await changeMembers(home.kube, home.federation.spec.clusterSet, (members) =>
      withoutMember(members, id),
    );
  }
  // Before its credential goes: the site gives up its Lease, so that another one can lead at once.
  if (!(await awaitRelease(client, kit.io.clock, id))) {
    kit.note('Warning: the site still follows the cluster.');
  }
  await forgetLeaving(client, id);
  await awaitLease(kube, kit.io.clock, found.namespace, leave.trustDomain);
  if (removesCluster(leave)) await removeCluster(client, name);
  const isLast = found.otherSites.length === 0;
  // The rights first: with them, a site that has not stopped yet would repair the copies.
  for (const object of found.own) await remove(leave, object);
  if (isLast) {
    await removeCopies(kube, await findCopies(kube));
    await removeReplicas(kube, await findReplicas(kube, policyKinds));
  }
  for (const object of isLast ? [...found.shared, ...found.crds] : []) await remove(leave, object);
  // The API server may have accepted writes for a moment after it lost the rights.
  const rest = isLast ? await findCopies(kube) : undefined;
  let left = rest === undefined ? 0 : await removeCopies(kube, rest);
  await removeMarks(kube, kit.io.clock, rest?.takenOver ?? []);
  if (isLast) {
    const replicas = await findReplicas(kube, policyKinds);
    left += await removeReplicas(kube, replicas);
    await removePolicyMarks(kube, kit.io.clock, replicas);
  }
  const kept = isLast ? await removeNamespace(kube, found.namespace) : undefined;
  kit.print(
    kit.renderValue({ name, id, left: true, namespaceKept: kept !== undefined }, options.output) ??
      printable(`${name} left the cluster set`),
  );
  if (kept !== undefined && kept.length > 0) {
    kit.note(
      printable(
        `The namespace ${found.namespace} stays: it contains ${kept.slice(0, 5).join(', ')}.`,
      ),
    );
  }
  if (left > 0) {
    throw new HansaError(
      'HANSA_CONFLICT',
      left === 1
        ? 'A copy or replica changed while it was deleted, and stays. Run the command again.'
        : `${left} copies or replicas changed while they were deleted, and stay. Run the command again.`,
    );
  }
}

/** The site writes nothing more once its home cluster is no supervisor and lists no members. */
async function stopLeading(leave: Leave): Promise<void> {
  const { kube, federation } = leave;
  if (federation !== undefined) {
    await changeMembers(kube, federation.spec.clusterSet, (members) =>
      members.length === 0 ? undefined : [],
    );
  }
  for (const key of supervisorClaims) {
    const path = `${claimsPath}${kubePath`/${key}`}`;
    await remove(leave, { title: `ClusterClaim ${key}`, path });
  }
}

async function removeCluster(client: SiteClient, name: string): Promise<void> {
  try {
    await client.delete(clusterKind, name);
  } catch (error) {
    if (!hasCode(error, 'HANSA_NOT_FOUND')) throw error;
  }
}

/** A policy keeps the ID until it sees the deletion of Federation. */
async function remove({ kit, kube, name }: Leave, { title, path }: Installed): Promise<void> {
  try {
    await whilePoliciesEnd(kit.io.clock, () => kube.delete(path));
  } catch (error) {
    if (!(error instanceof KubeStatusError)) throw error;
    throw failure(title, name, error);
  }
}

function failure(title: string, name: string, error: KubeStatusError): HansaError {
  const cause = explained(error);
  const why = cause === error ? error.serverMessage || String(error.status) : cause.message;
  return new HansaError(
    cause,
    printable(
      `Cannot delete ${title}: ${why} Solve the problem and run the command again: hansa cluster leave ${name}`,
    ),
    { cause: error },
  );
}

/** Undefined where there was none, or it was deleted; what is in it where it stays. */
async function removeNamespace(
  kube: KubeClient,
  namespace: string,
): Promise<readonly string[] | undefined> {
  const path = kubePath`/api/v1/namespaces/${namespace}`;
  const found = await orMissing(() => kube.get<LabelledObject>(path));
  if (found === undefined) return undefined;
  if (!hasOwnLabels(found)) return [];
  const contents = await namespaceContents(kube, namespace);
  if (contents.length > 0) return contents;
  await kube.delete(path);
  return undefined;
}
