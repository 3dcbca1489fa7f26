// hansa trust: bundles, that of this site and those that it believes.

import { Command, Option } from 'commander';
import { type SPIFFEFederation, spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { timestamp } from '../api/object.ts';
import { TrustDomain } from '../api/trust-domain.ts';
import { HansaError } from '../core/errors/error.ts';
import { parseSpiffeBundle, type SpiffeBundle } from '../core/identity/spiffe-bundle.ts';
import { heldDocument } from '../core/identity/store-bundles.ts';
import type { OwnBundle } from '../trust/bundle-endpoint.ts';
import { fingerprintOf, keyDigests } from '../core/identity/fingerprint.ts';
import type { Cli } from './cli.ts';
import { outputOption, renderValue } from './output.ts';
import { bootstrapCommand, verifyCommand } from './trust-bundle.ts';
import { refreshCommand } from './trust-refresh.ts';
import { rotateCommand } from './trust-rotate.ts';
import { federationRow, ownRow, todoLines, trustTable } from './trust-rows.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import type { OutputFormat } from '../core/plane/command-kit.ts';
import { printable, renderColumns } from '../core/command/columns.ts';

const bundlePath = '/hansa/v1/trust/bundle';

export function trustCommand(cli: Cli): Command {
  return new Command('trust')
    .description('bundles and authorities: what identities are verified against')
    .addHelpText('after', '\nExamples:\n  hansa trust status\n  hansa trust rotate status')
    .addCommand(
      new Command('bundle')
        .description('the bundle of this site, or of a trust domain that it believes')
        .addHelpText(
          'after',
          '\nExamples:\n  hansa trust bundle show > lubeck.json\n  hansa trust bundle fingerprint',
        )
        .addCommand(showCommand(cli))
        .addCommand(fingerprintCommand(cli))
        .addCommand(verifyCommand(cli))
        .addCommand(bootstrapCommand(cli)),
    )
    .addCommand(refreshCommand(cli))
    .addCommand(rotateCommand(cli))
    .addCommand(statusCommand(cli));
}

function showCommand(cli: Cli): Command {
  return new Command('show')
    .description('print a bundle')
    .argument('[trust-domain]', 'one that this site believes; this site itself without it')
    .addOption(
      new Option('--format <format>', 'spiffe: a JWK Set for other sites and SPIRE; pem')
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
      cli.withClient(command, async (client) => {
        const { document, read } = await bundleOf(client, name);
        cli.print(options.format === 'pem' ? read.bundle.pem.trimEnd() : printable(document));
      }),
    );
}

function fingerprintCommand(cli: Cli): Command {
  return new Command('fingerprint')
    .description('print one line that stands for all authorities of a bundle, to compare by voice')
    .argument('[trust-domain]', 'one that this site believes; this site itself without it')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
It is the fingerprint that \`hansa peer accept\` shows of the site that invites, and that
\`hansa peer invite --for NAME@FINGERPRINT\` takes of the site that is invited.

Examples:
  hansa trust bundle fingerprint
  hansa trust bundle fingerprint bruges.example`,
    )
    .action(
      (name: string | undefined, options: { readonly output: OutputFormat }, command: Command) =>
        cli.withClient(command, async (client) => {
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
          cli.print(renderValue(told, options.output) ?? told.fingerprint);
        }),
    );
}

function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('tell which trust domains this site believes, and how fresh their bundles are')
    .addOption(outputOption(['wide', 'json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa trust status\n  hansa trust status -o wide')
    .action((options: { readonly output: OutputFormat }, command: Command) =>
      cli.withClient(command, async (client) => {
        const [own, { items }] = await Promise.all([
          bundleOf(client, undefined),
          client.list(spiffeFederationKind),
        ]);
        const federations = items as readonly SPIFFEFederation[];
        const nowMs = cli.io.clock.now();
        const rows = [
          ownRow(own.read, nowMs),
          ...federations.map((each) => federationRow(each, nowMs)),
        ];
        const rendered = renderValue({ trustDomains: rows }, options.output);
        if (rendered !== undefined) {
          cli.print(rendered);
          return;
        }
        const table = trustTable(rows, options.output.format === 'wide');
        cli.print(renderColumns(table.map((row) => row.map((cell) => printable(cell)))));
        for (const line of todoLines(rows)) cli.note(printable(line));
      }),
    );
}

/** The line that stands for all authorities of this site. */
export async function ownFingerprint(client: SiteClient): Promise<string> {
  return fingerprintOf(keyDigests((await bundleOf(client, undefined)).read.bundle));
}

/** Read again here: what is printed as a bundle is one. */
async function bundleOf(
  client: SiteClient,
  name: string | undefined,
): Promise<{ readonly document: string; readonly read: SpiffeBundle }> {
  if (name === undefined) {
    const own = (await client.request({ path: bundlePath })).body as OwnBundle;
    const read = parseSpiffeBundle(own.bundle, TrustDomain.parse(own.trustDomain));
    return { document: own.bundle, read };
  }
  const trustDomain = TrustDomain.parse(name);
  const federation = (await client.get(spiffeFederationKind, name)) as SPIFFEFederation;
  const document = heldDocument(federation);
  if (document === undefined) {
    throw new HansaError('HANSA_NOT_FOUND', `This site holds no bundle of ${name} yet.`);
  }
  return { document, read: parseSpiffeBundle(document, trustDomain) };
}
