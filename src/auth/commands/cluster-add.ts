// `hansa cluster add`: the flags and the help. add-cluster.ts does the work.

import { Command, Option } from 'commander';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import type { AddOptions } from './add-cluster.ts';

export function addCommand(kit: CommandKit): Command {
  return new Command('add')
    .description('register a cluster, with a ServiceAccount of least rights for this site')
    .argument('<name>', 'the name of the cluster, a DNS label; it becomes part of the host name')
    .option(
      '--kubeconfig <file>',
      'the kubeconfig of a cluster administrator (KUBECONFIG, or ~/.kube/config)',
    )
    .option('--context <name>', 'its context (default: the current one)')
    .addOption(
      new Option('--mode <mode>', 'how tokens are reviewed (default: hybrid)').choices([
        'jwks',
        'tokenreview',
        'hybrid',
      ]),
    )
    .option(
      '--local',
      'this is the local cluster, which the host name without a cluster name means',
    )
    .option(
      '--namespace <name>',
      'the namespace of the ServiceAccount (default: that of auth.baseDomain)',
    )
    .option('--no-publish-ca', "do not publish the site's CA in the ConfigMap hansa-ca")
    .option('--dry-run', 'print the manifests of both sides, and change nothing')
    .option('--force-conflicts', 'take over fields that other field managers own')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With your kubeconfig, the command creates a ServiceAccount for this site in the cluster, and the RBAC that
the site needs: create TokenReviews, read the public keys, renew its own token, and update one ConfigMap.
It shows them and asks first. Then it obtains a token of that ServiceAccount, registers the Cluster with
the CA and address of the kubeconfig, and stores the token at the site, which seals and renews it. Your
own credential stays on this machine. The command can be repeated.

Examples:
  hansa cluster add app1 --kubeconfig ~/.kube/app1
  hansa cluster add app1 --context app1 --mode tokenreview
  hansa cluster add app1 --kubeconfig ~/.kube/app1 --dry-run > app1.yaml`,
    )
    .action(async (name: string, options: AddOptions, command: Command) => {
      // Imported here, so that other commands do not load the Kubernetes client.
      const { addCluster } = await import('./add-cluster.ts');
      await addCluster({ kit, command, name, options });
    });
}
