// The commands of the group `hansa cluster` of this plane. The auth plane describes the group.

import { Command } from 'commander';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import { manifestsCommand } from './cluster-manifests.ts';
import { syncCommand, unsyncCommand } from './cluster-sync.ts';
import type { JoinOptions } from './join-cluster.ts';
import type { LeaveOptions } from './leave-cluster.ts';
import { prefixOption } from './prefix-option.ts';

export function leagueCommands(kit: CommandKit): Command {
  return new Command('cluster')
    .addCommand(joinCommand(kit))
    .addCommand(leaveCommand(kit))
    .addCommand(manifestsCommand(kit))
    .addCommand(syncCommand(kit))
    .addCommand(unsyncCommand(kit));
}

function joinCommand(kit: CommandKit): Command {
  return withKubeconfigs(
    new Command('join')
      .description('make a cluster a member of the cluster set of this site')
      .argument('<name>', 'the name of the cluster at this site, a DNS label'),
  )
    .option('--supervisor', 'this site leads from this cluster: its Federation lists all members')
    .option(
      '--cluster-set <name>',
      'the cluster set (default: that of the supervisor; for the first one, default)',
    )
    .option('--id <id>', 'the ID of the cluster in its set (default: the name)')
    .addOption(prefixOption())
    .option('--routable', 'other clusters reach its pods by their addresses')
    .option('--dns', 'ExternalDNS runs in it, for the DNS names of federated Services')
    .option('--namespace <name>', 'the namespace of Hansa there (default: kubernetes.namespace)')
    .option('--dry-run', 'print the manifests for the cluster, and change nothing')
    .option('--force-conflicts', 'take over fields that other field managers own')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With your kubeconfig, the command installs CRDs, admission policies, a ServiceAccount for this site and its
RBAC in the cluster. It shows them and asks first. Then it writes the claims of the cluster (its ID and its
cluster set), registers it with the site, and adds it to Federation in the supervisor cluster. Your own
credentials stay on this machine. The command can be repeated: it repairs what is missing.

The first cluster joins with --supervisor. For the others, the command also changes Federation in that
cluster: it takes the context for its API server from the same kubeconfig, or from --home-kubeconfig.

Examples:
  hansa cluster join app1 --kubeconfig ~/.kube/app1 --supervisor --endpoint-prefix 10.1.0.0/16
  hansa cluster join app2 --kubeconfig ~/.kube/app2 --home-kubeconfig ~/.kube/app1 --endpoint-prefix 10.2.0.0/16
  hansa cluster join app3 --context app3 --endpoint-prefix 10.3.0.0/16 --routable`,
    )
    .action(async (name: string, options: JoinOptions, command: Command) => {
      // Imported here, so that other commands do not load the Kubernetes client.
      const { joinCluster } = await import('./join-cluster.ts');
      await joinCluster({ kit, command, name, options });
    });
}

function leaveCommand(kit: CommandKit): Command {
  return withKubeconfigs(
    new Command('leave')
      .description('take a cluster out of the cluster set, and delete there what join created')
      .argument('<name>', 'the name of the cluster at this site'),
  )
    .option('--namespace <name>', 'the namespace of Hansa there (default: where join put it)')
    .option('--delete-objects', 'delete objects of users that the CRDs of Hansa have, too')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command removes the cluster from Federation in the supervisor cluster, and waits until the site has let
go of it. Then it deletes copies of Services, claims, policies, RBAC, CRDs and the ServiceAccount in the
cluster, and the namespace if it is empty. It shows them and asks first. Services of users stay, also copies
that a user took over by adding a selector. If the CRDs have objects of users, such as NativeServices, it
refuses without --delete-objects. If another site leads the cluster too, it deletes only what is for this
site. The command can be repeated.

Examples:
  hansa cluster leave app2 --kubeconfig ~/.kube/app2 --home-kubeconfig ~/.kube/app1`,
    )
    .action(async (name: string, options: LeaveOptions, command: Command) => {
      const { leaveCluster } = await import('./leave-cluster.ts');
      await leaveCluster({ kit, command, name, options });
    });
}

function withKubeconfigs(command: Command): Command {
  return command
    .option(
      '--kubeconfig <file>',
      'the kubeconfig of an administrator of the cluster (KUBECONFIG, or ~/.kube/config)',
    )
    .option('--context <name>', 'its context (default: the current one)')
    .option('--home-kubeconfig <file>', 'the kubeconfig of the supervisor cluster of this site')
    .option('--home-context <name>', 'its context (default: that of its API server)');
}
