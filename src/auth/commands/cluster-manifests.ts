// `hansa cluster services` and `auth-config`: print manifests for an administrator of a cluster to apply.

import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import type { ResourceOf } from '../../api/kind.ts';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { siteKind } from '../../api/kinds/site.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import { manifestText } from '../../core/kube/manifests/describe-manifests.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { authInfo } from '../client/auth-info.ts';
import { findCluster } from '../client/clusters.ts';
import { authConfigManifests } from '../manifests/auth-config.ts';
import { namespaceOf } from '../manifests/manifest.ts';
import { serviceManifests } from '../manifests/service-manifests.ts';

type Site = ResourceOf<typeof siteKind>;

interface ServicesOptions {
  readonly address?: readonly string[];
  readonly port?: number;
  readonly namespace?: string;
  readonly output: OutputFormat;
}

export function servicesCommand(kit: CommandKit): Command {
  return new Command('services')
    .description('print the Services that make the host names of reviews resolve in a cluster')
    .option(
      '--address <ip...>',
      'IP addresses of this site as Pods reach them (default: that of the api listener)',
    )
    .addOption(
      new Option('--port <number>', 'the port there (default: that of the api listener)').argParser(
        parsePort,
      ),
    )
    .option('--namespace <name>', 'the namespace (default: that of auth.baseDomain)')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Prints the namespace, a ConfigMap with the CA of this site, the Service api, and one headless Service for
each registered cluster. Apply them in each cluster whose Pods ask for reviews, and again after you add a
cluster. The site keeps the ConfigMap fresh in registered clusters.

Examples:
  hansa cluster services --address 10.0.0.5 | kubectl apply --server-side --force-conflicts -f -`,
    )
    .action((options: ServicesOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const { trustDomain, baseDomain, ca } = await authInfo(client);
        const namespace = options.namespace ?? namespaceOf(baseDomain);
        if (namespace === undefined) {
          throw usageError(
            `Services cannot make names of ${baseDomain} (auth.baseDomain) resolve, because it is not of the form NAMESPACE.svc.DOMAIN. Add such names to your DNS.`,
          );
        }
        const clusters = (await client.list(clusterKind)).items as unknown as readonly Cluster[];
        const manifests = serviceManifests({
          namespace,
          clusters: clusters.map(({ metadata }) => metadata.name),
          ...(await endpointOf(client, options, (text) => kit.note(text))),
          trustDomain,
          ca,
        });
        kit.print(manifestText(kit, manifests, options.output));
      }),
    );
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw new InvalidArgumentError('Expected a port.');
  return port;
}

/** Of the api listener, unless the flags say it. */
async function endpointOf(
  client: SiteClient,
  { address, port }: ServicesOptions,
  note: (text: string) => void,
): Promise<{ readonly addresses: readonly string[]; readonly port: number }> {
  if (address !== undefined && port !== undefined) return { addresses: address, port };
  const site = (await client.get(siteKind, siteKind.singleton as string)) as unknown as Site;
  const listener = site.status?.listeners?.find(({ name }) => name === 'api')?.address ?? '';
  const found = /^(?:https:\/\/)?\[?([^\]]*)\]?:(\d+)\/?$/.exec(listener);
  const listenerPort = port ?? Number(found?.[2] ?? 0);
  if (listenerPort === 0) throw usageError('The site has no api listener on a port. Add --port.');
  const ip = found?.[1] ?? '';
  if (address !== undefined) {
    // Without --port, no proxy forwards another port to the listener.
    if (/^(?:127\.|::1$|localhost$)/.test(ip)) {
      note(
        `Warning: the api listener of the site has the address ${listener}, so Pods cannot reach it. Start the site with --api 0.0.0.0:${listenerPort}.`,
      );
    }
    return { addresses: address, port: listenerPort };
  }
  const isUsable = isIP(ip) !== 0 && !/^(?:127\.|0\.0\.0\.0$|::1?$)/.test(ip);
  if (isUsable) return { addresses: [ip], port: listenerPort };
  throw usageError(
    `The api listener of the site has the address ${listener}, which Pods cannot use. Add --address with the IP addresses of the site as Pods reach them.`,
  );
}

interface AuthConfigOptions {
  readonly audience?: string;
  readonly issuerCaFile?: string;
  readonly part?: 'configuration' | 'access';
  readonly output: OutputFormat;
}

export function authConfigCommand(kit: CommandKit): Command {
  return new Command('auth-config')
    .description('print what a cluster needs to accept JWT-SVIDs of this site as its credential')
    .argument('[name]', 'a cluster with spec.credential.jwtSVID, for its audience')
    .option(
      '--audience <name>',
      'the audience of the JWT-SVIDs, as in spec.credential.jwtSVID.audience',
    )
    .option(
      '--issuer-ca-file <file>',
      'the CA of the OIDC issuer in PEM, if it is not a public one',
    )
    .addOption(
      new Option('--part <part>', 'print only this part (default: both)').choices([
        'configuration',
        'access',
      ]),
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With spec.credential.jwtSVID, the site stores no credential for the cluster: it presents a short-lived
JWT-SVID of its own. The first part is for the file of --authentication-config of kube-apiserver. The
second part is for kubectl apply.

Examples:
  hansa cluster auth-config app1
  hansa cluster auth-config --audience https://app1.example --part access | kubectl apply -f -`,
    )
    .action((name: string | undefined, options: AuthConfigOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const audience = await audienceOf(client, name, options.audience);
        const { trustDomain, jwtIssuer, baseDomain } = await authInfo(client);
        if (jwtIssuer === undefined) {
          throw new HansaError(
            'HANSA_BAD_REQUEST',
            'This site has no OIDC issuer. Set jwt.issuer to the https URL under which API servers reach its web listener, and restart the site.',
          );
        }
        const namespace = namespaceOf(baseDomain);
        const { configuration, access } = authConfigManifests({
          trustDomain,
          issuer: jwtIssuer,
          audience,
          issuerCa: options.issuerCaFile && readPem(kit, options.issuerCaFile),
          ...(namespace === undefined ? {} : { namespace, publishCaIn: namespace }),
        });
        const parts = { configuration: [configuration], access };
        const chosen =
          options.part === undefined ? [configuration, ...access] : parts[options.part];
        kit.print(manifestText(kit, chosen, options.output));
      }),
    );
}

async function audienceOf(
  client: SiteClient,
  name: string | undefined,
  given: string | undefined,
): Promise<string> {
  if (name === undefined) {
    if (given !== undefined) return given;
    throw usageError('Name a cluster with spec.credential.jwtSVID, or add --audience.');
  }
  const own = (await findCluster(client, name)).spec.credential?.jwtSVID?.audience;
  if (given !== undefined && own !== undefined && given !== own) {
    throw usageError(
      `The audience of ${name} is ${own}. Leave --audience out, or change the Cluster.`,
    );
  }
  const audience = given ?? own;
  if (audience !== undefined) return audience;
  throw usageError(`${name} has no spec.credential.jwtSVID. Set it, or add --audience.`);
}

function readPem(kit: CommandKit, file: string): string {
  let text: string;
  try {
    text = readFileSync(resolve(kit.io.cwd, file), 'utf8');
  } catch (error) {
    throw usageError(`Cannot read ${file}: ${fileProblem(error)}.`);
  }
  if (/-----BEGIN CERTIFICATE-----/.test(text) && !text.includes('PRIVATE KEY')) return text;
  throw usageError(`${file} must contain certificates in PEM, and no private key.`);
}
