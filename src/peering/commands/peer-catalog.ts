// `hansa peer catalog`: shows what a peer offers to this site.

import { Command } from 'commander';
import { printable, renderColumns } from '../../core/command/columns.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { findPeer } from '../client/peers.ts';
import { peeringPaths } from '../paths.ts';
import type { PeerCatalog } from '../routes/peer-catalog-route.ts';

export function catalogCommand(kit: CommandKit): Command {
  return new Command('catalog')
    .description('ask a peer what it offers to this site')
    .argument('<name>', 'the trust domain of the peer')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The peer lists the offers and clusters that its grants let this site and its workloads use. If no
grant has the scope read, the peer denies the question. That still shows that it is reachable.

Examples:
  hansa peer catalog lubeck.example`,
    )
    .action((name: string, { output }: { readonly output: OutputFormat }, command: Command) =>
      kit.withClient(command, async (client) => {
        await findPeer(client, name);
        const { body } = await client.request({ path: pathTo(peeringPaths.catalog, { name }) });
        const catalog = body as PeerCatalog;
        const rendered = kit.renderValue(catalog, output);
        if (rendered !== undefined) {
          kit.print(rendered);
          return;
        }
        const rows = rowsOf(catalog);
        if (rows.length > 0) {
          const headings = ['TYPE', 'NAME', 'SCOPES', 'SERVED BY', 'PROTOCOL', 'DESCRIPTION'];
          kit.print(
            renderColumns([headings, ...rows.map((row) => row.map((cell) => printable(cell)))]),
          );
        }
        for (const line of notesOf(catalog)) kit.note(printable(line));
      }),
    );
}

export function rowsOf(catalog: PeerCatalog): readonly (readonly string[])[] {
  if (catalog.denied) return [];
  return [
    ...catalog.offers.map(({ name, scopes, spiffeID, protocol, port, description }) => [
      'offer',
      name,
      scopes.join(','),
      spiffeID,
      [protocol, port].filter((part) => part !== undefined).join('/'),
      description ?? '',
    ]),
    ...catalog.clusters.map(({ name, scopes, issuer, spireTrustDomain }) => [
      'cluster',
      name,
      scopes.join(','),
      '',
      '',
      [
        ...(issuer === undefined ? [] : [`issuer ${issuer}`]),
        ...(spireTrustDomain === undefined ? [] : [`SPIRE server of ${spireTrustDomain}`]),
      ].join(', '),
    ]),
  ];
}

export function notesOf(catalog: PeerCatalog): readonly string[] {
  const { name } = catalog;
  if (catalog.denied) {
    return [
      `${name} is reachable and denied the question: no grant there gives this site or its workloads the scope read. Ask its operator for a grant.`,
    ];
  }
  return [
    ...(rowsOf(catalog).length === 0 ? [`${name} offers nothing that this site may use.`] : []),
    ...(catalog.leftOut > 0 ? [`The catalog leaves out ${catalog.leftOut} more entries.`] : []),
  ];
}
