// Test fixture: ServiceAccount tokens, the keys that sign them, and what an API server answers about them.

import { generateKeyPairSync } from 'node:crypto';
import type { KubeResponse } from '../../core/kube/kube-client.ts';
import { readEnvelope, readMessage } from '../../core/kube/protobuf.ts';
import { ProtobufWriter } from '../../core/kube/protobuf-writer.ts';
import type { KeySet } from '../keys/cluster-keys.ts';
import { type KeyPair, keySetOf, signToken } from '../review/test-service-account-tokens.ts';

export const issuer = 'https://kubernetes.default.svc.cluster.local';

const testKey = (): KeyPair => generateKeyPairSync('ec', { namedCurve: 'P-256' });

export const signingKey = testKey();
/** No key set contains it, unless a test says so. */
export const foreignKey = testKey();

export interface TokenOptions {
  readonly name?: string;
  readonly audiences?: readonly string[];
  readonly lifetimeSeconds?: number;
  readonly key?: KeyPair;
}

export function keySet(fetchedAtMs: number, key = signingKey, version = 'v1'): KeySet {
  return { ...keySetOf(key), fetchedAtMs, version };
}

/** An ES256 token of ServiceAccount default/`name`, bound to a pod, as kube-apiserver signs it. */
export function serviceAccountToken(nowMs: number, options: TokenOptions = {}): string {
  const { name = 'app', audiences = [issuer], lifetimeSeconds = 3600, key = signingKey } = options;
  const seconds = Math.floor(nowMs / 1000);
  const claims = {
    aud: audiences,
    exp: seconds + lifetimeSeconds,
    iat: seconds,
    iss: issuer,
    jti: `jti-of-${name}`,
    'kubernetes.io': {
      namespace: 'default',
      node: { name: 'node-1', uid: 'node-uid' },
      pod: { name: `${name}-pod`, uid: `${name}-pod-uid` },
      serviceaccount: { name, uid: `${name}-uid` },
    },
    nbf: seconds,
    sub: `system:serviceaccount:default:${name}`,
  };
  return signToken({ key, claims });
}

/** The user of `serviceAccountToken`, as kube-apiserver reports it. */
export function userOf(name = 'app') {
  return {
    username: `system:serviceaccount:default:${name}`,
    uid: `${name}-uid`,
    groups: [
      'system:serviceaccounts',
      'system:serviceaccounts:default',
      'system:authenticated',
    ] as readonly string[],
    extra: {
      'authentication.kubernetes.io/credential-id': [`JTI=jti-of-${name}`],
      'authentication.kubernetes.io/node-name': ['node-1'],
      'authentication.kubernetes.io/node-uid': ['node-uid'],
      'authentication.kubernetes.io/pod-name': [`${name}-pod`],
      'authentication.kubernetes.io/pod-uid': [`${name}-pod-uid`],
    } as Readonly<Record<string, readonly string[]>>,
  };
}

export interface ReviewSpec {
  readonly token: string;
  readonly audiences?: readonly string[];
}

/** What kube-apiserver would answer to a token of `serviceAccountToken`. */
export function acceptingStatus({ token, audiences = [issuer] }: ReviewSpec) {
  const payload = token.split('.')[1] as string;
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as {
    readonly sub: string;
    readonly aud: readonly string[];
  };
  return {
    authenticated: true,
    user: userOf(claims.sub.split(':').at(-1)),
    audiences: audiences.filter((audience) => claims.aud.includes(audience)),
  };
}

export const revokedText = '[invalid bearer token, service account token has been invalidated]';

export function tokenReview(spec: ReviewSpec, status: unknown) {
  return {
    kind: 'TokenReview',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: {},
    spec,
    status,
  };
}

export function jsonResponse(status: number, body: unknown, headers = {}): KubeResponse {
  return { status, headers, body: Buffer.from(JSON.stringify(body)) };
}

/** What a forwarded TokenReview asks, in both encodings. */
export function specOf(body: Buffer): ReviewSpec {
  if (body.toString('latin1', 0, 4) !== 'k8s\0') {
    return (JSON.parse(body.toString()) as { readonly spec: ReviewSpec }).spec;
  }
  const { raw } = readEnvelope(body);
  const { spec } = readMessage(raw, {
    2: ['spec', { 1: ['token', 'text'], 2: ['audiences', 'texts'] }],
  });
  return spec as ReviewSpec;
}

interface WrittenReview {
  readonly kind: string;
  readonly apiVersion: string;
  readonly spec?: { readonly token?: string; readonly audiences?: readonly string[] } | undefined;
  readonly status?: {
    readonly authenticated?: boolean;
    readonly error?: string;
    readonly audiences?: readonly string[];
    readonly user?: Partial<ReturnType<typeof userOf>>;
  };
}

/** The same answer in protobuf, with metadata as kube-apiserver adds it. */
export function protobufOf({ kind, apiVersion, spec, status }: WrittenReview): Buffer {
  const writer = new ProtobufWriter();
  return writer.envelope(apiVersion, kind, () => {
    if (status !== undefined) writer.message(3, () => writeStatus(writer, status));
    if (spec !== undefined) {
      writer.message(2, () => {
        writer.texts(2, spec.audiences ?? []);
        writer.text(1, spec.token ?? '');
      });
    }
    writer.message(1, () => writer.map(12, { 'example.com/note': 'x' }));
  });
}

function writeStatus(
  writer: ProtobufWriter,
  { authenticated = false, error = '', audiences = [], user }: WrittenReview['status'] & object,
): void {
  writer.texts(4, audiences);
  writer.text(3, error);
  if (user !== undefined) {
    writer.message(2, () => {
      for (const [key, values] of Object.entries(user.extra ?? {}).toReversed()) {
        writer.message(4, () => {
          writer.message(2, () => writer.texts(1, values));
          writer.text(1, key);
        });
      }
      writer.texts(3, user.groups ?? []);
      writer.text(2, user.uid ?? '');
      writer.text(1, user.username ?? '');
    });
  }
  writer.raw(Buffer.of(8, authenticated ? 1 : 0));
}
