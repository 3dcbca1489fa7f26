// hansa credential: what kubectl calls for a certificate (client-go credential plugins,
// client.authentication.k8s.io). A kubeconfig names this command, and holds no secret itself.

import { Command } from 'commander';
import { type Cli, globalOptions } from '../cli.ts';
import { resolveConnection } from '../site/connection.ts';
import { obtainCredential, renewAtMs } from '../site/user-certificate.ts';

const apiGroup = 'client.authentication.k8s.io';
const versions = [`${apiGroup}/v1`, `${apiGroup}/v1beta1`];

export function credentialCommand(cli: Cli): Command {
  return new Command('credential')
    .description('print a certificate for kubectl (exec credential plugin)')
    .option('--user <name>', 'the user to be, over the admin socket (admin)')
    .addHelpText(
      'after',
      `
kubectl runs this by itself, with a kubeconfig from hansa kubeconfig. It prints an ExecCredential
with a user certificate, one that was obtained before as long as that is good for a while.`,
    )
    .action(async (options: { readonly user?: string }, command: Command) => {
      const connection = resolveConnection(globalOptions(command), cli.io);
      const { credential } = await obtainCredential(cli, connection, {
        user: options.user,
        fresh: false,
      });
      const { certificate, privateKey } = credential;
      cli.print(
        JSON.stringify({
          apiVersion: askedVersion(cli.io.env['KUBERNETES_EXEC_INFO']),
          kind: 'ExecCredential',
          status: {
            // kubectl asks again from this moment on, which is before the site would refuse.
            expirationTimestamp: new Date(renewAtMs(credential)).toISOString(),
            clientCertificateData: certificate,
            clientKeyData: privateKey,
          },
        }),
      );
    });
}

/** A client only takes the version that it asked for. */
export function askedVersion(info: string | undefined): string {
  try {
    const { apiVersion } = JSON.parse(info ?? '') as { readonly apiVersion?: unknown };
    return versions.find((known) => known === apiVersion) ?? `${apiGroup}/v1`;
  } catch {
    return `${apiGroup}/v1`;
  }
}
