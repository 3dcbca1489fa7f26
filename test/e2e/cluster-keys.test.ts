// Keys of clusters in a real site: an issuer that rotates them, breaks, redirects, stalls or lies, and
// what that means for reviews of its tokens and of those of another cluster.

import assert from 'node:assert/strict';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import {
  keyIdOf,
  type KeyPair,
  signToken,
} from '../../src/auth/review/test-service-account-tokens.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import { credentialOf, forge, purposes } from '../../src/core/identity/x509/test-forge.ts';
import { type Site, startSite } from '../interop/site.ts';
import { until } from './until.ts';

const newKey = (): KeyPair => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const root = forge({ ca: true });
const leaf = forge({
  issuer: root,
  ca: false,
  dnsNames: ['localhost'],
  purposes: [purposes.server],
});
const caBundle = certificatePem(root.der);

/** An issuer of ServiceAccount tokens on loopback. */
class Issuer {
  readonly server: Server;
  keys: readonly KeyPair[];
  /** Replaces the key set: a body, or a redirect. */
  trouble: string | { readonly location: string } | undefined;
  isSilent = false;

  constructor(...keys: readonly KeyPair[]) {
    this.keys = keys;
    const { certificateChain, privateKey } = credentialOf(leaf);
    this.server = createServer({ cert: certificateChain, key: privateKey }, (request, response) => {
      if (request.url !== '/keys') {
        response.end(JSON.stringify({ issuer: this.url, jwks_uri: `${this.url}/keys` }));
      } else if (typeof this.trouble === 'object') {
        response.writeHead(302, this.trouble).end();
      } else if (!this.isSilent) {
        response.end(this.trouble ?? this.document());
      }
    });
  }

  async start(): Promise<this> {
    this.server.listen(0, 'localhost');
    await once(this.server, 'listening');
    return this;
  }

  get url(): string {
    return `https://localhost:${(this.server.address() as AddressInfo).port}`;
  }

  document(): string {
    const keys = this.keys.map((key) => ({
      ...key.publicKey.export({ format: 'jwk' }),
      kid: keyIdOf(key),
      use: 'sig',
      alg: 'ES256',
    }));
    return JSON.stringify({ keys });
  }

  token(key: KeyPair): string {
    const now = Math.floor(Date.now() / 1000);
    return signToken({
      key,
      claims: {
        aud: [this.url],
        exp: now + 600,
        iat: now,
        iss: this.url,
        jti: randomUUID(),
        'kubernetes.io': { namespace: 'shop', serviceaccount: { name: 'web', uid: randomUUID() } },
        nbf: now,
        sub: 'system:serviceaccount:shop:web',
      },
    });
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }
}

let site: Site;
const issuers: Issuer[] = [];

before(async () => {
  site = await startSite();
});
after(async () => {
  for (const issuer of issuers) issuer.stop();
  await site?.stop();
});

async function startIssuer(...keys: readonly KeyPair[]): Promise<Issuer> {
  const issuer = await new Issuer(...keys).start();
  issuers.push(issuer);
  return issuer;
}

async function cluster(name: string, ...keys: readonly KeyPair[]): Promise<Issuer> {
  const issuer = await startIssuer(...keys);
  await register(name, issuer.url);
  return issuer;
}

async function register(name: string, issuer: string): Promise<void> {
  const created = await site.client.send({
    method: 'POST',
    path: '/apis/hansa.dev/v1alpha1/clusters',
    body: JSON.stringify({
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Cluster',
      metadata: { name },
      spec: { issuer, caBundle },
    }),
  });
  assert.equal(created.status, 201, created.text);
}

interface Reviewed {
  readonly http: number;
  readonly user?: string | undefined;
  readonly error?: string | undefined;
}

async function review(name: string, token: string): Promise<Reviewed> {
  const { status, text } = await site.client.send({
    method: 'POST',
    path: `/clusters/${name}/apis/authentication.k8s.io/v1/tokenreviews`,
    body: JSON.stringify({
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token },
    }),
  });
  assert.ok(!text.includes(token) || status === 201, 'an error must not contain the token');
  if (status !== 201) return { http: status };
  const answer = JSON.parse(text) as {
    status: { user?: { username?: string }; error?: string };
  };
  return { http: status, user: answer.status.user?.username, error: answer.status.error };
}

const accepted = {
  http: 201,
  user: 'system:serviceaccount:shop:web',
  error: undefined,
};

async function condition(name: string, type: string): Promise<string> {
  const { text } = await site.client.send({
    method: 'GET',
    path: `/apis/hansa.dev/v1alpha1/clusters/${name}`,
  });
  const { status } = JSON.parse(text) as {
    status?: { conditions?: { type: string; status: string; reason: string }[] };
  };
  const found = status?.conditions?.find((each) => each.type === type);
  return found === undefined ? '' : `${found.status} ${found.reason}`;
}

suite('a cluster whose issuer publishes its keys', () => {
  test('is reviewed from the first token on, and becomes Ready', async () => {
    const key = newKey();
    const issuer = await cluster('first', key);
    assert.deepEqual(await review('first', issuer.token(key)), accepted);
    await until(async () => (await condition('first', 'Ready')) === 'True Reviewing');
    assert.equal(await condition('first', 'KeysFresh'), 'True Fetched');
  });

  test('can rotate its key: tokens of the new one count at once', async () => {
    const [old, next] = [newKey(), newKey()];
    const issuer = await cluster('rotating', old);
    assert.deepEqual(await review('rotating', issuer.token(old)), accepted);
    issuer.keys = [next, old];
    assert.deepEqual(await review('rotating', issuer.token(next)), accepted);
    assert.deepEqual(await review('rotating', issuer.token(old)), accepted);
  });

  test('can remove a key, which ends its tokens with the next fetch', async () => {
    const [old, next] = [newKey(), newKey()];
    const issuer = await cluster('removing', old);
    const token = issuer.token(old);
    assert.deepEqual(await review('removing', token), accepted);
    issuer.keys = [next];
    // The unknown key makes the site fetch.
    assert.deepEqual(await review('removing', issuer.token(next)), accepted);
    const { user, error } = await review('removing', token);
    assert.equal(user, undefined);
    assert.match(error ?? '', /no keys found/);
  });

  for (const [what, trouble] of Object.entries({
    'an empty key set': '{"keys":[]}',
    'a key set of garbage': '<html>Sign in</html>',
    'a huge key set': `{"keys":[${' '.repeat(300_000)}]}`,
    'a redirect': { location: 'https://evil.example/keys' },
  })) {
    test(`keeps its good keys while it publishes ${what}, and cannot add others`, async () => {
      const [key, unknown] = [newKey(), newKey()];
      const name = `broken-${what.replaceAll(' ', '-')}`;
      const issuer = await cluster(name, key);
      assert.deepEqual(await review(name, issuer.token(key)), accepted);
      issuer.trouble = trouble;
      // Not denied: it may be a new key that the site cannot fetch.
      assert.equal((await review(name, issuer.token(unknown))).http, 503);
      assert.deepEqual(await review(name, issuer.token(key)), accepted);
    });
  }

  test('is unavailable, and not denied, where its keys were never fetched', async () => {
    const key = newKey();
    const issuer = await startIssuer(key);
    const [url, token] = [issuer.url, issuer.token(key)];
    issuer.stop();
    await register('never', url);
    assert.equal((await review('never', token)).http, 503);
    await until(async () => (await condition('never', 'Ready')) === 'False Unreachable');
  });
});

suite('one cluster in trouble', () => {
  test('does not change the answers of another', async () => {
    const [good, bad] = [newKey(), newKey()];
    const issuer = await cluster('good', good);
    const silent = await startIssuer(bad);
    silent.isSilent = true;
    await register('silent', silent.url);
    const waiting = review('silent', silent.token(bad));
    for (let count = 0; count < 20; count++) {
      assert.deepEqual(await review('good', issuer.token(good)), accepted);
    }
    silent.isSilent = false;
    silent.server.closeAllConnections();
    await waiting;
    assert.deepEqual(await review('good', issuer.token(good)), accepted);
  });

  test('never answers for another: a token counts only at its own cluster', async () => {
    const [one, other] = [newKey(), newKey()];
    const issuer = await cluster('one', one);
    await cluster('other', other);
    const { user } = await review('other', issuer.token(one));
    assert.equal(user, undefined);
  });
});

suite('the local cluster', () => {
  test('is one: a second one is refused with the name of the first', async () => {
    const answers = await Promise.all(
      ['near', 'here'].map((name) =>
        site.client.send({
          method: 'POST',
          path: '/apis/hansa.dev/v1alpha1/clusters',
          body: JSON.stringify({
            apiVersion: 'hansa.dev/v1alpha1',
            kind: 'Cluster',
            metadata: { name },
            spec: { issuer: 'https://issuer.example', local: true },
          }),
        }),
      ),
    );
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201, 422]));
    const refused = answers.find(({ status }) => status === 422);
    assert.match(refused?.text ?? '', /(?:near|here) is the local cluster/);
  });
});
