// The work of `hansa cluster sync`: installs CRDs and rights in the cluster with the kubeconfig of the user, gives
// the cluster its role at the site, and marks it. Every step can be repeated.

import type { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { roleKind } from '../../api/kinds/role.ts';
import { roleBindingKind } from '../../api/kinds/role-binding.ts';
import { type SyncedKindName, syncedKinds } from '../../api/kinds/synced-kinds.ts';
import { apiVersion, type JsonObject } from '../../api/object.ts';
import { clusterUser } from '../../core/access/identity.ts';
import { type Clock, sleep } from '../../core/clock/clock.ts';
import { printable } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import { applyManifests, tryManifests } from '../../core/kube/manifests/apply-manifests.ts';
import { manifestLines, yamlDocuments } from '../../core/kube/manifests/describe-manifests.ts';
import { serverOf } from '../../core/kube/registration/cluster-object.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { findObject, type SiteClient } from '../../core/plane/site-client.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { siteSubject } from '../client/prepare-installation.ts';
import { trustDomainOf } from '../client/trust-domain.ts';
import { awaitEstablished } from '../client/wait-for-member.ts';
import { syncManifests } from '../manifests/sync-manifests.ts';
import { syncCondition } from '../names.ts';
import { type Connection, type KubeconfigFlags, withConnections } from './connections.ts';
import { serverOfCluster } from './plan-join.ts';

export interface SyncOptions extends KubeconfigFlags {
  readonly kind?: readonly SyncedKindName[];
  readonly role?: string;
  readonly user?: string;
  readonly dryRun?: boolean;
  readonly forceConflicts?: boolean;
  readonly output: OutputFormat;
}

export interface SyncRequest {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly name: string;
  readonly options: SyncOptions;
}

/** Its own, so that a repetition keeps fields that others set. */
export const syncManager = 'hansa-cluster-sync';

export function syncBindingName(cluster: string): string {
  return `cluster-sync-${cluster}`;
}

interface Binding {
  readonly spec: { readonly role: string };
}

interface Plan extends SyncRequest {
  readonly client: SiteClient;
  readonly trustDomain: string;
  readonly cluster: Cluster;
  readonly kinds: readonly SyncedKindName[];
  /** The role that the cluster gets, and the one that it has. */
  readonly role: string;
  readonly formerRole: string | undefined;
}

export async function syncCluster(request: SyncRequest): Promise<void> {
  const { kit, command, options } = request;
  await withConnections(kit.io, options, (connections) =>
    kit.withClient(command, async (client) => {
      await run(await prepare(request, client, connections.cluster), connections.cluster);
    }),
  );
}

async function prepare(
  request: SyncRequest,
  client: SiteClient,
  { loaded }: Connection,
): Promise<Plan> {
  const { name, options } = request;
  const cluster = await findObject<Cluster>(client, clusterKind, name);
  if (cluster === undefined) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `The site has no cluster ${name}. Register it first: hansa cluster add ${name} --kubeconfig FILE`,
    );
  }
  refuseOtherServer(cluster, serverOf(loaded.endpoint));
  const kinds = options.kind ?? cluster.spec.sync?.kinds;
  if (kinds === undefined) throw usageError('Name the kinds to sync with --kind.');
  const binding = await findObject<Binding>(client, roleBindingKind, syncBindingName(name));
  const formerRole = binding?.spec.role;
  const role = options.role ?? formerRole;
  if (role === undefined) {
    throw usageError(
      `Name the role that limits what ${name} may do with --role. It needs the verbs create, patch and delete on ${kinds.join(', ')}.`,
    );
  }
  if ((await findObject(client, roleKind, role)) === undefined) {
    throw new HansaError('HANSA_NOT_FOUND', `The site has no role ${JSON.stringify(role)}.`);
  }
  const trustDomain = await trustDomainOf(client);
  return { ...request, client, trustDomain, cluster, kinds: [...new Set(kinds)], role, formerRole };
}

function refuseOtherServer(cluster: Cluster, server: string): void {
  const registered = serverOfCluster(cluster);
  const { name } = cluster.metadata;
  if (registered === undefined) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `The Cluster ${name} has no apiServer, so the site cannot read objects there. Set it: hansa cluster add ${name} --kubeconfig FILE`,
    );
  }
  if (registered === server) return;
  throw new HansaError(
    'HANSA_CONFLICT',
    printable(
      `Cannot sync ${name}: the site has it at ${registered}, and the kubeconfig is for ${server}. Choose the kubeconfig or context of ${name}.`,
    ),
  );
}

async function run(plan: Plan, { kube, loaded }: Connection): Promise<void> {
  const { kit, command, client, name, options, trustDomain, cluster, kinds } = plan;
  const { user } = options;
  const subject = await siteSubject({ kube, name, known: cluster, trustDomain, user });
  const manifests = syncManifests({
    trustDomain,
    kinds: kinds.map((kind) => syncedKinds[kind]),
    subject,
  });
  if (options.dryRun === true) {
    kit.print(yamlDocuments(kit, manifests));
    return;
  }
  const force = options.forceConflicts === true;
  await tryManifests(kube, manifests, force);
  kit.note(
    printable(
      `In the cluster ${serverOf(loaded.endpoint)} (context ${loaded.context.name}), this creates or updates:`,
    ),
  );
  for (const line of [...manifestLines(manifests), ...siteLines(plan)]) kit.note(printable(line));
  await kit.confirm(command, `Sync ${name}?`);
  await applyManifests(kube, manifests, force);
  await awaitEstablished(kube, kit.io.clock, manifests);
  await bindRole(plan);
  await client.apply(clusterKind, name, markOf(name, kinds), {
    fieldManager: syncManager,
    force: true,
  });
  await report(plan);
}

function siteLines({ name, kinds, role, formerRole }: Plan): readonly string[] {
  const former =
    formerRole === undefined || formerRole === role ? '' : ` instead of the role ${formerRole}`;
  return [
    'At the site, this creates or updates:',
    `  RoleBinding ${syncBindingName(name)}: ${clusterUser(name)} has the role ${role}${former}`,
    `  Cluster ${name}: the site takes over ${kinds.join(', ')} from it`,
  ];
}

function markOf(name: string, kinds: readonly SyncedKindName[]): JsonObject {
  return {
    apiVersion,
    kind: clusterKind.kind,
    metadata: { name },
    spec: { sync: { kinds: [...kinds] } },
  };
}

/** Before the mark: otherwise the site would refuse the first objects. The role of a binding cannot be changed. */
async function bindRole({ client, name, role, formerRole }: Plan): Promise<void> {
  const binding = syncBindingName(name);
  if (formerRole === role) return;
  if (formerRole !== undefined) await client.delete(roleBindingKind, binding);
  await client.apply(
    roleBindingKind,
    binding,
    {
      apiVersion,
      kind: roleBindingKind.kind,
      metadata: { name: binding },
      spec: { role, subjects: [{ kind: 'User', name: clusterUser(name) }] },
    },
    { fieldManager: syncManager },
  );
}

const pauseMs = 250;
/** The site tries again after at most 30 seconds, and reports at most every ten. */
const tries = 200;

async function report({ kit, client, name, kinds, role, options }: Plan): Promise<void> {
  const found = await awaitSync(client, kit.io.clock, name);
  const value = { name, kinds, role, state: found?.status ?? 'Unknown' };
  kit.print(
    kit.renderValue(value, options.output) ??
      printable(`The site syncs ${kinds.join(', ')} of ${name}, with the role ${role}.`),
  );
  if (found?.status === 'True') return;
  throw new HansaError(
    'HANSA_UNHEALTHY',
    printable(
      `${name} is marked, but the site cannot read its objects yet: ${found?.message ?? 'the site has not reported yet'}. Everything is installed; the site tries again. To see its state: hansa status`,
    ),
  );
}

/** Until the condition is True for the current mark. The last one, or undefined where there is none. */
async function awaitSync(client: SiteClient, clock: Clock, name: string) {
  for (let attempt = 1; ; attempt++) {
    const cluster = await findObject<Cluster>(client, clusterKind, name);
    const found = findCondition(cluster?.status?.conditions, syncCondition);
    const isCurrent = found?.observedGeneration === cluster?.metadata.generation;
    const current = isCurrent ? found : undefined;
    if (current?.status === 'True' || attempt === tries) return current;
    await sleep(clock, pauseMs);
  }
}
