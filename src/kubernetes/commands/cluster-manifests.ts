// `hansa cluster manifests`: flags and help. print-manifests.ts does the work.

import { Command } from 'commander';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import { prefixOption } from './prefix-option.ts';
import type { ManifestsOptions } from './print-manifests.ts';

export function manifestsCommand(kit: CommandKit): Command {
  return new Command('manifests')
    .description('print what a cluster needs to be a member, for GitOps')
    .argument('<id>', 'the ID of the cluster in its set')
    .option('--supervisor', 'for the cluster from which this site leads')
    .option('--cluster-set <name>', 'the cluster set (default: that of this site, or default)')
    .option('--member <id...>', 'with --supervisor: the IDs of the other members')
    .option('--secret <name...>', 'with --supervisor: Secrets with credentials of members')
    .addOption(prefixOption())
    .option('--routable', 'other clusters reach its pods by their addresses')
    .option('--dns', 'ExternalDNS runs in it, for the DNS names of federated Services')
    .option('--namespace <name>', 'the namespace of Hansa (default: kubernetes.namespace)')
    .option('--account <name>', 'the ServiceAccount of the site (default: hansa)')
    .option(
      '--user [name]',
      'the site authenticates as this user, not as a ServiceAccount (default: its JWT-SVID)',
    )
    .option('--principal <user...>', 'user names of other sites that lead the cluster')
    .option('--no-policies', 'leave out admission policies, for Kubernetes below 1.30')
    .option('--kubeconfig <file>', 'read the cluster with this kubeconfig, and keep what it has')
    .option('--context <name>', 'its context (default: the current one)')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Prints what hansa cluster join creates: CRDs, the namespace, the ServiceAccount and RBAC of this site,
admission policies, the claims of the cluster and its Federation. kubectl apply creates them; run it twice,
because claims need the CRDs. Federation of the supervisor cluster lists the members; add their
endpointPrefixes there. The site needs a credential of each member: register it (hansa cluster add), or name a
Secret in Federation.

If other sites lead the cluster too, the manifests must keep what these need. With --kubeconfig or --context,
the command reads the cluster and does so, and changes nothing. Without, choose another --account than theirs.
Policies know other sites by their user names: ServiceAccounts in the namespace of Hansa, those that hansa
cluster add creates, and JWT-SVIDs of sites. List all others with --principal.

Examples:
  hansa cluster manifests app2 | kubectl apply --server-side -f -
  hansa cluster manifests app2 --kubeconfig ~/.kube/app2 > app2.yaml
  hansa cluster manifests app1 --supervisor --member app2 app3 > app1.yaml`,
    )
    .action(async (id: string, options: ManifestsOptions, command: Command) => {
      // Imported here, so that other commands do not load the Kubernetes client.
      const { printManifests } = await import('./print-manifests.ts');
      await printManifests({ kit, command, id, options });
    });
}
