// The oracle: a real etcd and a real kube-apiserver on loopback, for the interop tests and for
// comparison in bench/. This file does not depend on Hansa; the caller passes the CRDs.
//
// The configuration is fair for benchmarks: etcd syncs to disk, the watch cache is on, logs have
// their default level, and all default admission plugins run, except those that need controllers
// that are not started.

import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto';
import { openSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../e2e/free-ports.ts';
import { requireTool } from './tool.ts';
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
  /** Process ids, for measuring CPU time and memory. */
  readonly pids: { readonly etcd: number; readonly apiserver: number };
  readonly client: WireClient;
  /** Installs CRDs and resolves when each is Established and served. */
  install(definitions: readonly CustomResourceDefinition[]): Promise<void>;
  /** Ends both processes and removes the folder; with `keepLogs` says where the logs are. */
  stop(options?: { readonly keepLogs?: boolean }): Promise<void>;
}

export interface KubeApiserverOptions {
  /** Keys of ServiceAccount tokens: the first one signs, all verify. Default: a new one. */
  readonly serviceAccountKeys?: readonly KeyObject[];
  /** Added to the command line. */
  readonly flags?: readonly string[];
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
  const children: ChildProcess[] = [];
  const stop = async ({ keepLogs = false } = {}): Promise<void> => {
    // The API server first: it would only complain about a missing etcd.
    for (const child of children.toReversed()) await end(child);
    if (keepLogs) console.error(`logs of etcd and kube-apiserver are kept in ${folder}`);
    else await rm(folder, { recursive: true, force: true });
  };
  try {
    const server = await start(folder, children, options);
    const kube: KubeApiserver = {
      ...server,
      install: (more) => install(server.client, more),
      stop: async (how) => {
        server.client.close();
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

async function start(
  folder: string,
  children: ChildProcess[],
  { serviceAccountKeys, flags = [] }: KubeApiserverOptions,
): Promise<Omit<KubeApiserver, 'install' | 'stop'>> {
  const [clientPort, peerPort, securePort] = [await freePort(), await freePort(), await freePort()];
  const etcdUrl = `http://127.0.0.1:${clientPort}`;
  const peerUrl = `http://127.0.0.1:${peerPort}`;
  const etcd = await run(folder, children, 'etcd', [
    '--name=oracle',
    `--data-dir=${join(folder, 'etcd')}`,
    `--listen-client-urls=${etcdUrl}`,
    `--advertise-client-urls=${etcdUrl}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=oracle=${peerUrl}`,
    '--log-level=warn',
  ]);

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
  const apiserver = await run(folder, children, 'kube-apiserver', [
    `--etcd-servers=${etcdUrl}`,
    `--cert-dir=${certificates}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${securePort}`,
    `--service-account-issuer=${serviceAccountIssuer}`,
    ...keyFiles.map((file) => `--service-account-key-file=${file}`),
    `--service-account-signing-key-file=${keyFiles[0]}`,
    '--service-cluster-ip-range=10.0.0.0/24',
    `--token-auth-file=${tokens}`,
    '--authorization-mode=RBAC',
    '--endpoint-reconciler-type=none',
    // Needs a controller that makes service accounts; custom resources do not use it.
    '--disable-admission-plugins=ServiceAccount',
    ...flags,
  ]);

  const url = `https://127.0.0.1:${securePort}`;
  const ca = await untilReady(url, join(certificates, 'apiserver.crt'), token, [etcd, apiserver]);
  const kubeconfig = join(folder, 'kubeconfig');
  await writeFile(kubeconfig, kubeconfigFor(url, ca, token), { mode: 0o600 });
  return {
    url,
    ca,
    token,
    kubeconfig,
    pids: { etcd: etcd.pid ?? 0, apiserver: apiserver.pid ?? 0 },
    client: new WireClient({ url, ca, token }),
  };
}

async function run(
  folder: string,
  children: ChildProcess[],
  name: 'etcd' | 'kube-apiserver',
  flags: readonly string[],
): Promise<ChildProcess> {
  const program = await requireTool(name);
  const log = openSync(join(folder, `${name}.log`), 'a');
  const child = spawn(program, flags, { stdio: ['ignore', log, log] });
  children.push(child);
  return child;
}

/** kube-apiserver writes its self-made certificate early and answers /readyz late. */
async function untilReady(
  url: string,
  certificateFile: string,
  token: string,
  processes: readonly ChildProcess[],
): Promise<string> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    for (const child of processes) {
      if (child.exitCode !== null)
        throw new Error(`${child.spawnfile} ended with ${child.exitCode} before it was ready`);
    }
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

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  // SIGKILL: a draining kube-apiserver takes up to a minute, and nobody needs its data.
  child.kill('SIGKILL');
  await ended;
}

function kubeconfigFor(url: string, ca: string, token: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'oracle',
        cluster: {
          server: url,
          'certificate-authority-data': Buffer.from(ca).toString('base64'),
        },
      },
    ],
    users: [{ name: 'oracle', user: { token } }],
    contexts: [{ name: 'oracle', context: { cluster: 'oracle', user: 'oracle' } }],
    'current-context': 'oracle',
  });
}
