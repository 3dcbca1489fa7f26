// `hansa cluster`: lists, shows and removes the clusters of a site. Other files of this folder add the other
// commands of the group.

import { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { authInfo } from '../client/auth-info.ts';
import { findCluster, removalEffect } from '../client/clusters.ts';
import { clusterDetails, clusterHosts } from '../clusters/cluster-details.ts';
import { addCommand } from './cluster-add.ts';
import { checkCommand } from './cluster-check.ts';
import { credentialCommand } from './cluster-credential.ts';
import { authConfigCommand, servicesCommand } from './cluster-manifests.ts';
import { reviewCommand } from './cluster-review.ts';

interface Output {
  readonly output: OutputFormat;
}

export function clusterCommand(kit: CommandKit): Command {
  return new Command('cluster')
    .description('manage Kubernetes clusters and review their ServiceAccount tokens')
    .addHelpText(
      'after',
      `
A site answers TokenReviews for the clusters that are registered with it. Each cluster has a host name,
such as api.app1.kube-fed.svc.cluster.local (hansa cluster show). hansa cluster join makes clusters one
cluster set, in which Services are found in every cluster.

Examples:
  hansa cluster add app1 --kubeconfig ~/.kube/app1
  hansa cluster list
  hansa cluster review app1 < token
  hansa cluster join app1 --kubeconfig ~/.kube/app1 --supervisor`,
    )
    .addCommand(addCommand(kit))
    .addCommand(listCommand(kit))
    .addCommand(showCommand(kit))
    .addCommand(checkCommand(kit))
    .addCommand(reviewCommand(kit))
    .addCommand(credentialCommand(kit))
    .addCommand(servicesCommand(kit))
    .addCommand(authConfigCommand(kit))
    .addCommand(removeCommand(kit));
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list the clusters of this site')
    .addOption(kit.outputOption(['json', 'yaml', 'wide', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa cluster list\n  hansa cluster list -o wide')
    .action(({ output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const list = await client.list(clusterKind);
        const clusters = list.items as unknown as readonly Cluster[];
        const rendered = kit.renderValue({ clusters: clusters.map(withoutManagers) }, output);
        if (rendered !== undefined) {
          kit.print(rendered);
        } else if (output.format === 'name') {
          for (const { metadata } of clusters) kit.print(printable(metadata.name));
        } else if (clusters.length === 0) {
          kit.note(
            'There are no clusters. To register one: hansa cluster add NAME --kubeconfig FILE',
          );
        } else {
          kit.printTable(await client.table(clusterKind, undefined), output.format === 'wide');
          if (output.format !== 'wide') for (const line of notReady(clusters)) kit.note(line);
        }
      }),
    );
}

/** The wide table contains these messages. */
function notReady(clusters: readonly Cluster[]): readonly string[] {
  return clusters.flatMap(({ metadata, status }) => {
    const ready = findCondition(status?.conditions, 'Ready');
    if (ready === undefined || ready.status === 'True') return [];
    return [printable(`${metadata.name} is not ready: ${ready.message}`)];
  });
}

function showCommand(kit: CommandKit): Command {
  return new Command('show')
    .description('show a cluster: its host names, mode, keys, credential and conditions')
    .argument('<name>', 'the name of the cluster')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      '\nExamples:\n  hansa cluster show app1\n  hansa cluster show app1 -o json',
    )
    .action((name: string, { output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const cluster = await findCluster(client, name);
        const { baseDomain } = await authInfo(client);
        const hosts = clusterHosts(cluster, baseDomain);
        const rows = clusterDetails(cluster, hosts, kit.io.clock.now());
        kit.print(
          kit.renderValue({ ...withoutManagers(cluster), hosts }, output) ??
            renderColumns(rows.map((row) => row.map((cell) => printable(cell)))),
        );
      }),
    );
}

function removeCommand(kit: CommandKit): Command {
  return new Command('remove')
    .description('stop reviewing the tokens of a cluster, and forget it')
    .argument('<name>', 'the name of the cluster')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command changes nothing in the cluster itself. To delete there what hansa cluster add and hansa cluster
services created for this site:
  kubectl delete clusterrolebinding -l hansa.dev/trust-domain=TRUST-DOMAIN
  kubectl delete serviceaccount,role,rolebinding,configmap,service,endpointslice -n kube-fed \\
    -l app.kubernetes.io/managed-by=hansa

Examples:
  hansa cluster remove app1`,
    )
    .action((name: string, { output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        await findCluster(client, name);
        const cluster = { kind: clusterKind, name };
        for (const line of await kit.deletionNotes(client, [cluster])) kit.note(line);
        await kit.confirm(command, `Remove ${name}? ${removalEffect([name])}`);
        await client.delete(clusterKind, name);
        kit.print(kit.renderValue({ name, removed: true }, output) ?? `${printable(name)} removed`);
      }),
    );
}

/** Without managedFields, which are long and rarely needed. */
function withoutManagers(cluster: Cluster): Cluster {
  const { managedFields: _managedFields, ...metadata } = cluster.metadata;
  return { ...cluster, metadata };
}
