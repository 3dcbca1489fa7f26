// `hansa policy`: lists and shows the federated policies of the cluster set.

import { Command, Option } from 'commander';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { type LeagueInfo, leagueInfo } from '../client/league-info.ts';
import { federatedPolicies, federatedPolicy } from '../client/policy-info.ts';
import { policyAnnotation } from '../names.ts';
import type { FederatedPolicyView } from '../policies/view/shown-policy.ts';
import {
  fullNameOf,
  policyDetails,
  policyHealthOf,
  policyRows,
  warningsOf,
} from './policy-details.ts';

interface Output {
  readonly output: OutputFormat;
}

export function policyCommand(kit: CommandKit): Command {
  return new Command('policy')
    .description('show policies that every cluster of the set has')
    .addHelpText(
      'after',
      `
A policy with the annotation in one cluster of the set is in all of them. It is changed and deleted in any of them:
  kubectl annotate networkpolicy web -n shop ${policyAnnotation}=true

Examples:
  hansa policy list
  hansa policy show shop/web`,
    )
    .addCommand(listCommand(kit))
    .addCommand(showCommand(kit));
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list federated policies, with the cluster of the last edit and their state')
    .addOption(kit.outputOption(['json', 'yaml', 'wide', 'name']))
    .addOption(new Option('--all', 'list policies too that were deleted and are still remembered'))
    .addHelpText(
      'after',
      '\nExamples:\n  hansa policy list\n  hansa policy list -o wide\n  hansa policy list --all',
    )
    .action(({ output, all = false }: Output & { readonly all?: boolean }, command: Command) =>
      kit.withClient(command, async (client) => {
        const found = await federatedPolicies(client);
        const policies = all ? found : found.filter((policy) => !isOver(policy));
        const rendered = kit.renderValue({ policies: policies.map(withHealth) }, output);
        if (rendered !== undefined) kit.print(rendered);
        else if (output.format === 'name') {
          for (const policy of policies) kit.print(printable(fullNameOf(policy)));
        } else if (policies.length === 0) {
          kit.note(whyNone(await leagueInfo(client)));
        } else {
          const rows = policyRows(policies, output.format === 'wide');
          kit.print(renderColumns(rows.map((row) => row.map((cell) => printable(cell)))));
        }
      }),
    );
}

/** Deleted, or no longer federated, in all clusters. */
const isOver = (policy: FederatedPolicyView): boolean =>
  ['Deleted', 'Ended'].includes(policyHealthOf(policy).health);

function showCommand(kit: CommandKit): Command {
  return new Command('show')
    .description('show a federated policy: its last edit, each cluster, conflicts and warnings')
    .argument('<name>', 'its name: [RESOURCE.GROUP/]NAMESPACE/NAME, or without a namespace')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Examples:
  hansa policy show shop/web
  hansa policy show networkpolicies.crd.antrea.io/shop/web -o json
  hansa policy show deny-all`,
    )
    .action((name: string, { output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const policy = await find(client, name);
        const league = await leagueInfo(client);
        kit.print(
          kit.renderValue(withHealth(policy), output) ??
            policyDetails(policy, league)
              .map((rows) => renderColumns(rows.map((row) => row.map((cell) => printable(cell)))))
              .join('\n\n'),
        );
      }),
    );
}

const withHealth = (policy: FederatedPolicyView) => ({
  ...policy,
  health: policyHealthOf(policy).health,
  warnings: warningsOf(policy),
});

/** A part with a dot before a slash is RESOURCE.GROUP: a namespace has no dot. */
const named = /^(?:([^/.]+\.[^/]+)\/)?(?:([^/.]+)\/)?([^/]+)$/;

async function find(client: SiteClient, text: string): Promise<FederatedPolicyView> {
  const [, kind, namespace = '', name] = named.exec(text) ?? [];
  if (name === undefined) {
    throw usageError(
      printable(
        `${JSON.stringify(text)} is not a name. Write NAMESPACE/NAME, or RESOURCE.GROUP/NAMESPACE/NAME.`,
      ),
    );
  }
  if (kind !== undefined) {
    return orExplained(text, () => federatedPolicy(client, `${kind}/${namespace}/${name}`));
  }
  const found = await federatedPolicies(client, namespace === '' ? name : `${namespace}/${name}`);
  const [first, ...others] = found;
  if (first === undefined) throw notFound(text);
  if (others.length === 0) return first;
  throw usageError(
    printable(`Several policies have this name. Choose one: ${found.map(fullNameOf).join(', ')}`),
  );
}

async function orExplained<T>(text: string, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    throw hasCode(error, 'HANSA_NOT_FOUND') ? notFound(text, error) : error;
  }
}

const notFound = (text: string, cause?: unknown): HansaError =>
  new HansaError(
    'HANSA_NOT_FOUND',
    printable(
      `There is no federated policy ${text}. A policy becomes one by an annotation. To list the federated policies: hansa policy list`,
    ),
    { cause },
  );

function whyNone({ supervisor, problem, home }: LeagueInfo): string {
  if (supervisor) {
    return `There are no federated policies. Annotate a policy: kubectl annotate networkpolicy NAME ${policyAnnotation}=true`;
  }
  const why = problem ?? (home === undefined ? 'It has no local cluster.' : '');
  return printable(
    `This site leads no cluster set. ${why} To form one: hansa cluster join NAME --kubeconfig FILE --supervisor`,
  );
}
