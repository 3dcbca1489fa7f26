// A real kube-apiserver with a ServiceAccount, registered as a Cluster at a real site. Interop tests and
// bench/reviews.ts use it.

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Cluster } from '../../src/api/kinds/cluster.ts';
import type { KeyPair } from '../../src/auth/review/test-service-account-tokens.ts';
import {
  defaultAccountNamespace,
  proofAccountName,
} from '../../src/core/kube/manifests/manifest.ts';
import { isConditionTrue } from '../../src/core/reconcile/conditions.ts';
import { type KubeApiserver, serviceAccountIssuer, startKubeApiserver } from './kube-apiserver.ts';
import type { WireClient } from './wire.ts';

export const namespace = 'shop';
export const account = 'web';
export const reviewsPath = '/apis/authentication.k8s.io/v1/tokenreviews';

/** Of a cluster's TokenReview endpoint at a site with the default settings. */
export const hostOf = (cluster: string): string => `api.${cluster}.kube-fed.svc.cluster.local`;

export interface ReviewCluster {
  readonly kube: KubeApiserver;
  /** Signs its ServiceAccount tokens. */
  readonly key: KeyPair;
  /** Of the ServiceAccount. */
  readonly uid: string;
  /** A token that the API server signed. */
  token(options?: TokenOptions): Promise<string>;
  /** Creates an object, and returns it. */
  create<T>(path: string, object: object): Promise<T>;
  stop(): Promise<void>;
}

export interface TokenOptions {
  readonly audiences?: readonly string[];
  readonly account?: string;
}

export async function startReviewCluster(flags: readonly string[] = []): Promise<ReviewCluster> {
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const kube = await startKubeApiserver([], { serviceAccountKeys: [key.privateKey], flags });
  try {
    await create(kube, '/api/v1/namespaces', { metadata: { name: namespace } });
    await createProofAccount(kube);
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    const { metadata } = await create<{ readonly metadata: { readonly uid: string } }>(
      kube,
      accounts,
      { metadata: { name: account } },
    );
    return {
      kube,
      key,
      uid: metadata.uid,
      token: async ({ audiences, account: name = account } = {}) => {
        const { status } = await create<{ readonly status: { readonly token: string } }>(
          kube,
          `${accounts}/${name}/token`,
          { spec: { expirationSeconds: 3600, ...(audiences && { audiences }) } },
        );
        return status.token;
      },
      create: (path, object) => create(kube, path, object),
      stop: () => kube.stop(),
    };
  } catch (error) {
    await kube.stop();
    throw error;
  }
}

/** The cluster proves its keys to sites with another credential than a ServiceAccount token. */
export async function createProofAccount(kube: KubeApiserver): Promise<void> {
  await create(kube, '/api/v1/namespaces', { metadata: { name: defaultAccountNamespace } });
  const accounts = `/api/v1/namespaces/${defaultAccountNamespace}/serviceaccounts`;
  await create(kube, accounts, { metadata: { name: proofAccountName } });
}

async function create<T>(kube: KubeApiserver, path: string, object: object): Promise<T> {
  const { status, text } = await kube.client.send({
    method: 'POST',
    path,
    body: JSON.stringify(object),
  });
  if (status !== 201) throw new Error(`kube-apiserver refused ${path}: ${text}`);
  return JSON.parse(text) as T;
}

/** A folder for `--auth-credentials-dir`, in which Clusters find the admin tokens of their API servers. */
export class CredentialsDir {
  readonly path: string;

  constructor(parent: string) {
    this.path = join(parent, `credentials-${randomBytes(4).toString('hex')}`);
    mkdirSync(this.path, { mode: 0o700 });
  }

  /** The part of a Cluster's `spec` that names the API server and the credential. */
  specFor(name: string, { url, ca, token }: KubeApiserver): Partial<Cluster['spec']> & object {
    writeFileSync(join(this.path, `${name}.token`), token, { mode: 0o600 });
    return {
      issuer: serviceAccountIssuer,
      apiServer: url,
      caBundle: ca,
      credential: { tokenFile: `${name}.token` },
    } as Partial<Cluster['spec']>;
  }
}

/** Of the Clusters of a site. */
export const clustersPath = '/apis/hansa.dev/v1alpha1/clusters';

/** Creates the Cluster at a site and resolves when it is Ready. */
export async function registerCluster(
  admin: WireClient,
  name: string,
  spec: object,
): Promise<Cluster> {
  const body = { apiVersion: 'hansa.dev/v1alpha1', kind: 'Cluster', metadata: { name }, spec };
  const answer = await admin.send({
    method: 'POST',
    path: clustersPath,
    body: JSON.stringify(body),
  });
  if (answer.status !== 201) throw new Error(`the site refused Cluster ${name}: ${answer.text}`);
  const deadline = performance.now() + 60_000;
  for (;;) {
    const { text } = await admin.send({ method: 'GET', path: `${clustersPath}/${name}` });
    const cluster = JSON.parse(text) as Cluster;
    if (isConditionTrue(cluster.status?.conditions, 'Ready')) return cluster;
    if (performance.now() > deadline) {
      throw new Error(`Cluster ${name} is not Ready: ${JSON.stringify(cluster.status)}`);
    }
    await delay(50);
  }
}

export interface ReviewStatus {
  readonly authenticated?: boolean;
  readonly user?: {
    readonly username?: string;
    readonly uid?: string;
    readonly groups?: readonly string[];
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
  readonly audiences?: readonly string[];
  readonly error?: string;
}

export const reviewOf = (token: string, audiences?: readonly string[]): string =>
  JSON.stringify({
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    spec: { token, ...(audiences && { audiences }) },
  });
