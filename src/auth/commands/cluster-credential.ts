// `hansa cluster credential`: stores and deletes the credential that the site uses at the API server of a
// cluster.

import { Command } from 'commander';
import { printable } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { findCluster } from '../client/clusters.ts';
import {
  deleteCredential,
  type NewCredential,
  type SetCredential,
  setCredential,
} from '../../core/kube/registration/set-credential.ts';
import { readToken } from './read-secret.ts';

interface SetOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly output: OutputFormat;
}

export function credentialCommand(kit: CommandKit): Command {
  return new Command('credential')
    .description('set or delete the stored credential of a cluster')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa cluster credential set app1 < token\n  hansa cluster credential delete app1',
    )
    .addCommand(setCommand(kit))
    .addCommand(deleteCommand(kit));
}

function setCommand(kit: CommandKit): Command {
  return new Command('set')
    .description('store the credential that the site uses at the API server of a cluster')
    .argument('<name>', 'the name of the cluster')
    .argument('[file]', 'a file with a token; - or nothing for standard input')
    .option(
      '--kubeconfig <file>',
      'store the token or client certificate of this kubeconfig instead',
    )
    .option('--context <name>', 'its context (default: the current one)')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The site seals the credential and uses it only for the API server and CA that the Cluster has now. It
renews a ServiceAccount token by TokenRequest. No command shows it again.

Examples:
  hansa cluster credential set app1 < token
  hansa cluster credential set app1 --kubeconfig ~/.kube/app1`,
    )
    .action(
      async (name: string, file: string | undefined, options: SetOptions, command: Command) => {
        const credential = await credentialFor(kit, file, options);
        await kit.withClient(command, async (client) => {
          await findCluster(client, name);
          const set = await setCredential(client, name, credential);
          kit.print(kit.renderValue(set, options.output) ?? printable(lineOf(set)));
        });
      },
    );
}

async function credentialFor(
  kit: CommandKit,
  file: string | undefined,
  { kubeconfig, context }: SetOptions,
): Promise<NewCredential> {
  if (kubeconfig === undefined) {
    if (context !== undefined) throw usageError('--context needs --kubeconfig.');
    return { token: await readToken(kit.io, file) };
  }
  if (file !== undefined) throw usageError('Give either a token or --kubeconfig, not both.');
  // Imported here, so that other commands do not load the Kubernetes client.
  const { loadKubeconfig } = await import('../../core/kube/load-kubeconfig.ts');
  const loaded = loadKubeconfig({ file: kubeconfig, context }, kit.io);
  const { name, credential } = loaded.context;
  if (credential.type === 'exec') {
    throw usageError(
      `The context ${name} gets its credential from a program, which the site does not run. Use hansa cluster add, which creates a ServiceAccount for the site.`,
    );
  }
  const current = await loaded.credentials.current();
  if (current.type === 'none') throw usageError(`The context ${name} has no credential.`);
  const apiServer = loaded.endpoint.server.href.replace(/\/$/, '');
  return current.type === 'token'
    ? { token: current.token, apiServer }
    : { clientCertificate: current.certificate, clientKey: current.key, apiServer };
}

function lineOf({ cluster, type, subject, expiresAt }: SetCredential): string {
  const whose = subject === undefined ? '' : ` of ${subject}`;
  const until = expiresAt === undefined ? '' : `, expires ${expiresAt}`;
  return `${cluster} has a new credential: a ${type}${whose}${until}`;
}

function deleteCommand(kit: CommandKit): Command {
  return new Command('delete')
    .description('delete the stored credential of a cluster')
    .argument('<name>', 'the name of the cluster')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa cluster credential delete app1')
    .action((name: string, { output }: { readonly output: OutputFormat }, command: Command) =>
      kit.withClient(command, async (client) => {
        await findCluster(client, name);
        await kit.confirm(
          command,
          `Delete the stored credential of ${name}? Unless the Cluster names another source, reviews in the modes tokenreview and hybrid then answer 503.`,
        );
        await deleteCredential(client, name);
        kit.print(
          kit.renderValue({ cluster: name, deleted: true }, output) ??
            `${printable(name)} has no stored credential any more`,
        );
      }),
    );
}
