// The scene of the TokenReview comparison: a real kube-apiserver with keys that the test knows, the objects
// that tokens are bound to, and tokens for them. No controllers run, so the test makes all objects itself.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import {
  type Claims,
  type KeyPair,
  keySetOf,
  signToken,
  type TokenParts,
} from '../../src/auth/review/test-service-account-tokens.ts';
import { type KubeApiserver, serviceAccountIssuer, startKubeApiserver } from './kube-apiserver.ts';

const ec = (namedCurve: string): KeyPair => generateKeyPairSync('ec', { namedCurve });

/** The keys of the API server, of which the first signs; `other` belongs to another cluster. */
export const reviewKeys = {
  rsa: generateKeyPairSync('rsa', { modulusLength: 2048 }) as KeyPair,
  p256: ec('P-256'),
  p384: ec('P-384'),
  p521: ec('P-521'),
  other: ec('P-256'),
};

export const clusterKeys = [
  reviewKeys.rsa,
  reviewKeys.p256,
  reviewKeys.p384,
  reviewKeys.p521,
] as const;
export const clusterKeySet = keySetOf(...clusterKeys);

interface Reference {
  readonly name: string;
  readonly uid: string;
}

export interface Bound {
  readonly serviceaccount?: Partial<Reference>;
  readonly pod?: Partial<Reference>;
  readonly node?: Partial<Reference>;
  readonly secret?: Partial<Reference>;
  readonly namespace?: string;
}

const namespace = 'shop';

export class ReviewScene {
  readonly kube: KubeApiserver;
  readonly #accounts = new Map<string, Reference>();

  private constructor(kube: KubeApiserver) {
    this.kube = kube;
  }

  static async start(): Promise<ReviewScene> {
    const kube = await startKubeApiserver([], {
      serviceAccountKeys: clusterKeys.map(({ privateKey }) => privateKey),
    });
    const scene = new ReviewScene(kube);
    await scene.#create('/api/v1/namespaces', { metadata: { name: namespace } });
    await scene.account('web');
    return scene;
  }

  stop(): Promise<void> {
    return this.kube.stop();
  }

  /** The claims of a token for the ServiceAccount `web`, new each time. */
  claims(changed: Claims = {}, bound: Bound = {}): Claims {
    const now = Math.floor(Date.now() / 1000);
    const web = this.#accounts.get('web') as Reference;
    return {
      aud: [serviceAccountIssuer],
      exp: now + 600,
      iat: now,
      iss: serviceAccountIssuer,
      jti: randomUUID(),
      'kubernetes.io': { namespace, serviceaccount: web, ...bound },
      nbf: now,
      sub: `system:serviceaccount:${namespace}:web`,
      ...changed,
    };
  }

  token(changed: Claims = {}, bound: Bound = {}, parts: Partial<TokenParts> = {}): string {
    return signToken({ key: reviewKeys.rsa, claims: this.claims(changed, bound), ...parts });
  }

  /** A token that the API server itself signs. */
  async requestToken(spec: Claims = {}): Promise<string> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/web/token`;
    const answer = await this.#create(path, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 600, ...spec },
    });
    return (answer['status'] as { token: string }).token;
  }

  async account(name: string): Promise<Reference> {
    const created = await this.#createNamed('serviceaccounts', name, {});
    this.#accounts.set(name, created);
    return created;
  }

  pod(name: string): Promise<Reference> {
    return this.#createNamed('pods', name, {
      spec: { serviceAccountName: 'web', containers: [{ name: 'web', image: 'web' }] },
    });
  }

  secret(name: string): Promise<Reference> {
    return this.#createNamed('secrets', name, {});
  }

  async node(name: string): Promise<Reference> {
    return referenceOf(await this.#create('/api/v1/nodes', { metadata: { name } }));
  }

  /** A legacy token, in the Secret where a controller would have stored it. */
  async legacyToken(changed: Claims = {}, stored = true): Promise<string> {
    const name = `legacy-${randomUUID()}`;
    const web = this.#accounts.get('web') as Reference;
    const prefix = 'kubernetes.io/serviceaccount';
    const claims: Claims = {
      iss: 'kubernetes/serviceaccount',
      sub: `system:serviceaccount:${namespace}:web`,
      [`${prefix}/namespace`]: namespace,
      [`${prefix}/secret.name`]: name,
      [`${prefix}/service-account.name`]: web.name,
      [`${prefix}/service-account.uid`]: web.uid,
      ...changed,
    };
    const token = signToken({ key: reviewKeys.rsa, claims });
    if (stored) {
      await this.#createNamed('secrets', name, {
        type: 'kubernetes.io/service-account-token',
        metadata: { annotations: { 'kubernetes.io/service-account.name': 'web' } },
        stringData: { token },
      });
    }
    return token;
  }

  async remove(resource: string, name: string): Promise<void> {
    const parent = resource === 'nodes' ? '/api/v1' : `/api/v1/namespaces/${namespace}`;
    const { status, text } = await this.kube.client.send({
      method: 'DELETE',
      path: `${parent}/${resource}/${name}?gracePeriodSeconds=0`,
    });
    if (status !== 200) throw new Error(`kube-apiserver did not delete ${name}: ${text}`);
  }

  async #createNamed(resource: string, name: string, object: Claims): Promise<Reference> {
    const path = `/api/v1/namespaces/${namespace}/${resource}`;
    const metadata = { ...(object['metadata'] as Claims | undefined), name };
    return referenceOf(await this.#create(path, { ...object, metadata }));
  }

  async #create(path: string, object: Claims): Promise<Claims> {
    const { status, text } = await this.kube.client.send({
      method: 'POST',
      path,
      body: JSON.stringify(object),
    });
    if (status !== 201) throw new Error(`kube-apiserver refused ${path}: ${text}`);
    return JSON.parse(text) as Claims;
  }
}

function referenceOf({ metadata }: Claims): Reference {
  const { name, uid } = metadata as Reference;
  return { name, uid };
}
