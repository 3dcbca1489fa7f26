// Test fixture: the credentials of clusters on an in-memory store, with a folder for files.

import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Cluster } from '../../../api/kinds/cluster.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import { testSite } from '../../identity/authority/test-vault.ts';
import { openStore } from '../../store/open.ts';
import { createSealer } from '../../store/sealing/sealer.ts';
import { ClusterCredentials, type ClusterCredentialsOptions } from './cluster-credentials.ts';

export const hour = 3_600_000;
export const apiServer = 'https://app1.example:6443';

/** A ServiceAccount token with a worthless signature. */
export function tokenOf(
  issuedAtMs: number,
  lifeMs: number | undefined,
  change: Readonly<Record<string, unknown>> = {},
): string {
  const iat = Math.floor(issuedAtMs / 1000);
  const claims = {
    iss: 'https://kubernetes.default.svc',
    sub: 'system:serviceaccount:kube-fed:hansa',
    aud: ['https://kubernetes.default.svc'],
    iat,
    ...(lifeMs === undefined ? {} : { exp: iat + lifeMs / 1000 }),
    ...change,
  };
  const encode = (value: unknown): string =>
    Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${encode({ alg: 'ES256', kid: 'k' })}.${encode(claims)}.c2lnbmF0dXJl`;
}

/** A spec as users write it, without defaults. */
export type WrittenSpec = Readonly<Record<string, unknown>>;

export function clusterOf(spec: WrittenSpec = {}, generation = 1): Cluster {
  return {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Cluster',
    metadata: {
      name: 'app1',
      uid: 'uid-1',
      generation,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: { issuer: 'https://kubernetes.default.svc', apiServer, ...spec },
  } as unknown as Cluster;
}

export async function credentialScene(
  t: TestContext,
  options: Partial<Pick<ClusterCredentialsOptions, 'inCluster' | 'jwtIssuer'>> = {},
) {
  const clock = new VirtualClock(Date.UTC(2026, 0));
  const random = new SeededRandom('credentials');
  const store = await openStore({ driver: 'memory' }, { clock });
  const { authority } = await testSite('lubeck.example', { clock });
  const sealer = createSealer(Buffer.alloc(32, 7), random);
  const folder = mkdtempSync(join(tmpdir(), 'hansa-credentials-'));
  const open = (): ClusterCredentials =>
    new ClusterCredentials({
      store,
      sealer,
      clock,
      folder,
      trustDomain: authority.trustDomain,
      authority,
      jwtIssuer: () => 'https://lubeck.example',
      inCluster: { folder, host: undefined },
      ...options,
    });
  t.after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await store.close();
  });
  return {
    clock,
    random,
    store,
    authority,
    sealer,
    folder,
    credentials: open(),
    /** Another replica, or the same after a restart. */
    open,
    write: (path: string, text: string): void => {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    },
  };
}

/** A key that belongs to no certificate of the tests. */
export const otherKey = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString();
