// `hansa spire bootstrap`: exchanges trust bundles between the SPIRE servers of two clusters.

import { Command } from 'commander';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import type { BootstrapOptions } from './bootstrap-spire.ts';

export function spireBootstrapCommand(kit: CommandKit): Command {
  return new Command('bootstrap')
    .description('exchange trust bundles between the SPIRE servers of two clusters')
    .requiredOption('--from <context>', 'the context of one cluster')
    .requiredOption('--to <context>', 'the context of the other cluster')
    .option('--kubeconfig <file>', 'the kubeconfig of both (KUBECONFIG, or ~/.kube/config)')
    .option('--to-kubeconfig <file>', 'the kubeconfig of --to (default: the same)')
    .option('--from-url <url>', 'where the cluster of --to reaches the bundle endpoint of --from')
    .option('--to-url <url>', 'where the cluster of --from reaches the bundle endpoint of --to')
    .option('--from-bundle <file>', 'the trust bundle of --from as SPIFFE JSON (default: read it)')
    .option('--to-bundle <file>', 'the trust bundle of --to as SPIFFE JSON (default: read it)')
    .option('--namespace <name>', 'the namespace of the SPIRE servers', 'spire')
    .option('--dry-run', 'show the bundles, and change nothing')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Two SPIRE servers that federate by https_spiffe need the trust bundle of each other once, before they can
fetch it. The command reads the bundle of each cluster from the ConfigMap that SPIRE publishes it in, over the
connection of your kubeconfig. It shows the trust domains and fingerprints, and asks. Then it gives each
cluster the bundle of the other: in federatesWith of its SpireServer, if that names the trust domain or the
cluster has no ClusterFederatedTrustDomains, and otherwise in a ClusterFederatedTrustDomain. The command can
be repeated.

Examples:
  hansa spire bootstrap --from app1 --to app2
  hansa spire bootstrap --from app1 --to app2 --to-url https://spire.app2.example:8443/`,
    )
    .action(async (options: BootstrapOptions, command: Command) => {
      const { bootstrapSpire } = await import('./bootstrap-spire.ts');
      await bootstrapSpire({ kit, command, options });
    });
}
