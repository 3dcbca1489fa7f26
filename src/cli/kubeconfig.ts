// hansa kubeconfig: a file for kubectl and everything that reads one. It holds no secret: kubectl
// calls this program for a short-lived certificate (client-go credential plugins), and the CA is
// named by the path of a file that the site keeps fresh.

import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { stringify } from 'yaml';
import { type Cli, type GlobalOptions, globalOptions } from './cli.ts';
import { dataDirOf } from './connection.ts';
import { type OutputFormat, outputOption } from './output.ts';
import { localUrl, readEndpoints } from './site-endpoints.ts';
import { usageError } from './usage.ts';

export function kubeconfigCommand(cli: Cli): Command {
  return new Command('kubeconfig')
    .description('print a kubeconfig for the site')
    .option('--server <url>', 'another URL of the api listener, for example behind a tunnel')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
By --data-dir, kubectl gets a short-lived certificate through this program. By --site and
--token-file, it reads the token from that file.

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
  const dataDir = dataDirOf(options, io);
  if (server !== undefined && !(URL.canParse(server) && server.startsWith('https://'))) {
    throw usageError(
      `--server is ${JSON.stringify(server)}: accepted is an https URL, for example https://127.0.0.1:7443.`,
    );
  }
  const site = options.site ?? io.env['HANSA_SITE'];
  if (site === undefined || site === '') {
    const endpoints = readEndpoints(dataDir);
    return assemble({
      name: endpoints.trustDomain,
      server: server ?? localUrl(endpoints.api),
      caFile: join(dataDir, 'ca.pem'),
      user: {
        exec: {
          apiVersion: 'client.authentication.k8s.io/v1',
          command: io.launcher,
          args: ['credential', '--data-dir', dataDir],
          interactiveMode: 'Never',
          installHint: `The site's own program makes the credential: ${io.launcher} must be there.`,
        },
      },
    });
  }
  const absolute = (path: string | undefined): string | undefined =>
    path === undefined || path === '' ? undefined : resolve(io.cwd, path);
  const tokenFile = absolute(options.tokenFile ?? io.env['HANSA_TOKEN_FILE']);
  const certificate = absolute(options.clientCertificate ?? io.env['HANSA_CLIENT_CERTIFICATE']);
  const key = absolute(options.clientKey ?? io.env['HANSA_CLIENT_KEY']);
  const caFile = absolute(options.caFile ?? io.env['HANSA_CA_FILE']) ?? join(dataDir, 'ca.pem');
  if (!existsSync(caFile))
    throw usageError(`There is no CA file ${caFile}: name it with --ca-file.`);
  if (tokenFile === undefined && (certificate === undefined || key === undefined)) {
    throw usageError('With --site, give --token-file, or --client-certificate and --client-key.');
  }
  return assemble({
    name: new URL(site).hostname,
    server: server ?? site,
    caFile,
    user:
      tokenFile === undefined
        ? { 'client-certificate': certificate, 'client-key': key }
        : { tokenFile },
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
