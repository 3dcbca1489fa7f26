// `hansa svid fetch`: calls the Workload API once and prints the X.509-SVIDs of this process, or its
// JWT-SVIDs for an audience.

import { Command, Option } from 'commander';
import { timestamp } from '../../api/object.ts';
import { certificatePem, privateKeyPem } from '../../core/identity/x509/pem.ts';
import type { ReceivedJwtSvid, ReceivedState } from '../client/workload-client.ts';
import { stayAlive } from '../../core/command/stay-alive.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { socketOf } from './workload-socket.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

interface FetchOptions {
  readonly socket?: string;
  readonly audience?: readonly string[];
  readonly spiffeId?: string;
  readonly output: OutputFormat;
}

export function svidFetchCommand(kit: CommandKit): Command {
  return new Command('fetch')
    .description('print the SVIDs of this process once')
    .addOption(
      new Option('--audience <name>', 'print JWT-SVIDs for this audience (repeatable)').argParser(
        (name: string, before: readonly string[] | undefined) => [...(before ?? []), name],
      ),
    )
    .option('--spiffe-id <id>', 'with --audience: only the JWT-SVID with this SPIFFE ID')
    .option(
      '--socket <path>',
      'the workload socket (default: SPIFFE_ENDPOINT_SOCKET, or the one in --data-dir)',
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Without --audience, the command prints certificates, key and trust bundle as PEM. With --audience, it
prints one token per line. There are several if several entries match this process. To keep files
current, use hansa svid watch --write.

Examples:
  hansa svid fetch --audience db
  curl -H "Authorization: Bearer $(hansa svid fetch --audience db)" https://db.example/
  hansa svid fetch -o json`,
    )
    .action(async (options: FetchOptions, command: Command) => {
      const { audience, spiffeId = '', output } = options;
      if (audience === undefined && spiffeId !== '') {
        throw usageError('--spiffe-id selects a JWT-SVID: add --audience.');
      }
      const socket = socketOf(kit, command, options.socket);
      const signal = kit.io.interruption();
      // Imported here, so that other commands do not load gRPC.
      const client = await import('../client/workload-client.ts');
      const asking = { socket, signal, clock: kit.io.clock };
      if (audience !== undefined) {
        const request = { audience, spiffeId };
        showTokens(kit, await stayAlive(() => client.fetchJwtSvids(asking, request)), output);
        return;
      }
      const state = await stayAlive(() => client.fetchSvids(asking));
      if (state !== undefined) showCertificates(kit, state, output);
    });
}

function showTokens(
  kit: CommandKit,
  svids: readonly ReceivedJwtSvid[],
  output: OutputFormat,
): void {
  const shown = svids.map(({ id, token, hint }) => ({ spiffeId: id.toString(), hint, token }));
  const rendered = kit.renderValue({ svids: shown }, output);
  if (rendered === undefined) for (const { token } of svids) kit.print(printable(token));
  else kit.print(rendered);
}

function showCertificates(
  kit: CommandKit,
  { svids, federated }: ReceivedState,
  output: OutputFormat,
): void {
  const pem = (certificates: ReceivedState['svids'][number]['chain']): string =>
    certificates.map(({ der }) => certificatePem(der)).join('');
  const shown = svids.map(({ id, hint, chain, key, authorities }) => ({
    spiffeId: id.toString(),
    hint,
    notAfter: timestamp(chain[0]?.notAfterMs ?? 0),
    certificate: pem(chain),
    privateKey: privateKeyPem(key),
    bundle: pem(authorities),
  }));
  const bundles = Object.fromEntries(
    [...federated].map(([id, found]) => [id.slice('spiffe://'.length), pem(found)]),
  );
  const rendered = kit.renderValue({ svids: shown, federatedBundles: bundles }, output);
  if (rendered !== undefined) {
    kit.print(rendered);
    return;
  }
  for (const { certificate, privateKey, bundle } of shown) {
    kit.print(`${certificate}${privateKey}${bundle}`.trimEnd());
  }
}
