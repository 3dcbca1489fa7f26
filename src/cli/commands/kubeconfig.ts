// `hansa kubeconfig`: prints a kubeconfig without secrets. kubectl runs `hansa credential` to get a
// short-lived certificate, and reads the CA from a file that the site keeps current.

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
    .option('--server <url>', 'another URL of the api listener, for example of a tunnel')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With --data-dir, kubectl runs hansa to get a short-lived certificate. With --site and --token-file,
kubectl reads the token from that file. With a context that is logged in, kubectl uses the certificate
of that login.

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
      `--server is ${JSON.stringify(server)}: expected an https URL, for example https://127.0.0.1:7443.`,
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
      installHint: `The credential plugin ${io.launcher} is missing. Install hansa there.`,
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
    throw usageError(`There is no CA file ${caFile}. Name the CA file of the site with --ca-file.`);
  if (tokenFile === undefined && clientCertificate === undefined) {
    throw usageError('With --site, give --token-file, or --client-certificate and --client-key.');
  }
  // The next login replaces the certificate, so kubectl asks for the current one.
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
