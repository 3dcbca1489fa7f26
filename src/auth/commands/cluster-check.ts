// `hansa cluster check`: examines clusters as `hansa doctor --cluster` does, with one line for each.

import { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { Finding } from '../../core/plane/doctor.ts';
import { findCluster } from '../client/clusters.ts';
import { examineOrSay } from '../doctor/cluster.ts';

interface Checked {
  readonly name: string;
  readonly findings: readonly Finding[];
}

export function checkCommand(kit: CommandKit): Command {
  return new Command('check')
    .description('check whether the site can review the tokens of clusters now')
    .argument('[name...]', 'names of clusters (default: all)')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The site calls the API server of each cluster with its own credential, and reviews its own token. To see
every step: hansa doctor --cluster NAME. The exit code is 10 (HANSA_UNHEALTHY) if there is a problem.

Examples:
  hansa cluster check
  hansa cluster check app1 -o json`,
    )
    .action(
      (given: readonly string[], { output }: { readonly output: OutputFormat }, command: Command) =>
        kit.withClient(command, async (client) => {
          for (const name of given) await findCluster(client, name);
          const names =
            given.length > 0
              ? [...new Set(given)]
              : ((await client.list(clusterKind)).items as unknown as readonly Cluster[]).map(
                  ({ metadata }) => metadata.name,
                );
          const checked: Checked[] = [];
          // One after the other: a site examines few clusters at a time.
          for (const name of names) {
            checked.push({ name, findings: await examineOrSay(client, name) });
          }
          const rendered = kit.renderValue({ clusters: checked }, output);
          if (rendered !== undefined) kit.print(rendered);
          else if (checked.length === 0) kit.note('There are no clusters.');
          else {
            const rows = checked.map((each) => rowOf(each).map((cell) => printable(cell)));
            kit.print(renderColumns(rows));
          }
          const bad = checked.filter(({ findings }) => worstOf(findings)?.level === 'problem');
          if (bad.length === 0) return;
          const first = bad[0]?.name ?? '';
          throw new HansaError(
            'HANSA_UNHEALTHY',
            `${bad.length} of ${checked.length} ${checked.length === 1 ? 'cluster has' : 'clusters have'} a problem. For every step, and what to do: hansa doctor --cluster ${first}`,
          );
        }),
    );
}

const marks = { ok: '✓', warning: '!', problem: '✗' } as const;

/** The first problem, otherwise the first warning. */
function worstOf(findings: readonly Finding[]): Finding | undefined {
  return (
    findings.find(({ level }) => level === 'problem') ??
    findings.find(({ level }) => level === 'warning')
  );
}

function rowOf({ name, findings }: Checked): readonly string[] {
  const worst = worstOf(findings);
  if (worst === undefined) {
    return [marks.ok, name, findings.findLast(({ level }) => level === 'ok')?.text ?? ''];
  }
  return [marks[worst.level], name, `${worst.check}: ${worst.text}`];
}
