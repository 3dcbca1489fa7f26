// `hansa spire`: flags and help. install-spire.ts, uninstall-spire.ts and show-spire.ts do the work.

import { Command, Option } from 'commander';
import { defaultMaxFederatedClusters } from '../../api/kinds/spire-server.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { InstallOptions, ManifestOptions } from './install-spire.ts';
import { spireBootstrapCommand } from './spire-bootstrap.ts';

interface Output {
  readonly output: OutputFormat;
}

export function spireCommand(kit: CommandKit): Command {
  return new Command('spire')
    .description('operate the SPIRE servers of clusters')
    .addHelpText(
      'after',
      `
Examples:
  hansa spire install app1 --kubeconfig ~/.kube/app1
  hansa spire bootstrap --from app1 --to app2
  hansa spire list`,
    )
    .addCommand(installCommand(kit))
    .addCommand(uninstallCommand(kit))
    .addCommand(manifestsCommand(kit))
    .addCommand(listCommand(kit))
    .addCommand(showCommand(kit))
    .addCommand(spireBootstrapCommand(kit));
}

function installCommand(kit: CommandKit): Command {
  return limited(new Command('install'), kit)
    .description('let the site operate the SPIRE server of a cluster')
    .argument('<name>', 'the name of the cluster at this site')
    .option('--kubeconfig <file>', 'the kubeconfig of an administrator of the cluster')
    .option('--context <name>', 'its context (default: the current one)')
    .option('--class-name <class>', 'act only on a SpireServer of this class')
    .option('--trust-domain <name>', 'for a CRD of another operator that has no such field')
    .option('--cluster-name <name>', 'for a CRD of another operator that has no such field')
    .option(
      '--user <name>',
      'the user name of the site at the API server, if it uses no ServiceAccount',
    )
    .option(
      '--bundle-peer <trust-domain...>',
      'peers whose sites may send bundles for the first contact with trust domains in federatesWith',
    )
    .option('--force-conflicts', 'take over fields that other field managers own')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Marks the cluster (spec.spire of its Cluster). If the setting kubernetes.spire.enabled of the site is true, the
site then creates the SPIRE server that the SpireServer of the cluster describes, exposes its bundle endpoint,
and keeps both as they should be. The conditions of the SpireServer say what is wrong and what to do.

With your kubeconfig, the command installs the CRD SpireServer, the namespace, and the rights of this site. It
shows them and asks first. A CRD of another operator is never changed. The command can be repeated. The flags
define the whole mark: repeat them all, because a flag that you leave out is removed from it.

Examples:
  hansa spire install app1 --kubeconfig ~/.kube/app1
  hansa spire install app1 --kubeconfig ~/.kube/app1 --secret federation-tls
  hansa spire install app1 --kubeconfig ~/.kube/app1 --bundle-peer bruges.example`,
    )
    .action(async (name: string, options: InstallOptions, command: Command) => {
      // Imported here, so that other commands do not load the Kubernetes client.
      const { installSpire } = await import('./install-spire.ts');
      await installSpire({ kit, command, name, options });
    });
}

function manifestsCommand(kit: CommandKit): Command {
  return limited(new Command('manifests'), kit)
    .description('print what hansa spire install creates in a cluster, for GitOps')
    .option(
      '--user <name>',
      'the user name of the site at the API server (default: its ServiceAccount)',
    )
    .option('--account <namespace/name>', 'the ServiceAccount of the site', 'kube-fed/hansa')
    .option('--no-crd', 'without the CRD, for a cluster with that of another operator')
    .option('--no-policies', 'leave out the admission policy, for Kubernetes below 1.30')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
To mark the cluster, set spec.spire of its Cluster at the site.

Examples:
  hansa spire manifests | kubectl apply --server-side -f -
  hansa spire manifests --namespace spire-system --secret federation-tls > spire.yaml`,
    )
    .action(async (options: ManifestOptions, command: Command) => {
      const { printSpireManifests } = await import('./install-spire.ts');
      await printSpireManifests({ kit, command, options });
    });
}

function uninstallCommand(kit: CommandKit): Command {
  return new Command('uninstall')
    .description('stop operating the SPIRE server of a cluster')
    .argument('<name>', 'the name of the cluster at this site')
    .option('--kubeconfig <file>', 'the kubeconfig of an administrator of the cluster')
    .option('--context <name>', 'its context (default: the current one)')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Removes the mark of the cluster, and the rights and the admission policy of this site there. The SPIRE
server keeps running with its last configuration. The CRD, the SpireServer and all objects of the server
stay. To delete the server too, delete the SpireServer first: kubectl delete spireserver cluster

Examples:
  hansa spire uninstall app1 --kubeconfig ~/.kube/app1`,
    )
    .action(async (name: string, options: InstallOptions, command: Command) => {
      const { uninstallSpire } = await import('./uninstall-spire.ts');
      await uninstallSpire({ kit, command, name, options });
    });
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list the SPIRE servers that this site operates')
    .addOption(kit.outputOption(['json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa spire list')
    .action(async ({ output }: Output, command: Command) => {
      const { listSpire } = await import('./show-spire.ts');
      await listSpire(kit, command, output);
    });
}

function showCommand(kit: CommandKit): Command {
  return new Command('show')
    .description('show the SPIRE server of a cluster: its conditions and its relationships')
    .argument('<name>', 'the name of the cluster at this site')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa spire show app1')
    .action(async (name: string, { output }: Output, command: Command) => {
      const { showSpire } = await import('./show-spire.ts');
      await showSpire(kit, command, name, output);
    });
}

/** The limit also comes from the variable that the operator of OpenShift knows. */
function limited(command: Command, kit: CommandKit): Command {
  return command
    .option('--namespace <name>', 'the namespace of the SPIRE server', 'spire')
    .option('--secret <name...>', 'Secrets with certificates of the bundle endpoint')
    .addOption(
      new Option(
        '--max-federated-clusters <count>',
        'how many trust domains the server may federate with; also MAX_FEDERATED_CLUSTERS',
      )
        .argParser(parseLimit)
        .default(
          limitOf(kit.io.env['MAX_FEDERATED_CLUSTERS']),
          String(defaultMaxFederatedClusters),
        ),
    );
}

/** A variable that is no number counts as absent. */
function limitOf(text: string | undefined): number {
  try {
    return text === undefined ? defaultMaxFederatedClusters : parseLimit(text);
  } catch {
    return defaultMaxFederatedClusters;
  }
}

function parseLimit(text: string): number {
  const count = /^[1-9][0-9]{0,3}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= 1000) return count;
  throw usageError(`${JSON.stringify(text)} is not a valid limit. Write a number from 1 to 1000.`);
}
