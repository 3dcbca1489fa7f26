// The oracle: a real etcd and a real kube-apiserver on loopback, for the interop tests and for
// comparison in bench/. This file does not depend on Hansa; the caller passes the CRDs.
//
// The configuration is fair for benchmarks: etcd syncs to disk, the watch cache is on, logs have
// their default level, and all default admission plugins run, except those that need controllers
// that are not started.

import type { ChildProcess } from 'node:child_process';
import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../e2e/free-ports.ts';
import type { ToolName } from '../tools/build.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { assertRunning, endProgram, startProgram } from './program.ts';
import { WireClient } from './wire.ts';

export interface CustomResourceDefinition {
  readonly metadata: { readonly name: string };
}

export interface KubeApiserver {
  /** https://127.0.0.1:PORT */
  readonly url: string;
  /** PEM of the authority that signed the serving certificate. */
  readonly ca: string;
  /** A bearer token in the group system:masters. */
  readonly token: string;
  /** Path of a kubeconfig with that token. */
  readonly kubeconfig: string;
  /** With its logs and files; removed when it stops. */
  readonly folder: string;
  /** The key that signs ServiceAccount tokens. */
  readonly serviceAccountKeyFile: string;
  /** Process ids, for measuring CPU time and memory. */
  readonly pids: { readonly etcd: number; readonly apiserver: number };
  readonly client: WireClient;
  /** Installs CRDs and resolves when each is Established and served. */
  install(definitions: readonly CustomResourceDefinition[]): Promise<void>;
  /** Kills it, runs `meanwhile`, and starts it again at the same address. Resolves when it is ready. */
  restart(meanwhile?: () => Promise<void>): Promise<void>;
  /** Ends it, and an etcd of its own, and removes the folder; with `keepLogs` says where the logs are. */
  stop(options?: { readonly keepLogs?: boolean }): Promise<void>;
}

export interface KubeApiserverOptions {
  /** Keys of ServiceAccount tokens: the first one signs, all verify. Default: a new one. */
  readonly serviceAccountKeys?: readonly KeyObject[];
  /** Default: a new one, which stops with the API server. */
  readonly etcd?: Etcd;
  /** Of its keys in etcd, such as /north. API servers that share an etcd need different ones. */
  readonly etcdPrefix?: string;
  /** Of ClusterIPs. Default 10.0.0.0/24. */
  readonly serviceRange?: string;
  /** Another version. Default: kube-apiserver. */
  readonly program?: ToolName;
  /** Added to the command line. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The issuer of its ServiceAccount tokens, and so its audience. */
export const serviceAccountIssuer = 'https://kubernetes.default.svc';

/** Start-up takes 5 seconds on an idle machine; a loaded one gets time. */
const READY_WITHIN_MS = 120_000;

export async function startKubeApiserver(
  definitions: readonly CustomResourceDefinition[] = [],
  options: KubeApiserverOptions = {},
): Promise<KubeApiserver> {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-kube-'));
  const etcd = options.etcd ?? (await startEtcd());
  let apiserver: ChildProcess | undefined;
  const stop = async ({ keepLogs = false } = {}): Promise<void> => {
    // The API server first: it would only complain about a missing etcd.
    if (apiserver !== undefined) await endProgram(apiserver);
    if (options.etcd === undefined) await etcd.stop({ keepLogs });
    if (keepLogs) console.error(`the log of kube-apiserver is kept in ${folder}`);
    else await rm(folder, { recursive: true, force: true });
  };
  try {
    const { flags, url, certificateFile, token, keyFile } = await configure(folder, etcd, options);
    const { env = {}, program = 'kube-apiserver' } = options;
    const start = async (): Promise<string> => {
      apiserver = await startProgram(folder, program, flags, { env });
      return untilReady(url, certificateFile, token, [apiserver], etcd);
    };
    const ca = await start();
    const kubeconfig = join(folder, 'kubeconfig');
    await writeFile(kubeconfig, kubeconfigFor({ url, ca, token }), { mode: 0o600 });
    const client = new WireClient({ url, ca, token });
    const kube: KubeApiserver = {
      url,
      ca,
      token,
      kubeconfig,
      folder,
      serviceAccountKeyFile: keyFile,
      get pids() {
        return { etcd: etcd.pid, apiserver: apiserver?.pid ?? 0 };
      },
      client,
      install: (more) => install(client, more),
      restart: async (meanwhile) => {
        if (apiserver !== undefined) await endProgram(apiserver);
        await meanwhile?.();
        await start();
      },
      stop: async (how) => {
        client.close();
        await stop(how);
      },
    };
    await kube.install(definitions);
    return kube;
  } catch (error) {
    await stop({ keepLogs: true });
    throw error;
  }
}

interface Configuration {
  readonly flags: readonly string[];
  readonly url: string;
  readonly certificateFile: string;
  readonly token: string;
  readonly keyFile: string;
}

async function configure(
  folder: string,
  etcd: Etcd,
  {
    serviceAccountKeys,
    etcdPrefix,
    serviceRange = '10.0.0.0/24',
    flags = [],
  }: KubeApiserverOptions,
): Promise<Configuration> {
  const securePort = await freePort();
  const token = randomBytes(24).toString('hex');
  const certificates = join(folder, 'certificates');
  await mkdir(certificates, { mode: 0o700 });
  const keys = serviceAccountKeys ?? [
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey,
  ];
  const keyFiles = keys.map((_, index) => join(folder, `service-account-${index}.pem`));
  const tokens = join(folder, 'tokens.csv');
  for (const [index, key] of keys.entries()) {
    const type = key.asymmetricKeyType === 'rsa' ? 'pkcs1' : 'sec1';
    const file = keyFiles[index] as string;
    await writeFile(file, key.export({ type, format: 'pem' }), { mode: 0o600 });
  }
  await writeFile(tokens, `${token},oracle-admin,oracle-admin,"system:masters"\n`, { mode: 0o600 });
  const [keyFile = ''] = keyFiles;
  return {
    url: `https://127.0.0.1:${securePort}`,
    certificateFile: join(certificates, 'apiserver.crt'),
    token,
    keyFile,
    flags: [
      `--etcd-servers=${etcd.url}`,
      ...(etcdPrefix === undefined ? [] : [`--etcd-prefix=${etcdPrefix}`]),
      `--cert-dir=${certificates}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${securePort}`,
      `--service-account-issuer=${serviceAccountIssuer}`,
      ...keyFiles.map((file) => `--service-account-key-file=${file}`),
      `--service-account-signing-key-file=${keyFile}`,
      `--service-cluster-ip-range=${serviceRange}`,
      `--token-auth-file=${tokens}`,
      '--authorization-mode=RBAC',
      '--endpoint-reconciler-type=none',
      // Needs a controller that makes service accounts; custom resources do not use it.
      '--disable-admission-plugins=ServiceAccount',
      ...flags,
    ],
  };
}

/** kube-apiserver writes its self-made certificate early and answers /readyz late. */
async function untilReady(
  url: string,
  certificateFile: string,
  token: string,
  processes: readonly ChildProcess[],
  etcd: Etcd,
): Promise<string> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    etcd.check();
    assertRunning(processes);
    try {
      const ca = await readFile(certificateFile, 'utf8');
      const client = new WireClient({ url, ca, token });
      try {
        const ready = await client.send({ method: 'GET', path: '/readyz' });
        if (ready.status === 200) return ca;
      } finally {
        client.close();
      }
    } catch {
      // Not listening yet.
    }
    if (performance.now() > deadline)
      throw new Error(`kube-apiserver was not ready within ${READY_WITHIN_MS} ms`);
    await delay(100);
  }
}

async function install(
  client: WireClient,
  definitions: readonly CustomResourceDefinition[],
): Promise<void> {
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  for (const definition of definitions) {
    const answer = await client.send({
      method: 'POST',
      path: `${path}?fieldValidation=Strict`,
      body: JSON.stringify(definition),
    });
    if (answer.status !== 201)
      throw new Error(`kube-apiserver refused CRD ${definition.metadata.name}: ${answer.text}`);
  }
  for (const definition of definitions) await established(client, path, definition.metadata.name);
}

async function established(client: WireClient, path: string, name: string): Promise<void> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const { text } = await client.send({ method: 'GET', path: `${path}/${name}` });
    const definition = JSON.parse(text) as {
      spec: { group: string; names: { plural: string }; versions: { name: string }[] };
      status?: { conditions?: { type: string; status: string; message: string }[] };
    };
    const conditions = definition.status?.conditions ?? [];
    const structural = conditions.find(({ type }) => type === 'NonStructuralSchema');
    if (structural?.status === 'True')
      throw new Error(`CRD ${name} is not structural: ${structural.message}`);
    if (conditions.some(({ type, status }) => type === 'Established' && status === 'True')) {
      const { group, names, versions } = definition.spec;
      const served = `/apis/${group}/${versions[0]?.name}/${names.plural}`;
      const list = await client.send({ method: 'GET', path: served });
      if (list.status === 200) return;
    }
    if (performance.now() > deadline) throw new Error(`CRD ${name} was not Established in time`);
    await delay(50);
  }
}

/** `serverName` is the name in the certificate, where that is not the one in the URL. */
export function kubeconfigFor({
  url,
  ca,
  token,
  serverName,
}: Pick<KubeApiserver, 'url' | 'ca' | 'token'> & { readonly serverName?: string }): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'oracle',
        cluster: {
          server: url,
          'certificate-authority-data': Buffer.from(ca).toString('base64'),
          ...(serverName !== undefined && { 'tls-server-name': serverName }),
        },
      },
    ],
    users: [{ name: 'oracle', user: { token } }],
    contexts: [{ name: 'oracle', context: { cluster: 'oracle', user: 'oracle' } }],
    'current-context': 'oracle',
  });
}
