// The work of `hansa spire bootstrap`: reads the trust bundle of each cluster, and gives it to the other one. Every
// step can be repeated.

import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { spireGroup, spireServerName } from '../../api/kinds/spire-server.ts';
import { version } from '../../api/object.ts';
import { isEndpointURL } from '../../api/values/endpoint-url.ts';
import { printable } from '../../core/command/columns.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { stayAlive } from '../../core/command/stay-alive.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError, toHansaError } from '../../core/errors/error.ts';
import { maxBundleBytes } from '../../core/identity/bundle/spiffe-bundle.ts';
import { HttpKubeClient } from '../../core/kube/http-kube-client.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { loadKubeconfig } from '../../core/kube/load-kubeconfig.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { readSpireServer, type SpireServerSpec } from '../spire/read-spire-server.ts';
import {
  bundleMapKey,
  bundleOfDocument,
  bundleOfPem,
  type ServerBundle,
} from '../spire/server-bundle.ts';
import { federationServiceName } from '../spire/spire-names.ts';
import { type Peer, type Written, writeBootstrap } from './write-bootstrap.ts';

export interface BootstrapOptions {
  readonly from: string;
  readonly to: string;
  readonly kubeconfig?: string;
  readonly toKubeconfig?: string;
  readonly fromUrl?: string;
  readonly toUrl?: string;
  readonly fromBundle?: string;
  readonly toBundle?: string;
  readonly namespace: string;
  readonly dryRun?: boolean;
  readonly output: OutputFormat;
}

export interface BootstrapRequest {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly options: BootstrapOptions;
}

/** One of the two clusters. */
interface Side {
  readonly context: string;
  readonly kube: KubeClient;
  readonly spec: SpireServerSpec;
  readonly bundle: ServerBundle;
}

const serverPath = kubePath`/apis/${spireGroup}/${version}/spireservers/${spireServerName}`;

export async function bootstrapSpire({ kit, command, options }: BootstrapRequest): Promise<void> {
  const { from, to, kubeconfig, toKubeconfig = kubeconfig } = options;
  for (const [flag, url] of [
    ['--from-url', options.fromUrl],
    ['--to-url', options.toUrl],
  ] as const) {
    if (url !== undefined && !isEndpointURL(url)) {
      throw usageError(`${flag} must be an https URL without user information.`);
    }
  }
  const clients: KubeClient[] = [];
  const connect = (file: string | undefined, context: string): KubeClient => {
    const loaded = loadKubeconfig({ file, context }, kit.io);
    const kube = new HttpKubeClient({ ...loaded, clock: kit.io.clock });
    clients.push(kube);
    return kube;
  };
  try {
    const kubes = { from: connect(kubeconfig, from), to: connect(toKubeconfig, to) };
    await stayAlive(async () => {
      const sides = {
        from: await readSide(kit, from, kubes.from, options.fromBundle, options.namespace),
        to: await readSide(kit, to, kubes.to, options.toBundle, options.namespace),
      };
      await exchange({ kit, command, options }, sides);
    });
  } finally {
    for (const kube of clients) kube.close();
  }
}

async function readSide(
  kit: CommandKit,
  context: string,
  kube: KubeClient,
  file: string | undefined,
  namespace: string,
): Promise<Side> {
  const object = await kube.get<KubeObject>(serverPath).catch((error: unknown) => {
    throw isMissing(error)
      ? new HansaError(
          'HANSA_NOT_FOUND',
          `The cluster of the context ${context} has no SpireServer ${spireServerName}. Install the SPIRE operator and create one.`,
        )
      : error;
  });
  const { spec, problems } = readSpireServer(object);
  if (spec === undefined) {
    throw new HansaError(
      'HANSA_INVALID',
      printable(`The SpireServer of the context ${context} is not valid: ${problems.join(', ')}`),
    );
  }
  if (spec.federation === undefined) {
    throw new HansaError(
      'HANSA_INVALID',
      `The SpireServer of the context ${context} has no spec.federation, so others cannot fetch its bundle. Add it first.`,
    );
  }
  const { trustDomain, bundleConfigMap } = spec;
  if (file !== undefined) {
    return { context, kube, spec, bundle: bundleOfDocument(readBundle(kit, file), trustDomain) };
  }
  const path = kubePath`/api/v1/namespaces/${namespace}/configmaps/${bundleConfigMap}`;
  const map = await kube
    .get<KubeObject & { data?: Record<string, string> }>(path)
    .catch((error: unknown) => {
      throw isMissing(error) ? noBundle(context, namespace, bundleConfigMap) : error;
    });
  const pem = map.data?.[bundleMapKey];
  if (pem === undefined) throw noBundle(context, namespace, bundleConfigMap);
  return { context, kube, spec, bundle: bundleOfPem(pem, trustDomain) };
}

const noBundle = (context: string, namespace: string, name: string): HansaError =>
  new HansaError(
    'HANSA_NOT_FOUND',
    `The cluster of the context ${context} has no trust bundle in the ConfigMap ${namespace}/${name}. Wait until its SPIRE server runs, choose its namespace with --namespace, or name a file with --from-bundle or --to-bundle.`,
  );

function readBundle(kit: CommandKit, file: string): string {
  const path = resolve(kit.io.cwd, file);
  try {
    if (statSync(path).size > maxBundleBytes) {
      throw usageError(`${path} is larger than ${maxBundleBytes} bytes.`);
    }
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw usageError(`Cannot read ${path}: ${fileProblem(error)}.`);
  }
}

async function exchange(
  { kit, command, options }: BootstrapRequest,
  { from, to }: { readonly from: Side; readonly to: Side },
): Promise<void> {
  if (from.spec.trustDomain === to.spec.trustDomain) {
    throw new HansaError(
      'HANSA_INVALID',
      `Both clusters have the trust domain ${from.spec.trustDomain}. A trust domain cannot federate with itself: give one of them another one.`,
    );
  }
  const peers = {
    from: await peerOf(from, to, options.fromUrl, options.namespace, '--from-url'),
    to: await peerOf(to, from, options.toUrl, options.namespace, '--to-url'),
  };
  for (const [{ context, bundle }, peer] of [
    [from, peers.from],
    [to, peers.to],
  ] as const) {
    kit.note(
      printable(
        `${context}: trust domain ${peer.trustDomain}, endpoint ${peer.bundleEndpointURL} (${peer.profile})`,
      ),
    );
    kit.note(`  fingerprint ${bundle.fingerprint} (${bundle.authorities} X.509 authorities)`);
  }
  if (options.dryRun === true) {
    const shown = kit.renderValue({ from: peers.from, to: peers.to }, options.output);
    if (shown !== undefined) kit.print(shown);
    return;
  }
  await kit.confirm(
    command,
    `Let ${from.context} and ${to.context} trust each other with these bundles?`,
  );
  const written: Written[] = [];
  for (const [side, peer] of [
    [to, peers.from],
    [from, peers.to],
  ] as const) {
    try {
      written.push(await writeBootstrap(side, peer));
    } catch (error) {
      throw halfDone(error, written);
    }
  }
  const text = written.map(
    ({ context, object, trustDomain }) =>
      `${context} has the bundle of ${trustDomain} in ${object}.`,
  );
  kit.print(kit.renderValue({ written }, options.output) ?? printable(text.join('\n')));
}

/** Says what is done already, as one cluster may be gone now. */
function halfDone(caught: unknown, written: readonly Written[]): unknown {
  const [done] = written;
  if (done === undefined) return caught;
  const error = toHansaError(caught);
  return new HansaError(
    error.general,
    printable(
      `${error.message} ${done.context} has the bundle of ${done.trustDomain} already. Repeat the command to do the rest.`,
    ),
    { cause: caught },
  );
}

/** What `other` needs to know about `side`. */
async function peerOf(
  { context, kube, spec, bundle }: Side,
  other: Side,
  url: string | undefined,
  namespace: string,
  flag: string,
): Promise<Peer> {
  const { trustDomain, federation } = spec;
  const known = other.spec.federation?.federatesWith?.find(
    (each) => each.trustDomain === trustDomain,
  );
  const host = federation?.exposure?.host ?? (await routeHost(kube, namespace));
  const bundleEndpointURL =
    url ?? known?.bundleEndpointUrl ?? (host === undefined ? undefined : `https://${host}/`);
  if (bundleEndpointURL === undefined || !isEndpointURL(bundleEndpointURL)) {
    throw usageError(
      `Nothing says where others reach the bundle endpoint of ${context}. Add ${flag}, or set spec.federation.exposure.host of its SpireServer.`,
    );
  }
  const profile =
    url === undefined && known !== undefined
      ? known.bundleEndpointProfile
      : (federation?.bundleEndpoint.profile ?? 'https_spiffe');
  return {
    trustDomain,
    bundleEndpointURL,
    profile,
    ...(profile === 'https_spiffe' && {
      endpointSpiffeID: known?.endpointSpiffeId ?? `spiffe://${trustDomain}/spire/server`,
    }),
    bundle: bundle.document,
  };
}

async function routeHost(kube: KubeClient, namespace: string): Promise<string | undefined> {
  const path = kubePath`/apis/route.openshift.io/v1/namespaces/${namespace}/routes/${federationServiceName}`;
  try {
    const { spec } = await kube.get<KubeObject & { spec?: { host?: unknown } }>(path);
    return typeof spec?.host === 'string' ? spec.host : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof KubeStatusError && error.status === 404;
}
