// `hansa trust`: the bundle and authorities of this site, and the bundles of other trust domains.

import { Command, Option } from 'commander';
import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../api/object.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { bundleOf } from '../client/site-bundle.ts';
import { bootstrapCommand, verifyCommand } from './trust-bundle.ts';
import { refreshCommand } from './trust-refresh.ts';
import { rotateCommand } from './trust-rotate.ts';
import { federationRow, ownRow, todoLines, trustTable } from '../trust-rows.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';

export function trustCommand(kit: CommandKit): Command {
  return new Command('trust')
    .description('manage trust bundles and the authorities of this site')
    .addHelpText('after', '\nExamples:\n  hansa trust status\n  hansa trust rotate status')
    .addCommand(
      new Command('bundle')
        .description('show, check and replace trust bundles')
        .addHelpText(
          'after',
          '\nExamples:\n  hansa trust bundle show > lubeck.json\n  hansa trust bundle fingerprint',
        )
        .addCommand(showCommand(kit))
        .addCommand(fingerprintCommand(kit))
        .addCommand(verifyCommand(kit))
        .addCommand(bootstrapCommand(kit)),
    )
    .addCommand(refreshCommand(kit))
    .addCommand(rotateCommand(kit))
    .addCommand(statusCommand(kit));
}

function showCommand(kit: CommandKit): Command {
  return new Command('show')
    .description('print a bundle')
    .argument('[trust-domain]', 'a trust domain that this site federates with (default: this site)')
    .addOption(
      new Option('--format <format>', 'spiffe (a JWK Set, for other sites and SPIRE) or pem')
        .choices(['spiffe', 'pem'])
        .default('spiffe'),
    )
    .addHelpText(
      'after',
      `
Examples:
  hansa trust bundle show > lubeck.json
  hansa trust bundle show --format pem > lubeck.pem
  hansa trust bundle show bruges.example`,
    )
    .action((name: string | undefined, options: { readonly format: string }, command: Command) =>
      kit.withClient(command, async (client) => {
        const { document, read } = await bundleOf(client, name);
        kit.print(options.format === 'pem' ? read.bundle.pem.trimEnd() : printable(document));
      }),
    );
}

function fingerprintCommand(kit: CommandKit): Command {
  return new Command('fingerprint')
    .description('print the fingerprint of a bundle, to compare it by phone')
    .argument('[trust-domain]', 'a trust domain that this site federates with (default: this site)')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The fingerprint covers all X.509 authorities of the bundle. \`hansa peer accept\` shows the one of the
inviting site. \`hansa peer invite --for NAME@FINGERPRINT\` takes the one of the invited site.

Examples:
  hansa trust bundle fingerprint
  hansa trust bundle fingerprint bruges.example`,
    )
    .action(
      (name: string | undefined, options: { readonly output: OutputFormat }, command: Command) =>
        kit.withClient(command, async (client) => {
          const { bundle, sequence } = (await bundleOf(client, name)).read;
          const told = {
            trustDomain: bundle.trustDomain.name,
            fingerprint: fingerprintOf(keyDigests(bundle)),
            sequence,
            authorities: bundle.authorities.map((authority, index) => ({
              certificateSha256: authority.fingerprint,
              publicKeySha256: keyDigests(bundle)[index]?.toString('hex'),
              notAfter: timestamp(authority.notAfterMs),
            })),
          };
          kit.print(kit.renderValue(told, options.output) ?? told.fingerprint);
        }),
    );
}

function statusCommand(kit: CommandKit): Command {
  return new Command('status')
    .description('list the trust domains that this site trusts, and the state of their bundles')
    .addOption(kit.outputOption(['wide', 'json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa trust status\n  hansa trust status -o wide')
    .action((options: { readonly output: OutputFormat }, command: Command) =>
      kit.withClient(command, async (client) => {
        const [own, { items }] = await Promise.all([
          bundleOf(client, undefined),
          client.list(spiffeFederationKind),
        ]);
        const federations = items as readonly SPIFFEFederation[];
        const nowMs = kit.io.clock.now();
        const rows = [
          ownRow(own.read, nowMs),
          ...federations.map((each) => federationRow(each, nowMs)),
        ];
        const rendered = kit.renderValue({ trustDomains: rows }, options.output);
        if (rendered !== undefined) {
          kit.print(rendered);
          return;
        }
        const table = trustTable(rows, options.output.format === 'wide');
        kit.print(renderColumns(table.map((row) => row.map((cell) => printable(cell)))));
        for (const line of todoLines(rows)) kit.note(printable(line));
      }),
    );
}
