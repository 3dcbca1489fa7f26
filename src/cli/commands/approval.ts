// `hansa approval`: lists requests that need approval, shows exactly what would be done, and decides them.

import { Command } from 'commander';
import { type Approval, approvalKind } from '../../api/kinds/approval.ts';
import type { Resource } from '../../api/object.ts';
import { humanDuration } from '../../api/values/duration.ts';
import { isIntact } from '../../core/approvals/decision-rules.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { findObject, objectPath, type SiteClient } from '../../core/plane/site-client.ts';
import type { Cli } from '../cli.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { approvalText, stateOf } from './approval-text.ts';

export function approvalCommand(cli: Cli): Command {
  return new Command('approval')
    .description('list and decide requests that need approval')
    .addHelpText(
      'after',
      `
The Site says which actions need approval (spec.approvals). Under the two-person rule, you need a token:
the admin socket cannot approve.

Examples:
  hansa approval list
  hansa approval show peer-confirm-3f2a9c1b7d4e
  hansa approval approve peer-confirm-3f2a9c1b7d4e --context ada`,
    )
    .addCommand(listCommand(cli))
    .addCommand(showCommand(cli))
    .addCommand(decideCommand(cli, 'approved'))
    .addCommand(decideCommand(cli, 'rejected'));
}

interface ListOptions {
  readonly all?: boolean;
  readonly output: OutputFormat;
}

function listCommand(cli: Cli): Command {
  return new Command('list')
    .description('list pending requests')
    .option('--all', 'also list decided, spent and expired ones')
    .addOption(outputOption(['json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa approval list\n  hansa approval list --all -o json')
    .action(({ all, output }: ListOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        const { items } = await client.list(approvalKind);
        const approvals = (items as readonly Approval[])
          .filter((one) => all === true || stateOf(one) === 'pending')
          .toSorted((a, b) =>
            a.metadata.creationTimestamp < b.metadata.creationTimestamp ? -1 : 1,
          );
        const rendered = renderValue({ approvals }, output);
        if (rendered !== undefined) cli.print(rendered);
        else if (output.format === 'name') {
          for (const { metadata } of approvals) cli.print(printable(metadata.name));
        } else if (approvals.length === 0) {
          cli.note(all === true ? 'There are no Approvals.' : 'No request waits for approval.');
        } else {
          const nowMs = cli.io.clock.now();
          cli.print(renderColumns([headings, ...approvals.map((one) => cells(one, nowMs))]));
        }
      }),
    );
}

const headings = ['NAME', 'STATE', 'ACTION', 'TARGET', 'REQUESTER', 'EXPIRES'];

function cells(approval: Approval, nowMs: number): readonly string[] {
  const { metadata, spec } = approval;
  const { review, action, target, requester } = spec;
  const isPending = stateOf(approval) === 'pending';
  const state = isPending && review === true ? 'to review' : stateOf(approval);
  const leftMs = Date.parse(spec.expiresAt) - nowMs;
  const expires = isPending && leftMs > 0 ? `in ${humanDuration(leftMs)}` : '';
  return [metadata.name, state, action, target.name, requester.user, expires].map((cell) =>
    printable(cell),
  );
}

function showCommand(cli: Cli): Command {
  return new Command('show')
    .description('show what a request would do, and who asked')
    .argument('<name>', 'the name of the Approval')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa approval show peer-confirm-3f2a9c1b7d4e')
    .action((name: string, { output }: Pick<ListOptions, 'output'>, command: Command) =>
      cli.withClient(command, async (client) => {
        const approval = await find(client, name);
        cli.print(renderValue(approval, output) ?? (await describe(cli, client, approval)));
      }),
    );
}

/** With what the request changes in the target, as it is now. */
async function describe(cli: Cli, client: SiteClient, approval: Approval): Promise<string> {
  const { target } = approval.spec;
  const kind = cli.registry.byKind(target.kind);
  const live =
    kind === undefined || target.uid === undefined
      ? undefined
      : await findObject<Resource>(client, kind, target.name);
  return approvalText(approval, kind && { live }, cli.io.clock.now());
}

async function find(client: SiteClient, name: string): Promise<Approval> {
  return (await client.get(approvalKind, name)) as unknown as Approval;
}

interface DecideOptions {
  readonly comment?: string;
  readonly output: OutputFormat;
}

function decideCommand(cli: Cli, decision: 'approved' | 'rejected'): Command {
  const verb = decision === 'approved' ? 'approve' : 'reject';
  return new Command(verb)
    .description(
      decision === 'approved'
        ? 'approve a request, so that the requester can repeat the action once'
        : 'reject a request',
    )
    .argument('<name>', 'the name of the Approval')
    .option('--comment <text>', 'why, for the requester and the audit log')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', `\nExamples:\n  hansa approval ${verb} peer-confirm-3f2a9c1b7d4e --yes`)
    .action((name: string, { comment, output }: DecideOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        const approval = await find(client, name);
        const { spec, metadata } = approval;
        if (decision === 'approved' && !isIntact(spec)) {
          throw new HansaError(
            'HANSA_AUDIT_INVALID',
            `Cannot approve ${name}: its hash does not match its content. Something other than the site changed it. Ask ${printable(spec.requester.user)} to repeat the action, which requests another Approval.`,
          );
        }
        cli.note(await describe(cli, client, approval));
        await cli.confirm(command, `${decision === 'approved' ? 'Approve' : 'Reject'} ${name}?`);
        const { body } = await client.request({
          method: 'PATCH',
          path: objectPath(approvalKind, name),
          contentType: 'application/merge-patch+json',
          // The version that the approver has just read.
          body: {
            metadata: { resourceVersion: metadata.resourceVersion },
            spec: { decision, ...(comment === undefined ? {} : { comment }) },
          },
        });
        const then =
          decision === 'approved' && spec.review !== true
            ? ` ${spec.requester.user} can now repeat the action, once, until ${spec.expiresAt}.`
            : '';
        cli.print(renderValue(body, output) ?? printable(`${name} is ${decision}.${then}`));
      }),
    );
}
