// `hansa spire-sidecar`: runs beside a SPIRE server in its Pod.

import { Command, Option } from 'commander';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import { moduleAddress } from '../../core/plane/module-address.ts';
import type { SidecarInput } from '../spire-sidecar/continue-sidecar.ts';

export function spireSidecarCommand(kit: CommandKit): Command {
  return new Command('spire-sidecar')
    .description('keep the relationships of a SPIRE server, beside it in its Pod')
    .requiredOption('--socket <path>', 'the admin socket of the SPIRE server')
    .addOption(
      new Option('--log-level <level>', 'the least level of log lines')
        .choices(['debug', 'info', 'warn', 'error'])
        .default('info'),
    )
    .addHelpText(
      'after',
      `
The SPIRE operator runs this command in the StatefulSet of a SPIRE server. It takes the relationships of the
server from a ConfigMap that the operator writes, and reports their state in another one. It uses the API of
SPIRE on the admin socket, and the ServiceAccount of the Pod. It changes only relationships that it created or
was told to adopt.

Examples:
  hansa spire-sidecar --socket /run/spire/private/api.sock`,
    )
    .action(async ({ socket, logLevel }: SidecarInput) => {
      const input: SidecarInput = { socket, logLevel };
      const module = '../spire-sidecar/continue-sidecar.ts';
      await kit.continueIn(moduleAddress(import.meta.resolve(module)), input);
    });
}
