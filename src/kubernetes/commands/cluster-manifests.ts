// `hansa cluster manifests`: prints what `hansa cluster join` creates in a cluster, for GitOps.

import { Command } from 'commander';
import { isLabel } from '../../api/metadata/names.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { manifestText } from '../../core/kube/manifests/describe-manifests.ts';
import { siteUser } from '../../core/kube/manifests/manifest.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { leagueInfo } from '../client/league-info.ts';
import { trustDomainOf } from '../client/trust-domain.ts';
import { leagueManifests } from '../manifests/league-manifests.ts';
import {
  claimManifests,
  federationManifest,
  memberEntry,
} from '../manifests/membership-manifests.ts';
import { defaultClusterSet } from './plan-join.ts';
import { prefixOption } from './prefix-option.ts';

interface ManifestsOptions {
  readonly supervisor?: boolean;
  readonly clusterSet?: string;
  readonly member?: readonly string[];
  readonly secret?: readonly string[];
  readonly endpointPrefix?: readonly string[];
  readonly routable?: boolean;
  readonly namespace?: string;
  readonly user?: string | true;
  readonly policies: boolean;
  readonly output: OutputFormat;
}

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
    .option('--namespace <name>', 'the namespace of Hansa (default: kubernetes.namespace)')
    .option(
      '--user [name]',
      'the site authenticates as this user, not as a ServiceAccount (default: its JWT-SVID)',
    )
    .option('--no-policies', 'leave out admission policies, for Kubernetes below 1.30')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Prints CRDs, the namespace, the ServiceAccount and RBAC of this site, admission policies, the claims of the
cluster and its Federation. kubectl apply creates them; run it twice, because claims need the CRDs.
Federation of the supervisor cluster lists the members; add their endpointPrefixes there. The site needs a
credential of each member: register it (hansa cluster add), or name a Secret in Federation.

Examples:
  hansa cluster manifests app2 | kubectl apply --server-side -f -
  hansa cluster manifests app1 --supervisor --member app2 app3 > app1.yaml`,
    )
    .action((id: string, options: ManifestsOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const info = await leagueInfo(client);
        const trustDomain = await trustDomainOf(client);
        const clusterSet = options.clusterSet ?? info.clusterSet ?? defaultClusterSet;
        for (const name of [id, clusterSet, ...(options.member ?? [])]) {
          if (!isLabel(name)) throw usageError(`${JSON.stringify(name)} is not a DNS label.`);
        }
        const { user, supervisor: isSupervisor = false } = options;
        if (!isSupervisor && (options.member !== undefined || options.secret !== undefined)) {
          throw usageError('Only Federation of a supervisor lists members. Add --supervisor.');
        }
        const { endpointPrefix: endpointPrefixes, routable } = options;
        const members = isSupervisor
          ? [
              memberEntry(id, undefined, { endpointPrefixes, routable }),
              ...(options.member ?? []).map((clusterID) => memberEntry(clusterID, undefined, {})),
            ]
          : [];
        const manifests = [
          ...leagueManifests({
            trustDomain,
            namespace: options.namespace ?? info.namespace,
            subject:
              user === undefined
                ? { kind: 'ServiceAccount' }
                : { kind: 'User', name: user === true ? siteUser(trustDomain) : user },
            policies: options.policies,
            ...(isSupervisor && { home: { secrets: options.secret ?? [] } }),
          }),
          ...claimManifests({ id, clusterSet, isSupervisor }),
          federationManifest(clusterSet, members),
        ];
        kit.print(manifestText(kit, manifests, options.output));
      }),
    );
}
