// Joins with an independent client (grpc-go and crypto/tls): with SVIDs of another site and every
// key type, and with a secret.

import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { joinTokenKind } from '../../src/api/kinds/join-token.ts';
import { missingTools } from './tool.ts';
import { startWorkloadSite, type WorkloadSite } from './workload-site.ts';

const skip = await missingTools('join-client');

const keys: readonly (readonly [string, () => { readonly privateKey: KeyObject }])[] = [
  ['P-256', () => generateKeyPairSync('ec', { namedCurve: 'prime256v1' })],
  ['P-384', () => generateKeyPairSync('ec', { namedCurve: 'secp384r1' })],
  ['RSA', () => generateKeyPairSync('rsa', { modulusLength: 2048 })],
  ['Ed25519', () => generateKeyPairSync('ed25519')],
];

suite('a client of grpc-go', { skip }, () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  let client: string;
  let authorities: string;
  const folder = mkdtempSync(join(tmpdir(), 'hansa-join-'));

  /** An SVID of bruges for a key of ours, in two files. */
  const mint = async (name: string, path: string, { privateKey }: { privateKey: KeyObject }) => {
    const publicKey = createPublicKey(privateKey).export({ format: 'pem', type: 'spki' });
    const answer = await bruges.admin.request('POST', '/hansa/v1/svids', {
      body: { spiffeID: `spiffe://bruges.example${path}`, publicKey },
    });
    const { certificate } = JSON.parse(answer.text) as { readonly certificate: string };
    const files = [join(folder, `${name}.pem`), join(folder, `${name}.key`)] as const;
    writeFileSync(files[0], certificate);
    writeFileSync(files[1], privateKey.export({ format: 'pem', type: 'pkcs8' }));
    return files;
  };
  const joinWith = async (...args: readonly string[]) => {
    const { host } = new URL(lubeck.url);
    const ended = await lubeck.run(client, host, 'lubeck.example', authorities, ...args);
    assert.equal(ended.lines.length, 1, ended.stderr);
    return ended.lines[0] as {
      readonly spiffeID?: string;
      readonly verified?: boolean;
      readonly generation?: number;
      readonly code?: string;
    };
  };

  before(async () => {
    lubeck = await startWorkloadSite('lubeck.example');
    bruges = await startWorkloadSite('bruges.example');
    client = await lubeck.program('client', 'join-client');
    authorities = join(lubeck.dataDir, 'ca.pem');
    const made = [
      await lubeck.apply(joinTokenKind, 'ci-runners', {
        method: 'spiffe',
        roles: ['bot', 'agent'],
        botName: 'ci',
        spiffe: { allow: [{ spiffeID: 'spiffe://bruges.example/ci/*' }] },
      }),
      await lubeck.apply(joinTokenKind, 'machines', {
        method: 'secret',
        roles: ['agent'],
        expiresAt: '2099-01-01T00:00:00Z',
      }),
    ];
    for (const answer of made) assert.equal(answer.status, 201, answer.text);
    await lubeck.federateWith(bruges);
  });
  after(async () => {
    await lubeck.stop();
    await bruges.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  for (const [kind, make] of keys) {
    test(`joins with an SVID whose key is of ${kind}`, async () => {
      const [svid, key] = await mint(kind, '/ci/runner', make());
      const answer = await joinWith('ci-runners', 'bot', '', 'spiffe', svid, key);
      assert.deepEqual(
        { ...answer, instance: '' },
        {
          spiffeID: 'spiffe://lubeck.example/hansa/bot/ci',
          generation: 1,
          instance: '',
          verified: true,
        },
      );
    });
  }

  test('joins with a secret, once under a name', async () => {
    const made = await lubeck.admin.request('POST', '/hansa/v1/join/secrets/machines', {});
    const secret = join(folder, 'secret');
    writeFileSync(secret, (JSON.parse(made.text) as { readonly secret: string }).secret);
    const first = await joinWith('machines', 'agent', 'crane-1', 'secret', secret);
    assert.equal(first.spiffeID, 'spiffe://lubeck.example/hansa/agent/crane-1');
    const second = await joinWith('machines', 'agent', 'crane-1', 'secret', secret);
    assert.equal(second.code, 'AlreadyExists');
  });

  test('sees the same refusal for an unknown token, a denied identity and the key of another', async () => {
    const [svid, key] = await mint('web', '/web', generateKeyPairSync('ed25519'));
    const [good, other] = await mint('good', '/ci/x', generateKeyPairSync('ed25519'));
    const refusals = [
      await joinWith('nothing', 'bot', '', 'spiffe', good, other),
      await joinWith('ci-runners', 'bot', '', 'spiffe', svid, key),
      await joinWith('ci-runners', 'bot', '', 'spiffe', good, key),
    ];
    assert.equal(refusals[0]?.code, 'PermissionDenied');
    assert.deepEqual(refusals, [refusals[0], refusals[0], refusals[0]]);
  });
});
