// hansa kubeconfig: a file for kubectl and everything that reads one. It holds no secret: kubectl
// calls this program for a short-lived certificate (client-go credential plugins), and the CA is
// named by the path of a file that the site keeps fresh.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { stringify } from 'yaml';
import { type Cli, type GlobalOptions, globalOptions } from '../cli.ts';
import { resolveConnection } from '../site/connection.ts';
import { Contexts } from '../site/contexts.ts';
import { outputOption } from '../output/output.ts';
import { localUrl, readEndpoints } from '../site/site-endpoints.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';

export function kubeconfigCommand(cli: Cli): Command {
  return new Command('kubeconfig')
    .description('print a kubeconfig for the site')
    .option('--server <url>', 'another URL of the api listener, for example behind a tunnel')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
By --data-dir, kubectl gets a short-lived certificate through this program. By --site and
--token-file, it reads the token from that file. For a context with a login, kubectl gets the
certificate of that login.

Examples:
  hansa kubeconfig --data-dir ./lubeck > kubeconfig
  kubectl --kubeconfig kubeconfig get sites
  hansa kubeconfig --site https://lubeck.example:7443 --ca-file ca.pem --token-file token`,
    )
    .action((options: { server?: string; output: OutputFormat }, command: Command) => {
      const value = kubeconfigFor(cli, globalOptions(command), options.server);
      const json = options.output.format === 'json';
      cli.print(
        json ? JSON.stringify(value, null, 2) : stringify(value, { lineWidth: 0 }).trimEnd(),
      );
    });
}

function kubeconfigFor(cli: Cli, options: GlobalOptions, server: string | undefined): unknown {
  const { io } = cli;
  if (server !== undefined && !(URL.canParse(server) && server.startsWith('https://'))) {
    throw usageError(
      `--server is ${JSON.stringify(server)}: accepted is an https URL, for example https://127.0.0.1:7443.`,
    );
  }
  const exec = (...args: readonly string[]) => ({
    exec: {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: io.launcher,
      args: ['credential', ...args],
      ...(io.env['HANSA_HOME']
        ? { env: [{ name: 'HANSA_HOME', value: io.env['HANSA_HOME'] }] }
        : {}),
      interactiveMode: 'Never',
      installHint: `The site's own program makes the credential: ${io.launcher} must be there.`,
    },
  });
  const connection = resolveConnection(options, io);
  if (connection.via === 'socket') {
    const { dataDir } = connection;
    const endpoints = readEndpoints(dataDir);
    return assemble({
      name: endpoints.trustDomain,
      server: server ?? localUrl(endpoints.api),
      caFile: join(dataDir, 'ca.pem'),
      user: exec('--data-dir', dataDir),
    });
  }
  const { url, caFile, tokenFile, clientCertificate, clientKey, context } = connection;
  if (!existsSync(caFile))
    throw usageError(`There is no CA file ${caFile}: name it with --ca-file.`);
  if (tokenFile === undefined && clientCertificate === undefined) {
    throw usageError('With --site, give --token-file, or --client-certificate and --client-key.');
  }
  // The certificate of a login is replaced by the next login: kubectl asks for the one of that moment.
  const isLogin =
    context !== undefined && new Contexts(io.env).get(context).credential === clientCertificate;
  return assemble({
    name: context ?? url.hostname,
    server: server ?? url.href.replace(/\/$/, ''),
    caFile,
    user:
      tokenFile !== undefined
        ? { tokenFile }
        : isLogin && context !== undefined
          ? exec('--context', context)
          : { 'client-certificate': clientCertificate, 'client-key': clientKey },
  });
}

function assemble(parts: {
  readonly name: string;
  readonly server: string;
  readonly caFile: string;
  readonly user: unknown;
}): unknown {
  const { name, server, caFile, user } = parts;
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'certificate-authority': caFile } }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  };
}
