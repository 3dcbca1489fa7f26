// `hansa cluster sync` and `unsync`: mark a cluster, so that the site takes over objects of its kinds from there.

import { Command, Option } from 'commander';
import { type SyncedKindName, syncedKindNames } from '../../api/kinds/synced-kinds.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import type { SyncOptions } from './sync-cluster.ts';
import type { UnsyncOptions } from './unsync-cluster.ts';

export function syncCommand(kit: CommandKit): Command {
  return new Command('sync')
    .description('take over objects of the kinds of this site from a cluster, for GitOps')
    .argument('<name>', 'the name of the cluster at this site')
    .addOption(kindOption())
    .option('--role <name>', 'the role of the cluster at this site (default: the one that it has)')
    .option('--kubeconfig <file>', 'the kubeconfig of an administrator of the cluster')
    .option('--context <name>', 'its context (default: the current one)')
    .option(
      '--user <name>',
      'the user name of the site at the API server, if it uses no ServiceAccount',
    )
    .option('--dry-run', 'print the manifests for the cluster, and change nothing')
    .option('--force-conflicts', 'take over fields that other field managers own')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Marks the cluster (spec.sync of its Cluster). From then on, objects of these kinds that are applied in the
cluster are created, changed and deleted at the site, and get the status of the site. The condition Accepted
says whether the site has an object, and why not.

The site does this as the user cluster:NAME, which may do what the role says. The command creates the
RoleBinding cluster-sync-NAME. The role needs the verbs create, patch and delete on the kinds.

With your kubeconfig, the command installs CRDs in the cluster, and the right of this site to read the objects
and to write their status. It shows them and asks first. The command can be repeated.

Kinds: ${syncedKindNames.join(', ')}.

Examples:
  hansa cluster sync app1 --kind SPIFFEFederation JoinToken --role gitops --kubeconfig ~/.kube/app1
  hansa cluster sync app1 --kind SPIFFEFederation --role gitops --dry-run | kubectl apply --server-side -f -`,
    )
    .action(async (name: string, options: SyncOptions, command: Command) => {
      // Imported here, so that other commands do not load the Kubernetes client.
      const { syncCluster } = await import('./sync-cluster.ts');
      await syncCluster({ kit, command, name, options });
    });
}

export function unsyncCommand(kit: CommandKit): Command {
  return new Command('unsync')
    .description('stop to take over objects from a cluster')
    .argument('<name>', 'the name of the cluster at this site')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Removes the mark of the cluster and the RoleBinding that hansa cluster sync created. Objects that came from the
cluster stay at the site, and belong to it from then on. CRDs and objects in the cluster stay too.

Examples:
  hansa cluster unsync app1`,
    )
    .action(async (name: string, options: UnsyncOptions, command: Command) => {
      const { unsyncCluster } = await import('./unsync-cluster.ts');
      await unsyncCluster({ kit, command, name, options });
    });
}

function kindOption(): Option {
  return new Option(
    '--kind <kind...>',
    'the kinds of objects (default: those that the cluster is marked for)',
  ).argParser((text, known: readonly SyncedKindName[] | undefined) => [
    ...(known ?? []),
    parseKind(text),
  ]);
}

/** Also as kubectl has it: `spiffefederations`. */
export function parseKind(text: string): SyncedKindName {
  const wanted = text.toLowerCase();
  const found = syncedKindNames.find((kind) =>
    [kind, `${kind}s`].some((each) => each.toLowerCase() === wanted),
  );
  if (found !== undefined) return found;
  throw usageError(
    `Objects of ${JSON.stringify(text)} cannot be synced. Choose some of ${syncedKindNames.join(', ')}.`,
  );
}
