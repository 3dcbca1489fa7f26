// The work of `hansa cluster add`: prepares a cluster with the kubeconfig of the user, and registers it with the
// site. Every step can be repeated.

import type { Command } from 'commander';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { printable } from '../../core/command/columns.ts';
import { stayAlive } from '../../core/command/stay-alive.ts';
import { sleep } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { HttpKubeClient } from '../../core/kube/http-kube-client.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { type LoadedKubeconfig, loadKubeconfig } from '../../core/kube/load-kubeconfig.ts';
import {
  defaultAccountName,
  defaultAccountNamespace,
  type Manifest,
  ownerOf,
} from '../../core/kube/manifests/manifest.ts';
import { applyManifests, tryManifests } from '../../core/kube/manifests/apply-manifests.ts';
import { manifestLines, yamlDocuments } from '../../core/kube/manifests/describe-manifests.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { Finding } from '../../core/plane/doctor.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { type AuthInfo, authInfo } from '../client/auth-info.ts';
import {
  clusterObject,
  type Registration,
  serverOf,
} from '../../core/kube/registration/cluster-object.ts';
import { clusterNamed } from '../client/clusters.ts';
import {
  type Account,
  accountPath,
  accountsOf,
  publishedIssuer,
  requestToken,
} from '../../core/kube/registration/account-token.ts';
import { type SetCredential, setCredential } from '../../core/kube/registration/set-credential.ts';
import { examineOrSay } from '../doctor/cluster.ts';
import { accessManifests } from '../manifests/access-manifests.ts';
import { namespaceOf } from '../manifests/manifest.ts';
import { caConfigMap, caConfigMapPath, planPublication } from '../manifests/published-ca.ts';

export interface AddOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly mode?: 'jwks' | 'tokenreview' | 'hybrid';
  readonly local?: boolean;
  readonly namespace?: string;
  readonly publishCa: boolean;
  readonly dryRun?: boolean;
  readonly forceConflicts?: boolean;
  readonly output: OutputFormat;
}

/** Its own, so that a repetition keeps fields that `hansa apply` or kubectl set. */
const fieldManager = 'hansa-cluster-add';

export interface AddRequest {
  readonly kit: CommandKit;
  readonly command: Command;
  readonly name: string;
  readonly options: AddOptions;
}

interface Addition extends AddRequest {
  readonly client: SiteClient;
  readonly kube: KubeClient;
  readonly loaded: LoadedKubeconfig;
}

export async function addCluster(request: AddRequest): Promise<void> {
  const { kit, command, options } = request;
  const { kubeconfig: file, context } = options;
  const loaded = loadKubeconfig({ file, context }, kit.io);
  const kube = new HttpKubeClient({ ...loaded, clock: kit.io.clock });
  try {
    await stayAlive(() =>
      kit.withClient(command, (client) => add({ ...request, client, kube, loaded })),
    );
  } finally {
    kube.close();
  }
}

async function add(addition: Addition): Promise<void> {
  const { kit, command, client, kube, loaded, name, options } = addition;
  const force = options.forceConflicts === true;
  const info = await authInfo(client);
  const known = await clusterNamed(client, name);
  refuseOther(known, loaded);
  const account = await chosenAccount(addition, info);
  await refuseAccountOfOther(addition, info, account);
  const published = await publishedIssuer(kube);
  const registration: Registration = {
    name,
    endpoint: loaded.endpoint,
    // Until there is a token, which decides, any issuer serves to try the registration.
    issuer: published ?? known?.spec.issuer ?? 'https://kubernetes.default.svc',
    audiences: known?.spec.apiAudiences ?? [],
    mode: options.mode,
    local: options.local,
    known,
  };
  const manifests = await manifestsFor(addition, info, account);
  if (options.dryRun === true) {
    const all = [...manifests, clusterObject(registration)];
    kit.print(yamlDocuments(kit, all));
    return;
  }
  await client.apply(clusterKind, name, clusterObject(registration), {
    dryRun: true,
    fieldManager,
    force,
  });
  await tryManifests(kube, manifests, force);
  for (const line of planLines(addition, manifests, account, known)) kit.note(printable(line));
  await kit.confirm(command, `Add ${name}?`);
  await applyManifests(kube, manifests, force);
  const { token, issuer, audiences } = await requestToken(kube, account);
  if (published !== undefined && published !== issuer) {
    kit.note(
      printable(
        `Warning: the API server publishes the issuer ${published}, but its tokens have ${issuer}. The Cluster gets the second.`,
      ),
    );
  }
  const object = clusterObject({ ...registration, issuer, audiences });
  const { created } = await client.apply(clusterKind, name, object, { fieldManager, force });
  const apiServer = serverOf(loaded.endpoint);
  const credential = await stored(client, name, { token, apiServer });
  await report(addition, created, credential);
}

/** A name must not silently change its cluster. */
function refuseOther(known: Cluster | undefined, { endpoint }: LoadedKubeconfig): void {
  if (known === undefined) return;
  const { metadata, spec } = known;
  const { name } = metadata;
  const server = serverOf(endpoint);
  if (spec.apiServer !== undefined && spec.apiServer.replace(/\/+$/, '') !== server) {
    throw new HansaError(
      'HANSA_CONFLICT',
      `Cannot add ${name}: the site has a cluster of this name at ${spec.apiServer}, and the kubeconfig is for ${server}. Choose another name, or first run: hansa cluster remove ${name}`,
    );
  }
  const source = Object.entries(spec.credential ?? {}).find(
    ([field, value]) => field !== 'renew' && value !== false,
  )?.[0];
  if (source !== undefined) {
    throw new HansaError(
      'HANSA_CONFLICT',
      `Cannot add ${name}: its Cluster takes the credential from ${source}, so the site would not use the token of a ServiceAccount. Remove spec.credential.${source} first, or keep it and run: hansa cluster check ${name}`,
    );
  }
}

/** One that `hansa cluster join` created is used again: the site has one credential for a cluster. */
async function chosenAccount({ kube, options }: Addition, info: AuthInfo): Promise<Account> {
  const { namespace } = options;
  if (namespace !== undefined) return { namespace, name: defaultAccountName };
  const [own] = await accountsOf(kube, info.trustDomain);
  return (
    own ?? {
      namespace: namespaceOf(info.baseDomain) ?? defaultAccountNamespace,
      name: defaultAccountName,
    }
  );
}

/** Two sites with one ServiceAccount could not be told apart in the cluster, or be removed one by one. */
async function refuseAccountOfOther(
  { kube, name }: Addition,
  { trustDomain }: AuthInfo,
  account: Account,
): Promise<void> {
  const { status, body } = await kube.request({ method: 'GET', path: accountPath(account) });
  const owner = status === 200 ? ownerOf(jsonOf(body)) : undefined;
  if (owner === undefined || owner === trustDomain) return;
  const which = `${account.namespace}/${account.name}`;
  throw new HansaError(
    'HANSA_CONFLICT',
    printable(
      `Cannot add ${name}: the ServiceAccount ${which} of the cluster belongs to the site ${owner}. Choose a namespace for this site, such as --namespace hansa-${trustDomain.split('.')[0]}. If ${owner} no longer exists, delete the ServiceAccount instead: kubectl delete serviceaccount ${account.name} -n ${account.namespace}`,
    ),
  );
}

async function manifestsFor(
  { kit, kube, options }: Addition,
  { baseDomain, trustDomain, ca }: AuthInfo,
  account: Account,
): Promise<readonly Manifest[]> {
  const namespace = options.publishCa ? namespaceOf(baseDomain) : undefined;
  const own = { subject: { kind: 'ServiceAccount' }, trustDomain, ...account } as const;
  if (namespace === undefined) return accessManifests(own);
  const { status, body } = await kube.request({ method: 'GET', path: caConfigMapPath(namespace) });
  const plan = status === 200 ? planPublication(jsonOf(body), { trustDomain, ca }) : undefined;
  if (plan?.do === 'leave') {
    kit.note(
      printable(`Warning: the ConfigMap ${namespace}/hansa-ca stays as it is: ${plan.why}.`),
    );
    return accessManifests(own);
  }
  return [
    ...accessManifests({ ...own, publishCaIn: namespace }),
    caConfigMap({ namespace, trustDomain, ca }),
  ];
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

function planLines(
  { loaded, name, options }: Addition,
  manifests: readonly Manifest[],
  { namespace, name: accountName }: Account,
  known: Cluster | undefined,
): readonly string[] {
  const { context, endpoint } = loaded;
  return [
    `In the cluster ${serverOf(endpoint)} (context ${context.name}), this creates or updates:`,
    ...manifestLines(manifests),
    'At the site, this creates or updates:',
    `  Cluster ${name}${options.local === true ? ', the local one' : ''}, mode ${options.mode ?? known?.spec.validation?.mode ?? 'hybrid'}`,
    `  its credential: a token of ServiceAccount ${namespace}/${accountName}, valid for 7 days, which the site renews`,
  ];
}

async function stored(
  client: SiteClient,
  name: string,
  credential: { readonly token: string; readonly apiServer: string },
): Promise<SetCredential> {
  try {
    return await setCredential(client, name, credential);
  } catch (error) {
    if (!(error instanceof HansaError)) throw error;
    throw new HansaError(
      error,
      `${error.message} The ServiceAccount, its RBAC and the Cluster ${name} exist; only the credential is missing. Run the command again.`,
      { cause: error },
    );
  }
}

/** A new account and its binding take effect a moment after the API server stored them. */
const settling = new Set(['site', 'credential', 'rights', 'issuer', 'keys', 'review']);
const settleTries = 10;
const settleMs = 300;

async function report(
  { kit, client, name, options }: Addition,
  created: boolean,
  credential: SetCredential,
): Promise<void> {
  let findings: readonly Finding[] = [];
  for (let attempt = 1; attempt <= settleTries; attempt += 1) {
    findings = await examineOrSay(client, name);
    if (!findings.some((each) => isProblem(each) && settling.has(each.check))) break;
    if (attempt < settleTries) await sleep(kit.io.clock, settleMs);
  }
  const { expiresAt } = credential;
  const host = (await clusterNamed(client, name))?.status?.host;
  const told = { name, created, ...(host === undefined ? {} : { host }), credential, findings };
  kit.print(
    kit.renderValue(told, options.output) ??
      printable(
        `${name} ${created ? 'added' : 'updated'}${host === undefined ? '' : `: ${host}`}${expiresAt === undefined ? '' : `, credential until ${expiresAt}`}`,
      ),
  );
  const bad = findings.find(isProblem);
  if (bad === undefined) return;
  throw new HansaError(
    'HANSA_UNHEALTHY',
    `${name} is registered, but the site cannot review its tokens yet: ${bad.check}: ${bad.text}. For every step, and what to do: hansa doctor --cluster ${name}`,
  );
}

const isProblem = ({ level }: Finding): boolean => level === 'problem';
