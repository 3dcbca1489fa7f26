// `hansa credential`: the credential plugin that kubectl runs to get a certificate
// (client.authentication.k8s.io). A kubeconfig names this command and holds no secret.

import { Command } from 'commander';
import { type Cli, globalOptions } from '../cli.ts';
import { resolveConnection } from '../site/connection.ts';
import { obtainCredential, renewAtMs } from '../site/user-certificate.ts';

const apiGroup = 'client.authentication.k8s.io';
const versions = [`${apiGroup}/v1`, `${apiGroup}/v1beta1`];

export function credentialCommand(cli: Cli): Command {
  return new Command('credential')
    .description('print a certificate for kubectl (exec credential plugin)')
    .option('--user <name>', 'over the admin socket: the user name (default admin)')
    .addHelpText(
      'after',
      `
kubectl runs this command when it uses a kubeconfig from hansa kubeconfig. The command prints an
ExecCredential with a user certificate. It reuses a cached certificate until shortly before it expires.`,
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
            // kubectl asks again from this time on, before the certificate expires.
            expirationTimestamp: new Date(renewAtMs(credential)).toISOString(),
            clientCertificateData: certificate,
            clientKeyData: privateKey,
          },
        }),
      );
    });
}

/** A client accepts only the version that it asked for. */
export function askedVersion(info: string | undefined): string {
  try {
    const { apiVersion } = JSON.parse(info ?? '') as { readonly apiVersion?: unknown };
    return versions.find((known) => known === apiVersion) ?? `${apiGroup}/v1`;
  } catch {
    return `${apiGroup}/v1`;
  }
}
