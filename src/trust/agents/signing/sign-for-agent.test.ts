import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { suite, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { type SignResponse, SignRequestSchema } from '../../../../proto/gen/agent_pb.ts';
import { agentKind } from '../../../api/kinds/agent.ts';
import { maxSignBatch } from '../../../core/agent/limits.ts';
import { validateJwtSvid } from '../../../core/identity/jwt/svid-validator.ts';
import { Certificate } from '../../../core/identity/x509/certificate.ts';
import { validateChain } from '../../../core/identity/x509/svid-validator.ts';
import { put, putEntry, remove } from '../../workload/test-workload-site.ts';
import { jwtQuota, x509Quota } from './sign-for-agent.ts';
import {
  type Asked,
  crane,
  exporter,
  newKey,
  onCrane,
  refusals,
  requestOf,
  type SigningSite,
  signingSite,
  x509Request,
} from './test-signing-site.ts';

async function refusalOf(site: SigningSite, asked: Asked): Promise<string> {
  const response = await site.sign(crane, requestOf([asked]), exporter);
  assert.deepEqual(response.x509[0]?.chain, []);
  return refusals(response)[0] ?? '';
}

suite('signing for an agent', () => {
  test('gives an SVID with the identity, names and lifetime of the stored entry', async (t) => {
    const site = await signingSite(t, { siteNames: ['lubeck.example'] });
    await putEntry(site.store, 'web', {
      ...onCrane,
      dnsNames: ['web.lubeck.example', 'lubeck.example'],
      ttlSeconds: 120,
    });
    const key = await newKey();
    const response = await site.sign(
      crane,
      requestOf([{ entry: 'uid-web', key }], [], 9n),
      exporter,
    );
    assert.equal(response.id, 9n);
    const [result] = response.x509;
    assert.equal(result?.authority, site.authority.certificate.fingerprint);
    const chain = (result?.chain ?? []).map((der) => Certificate.parse(Buffer.from(der)));
    const bundles = { bundleFor: () => site.authority.bundle };
    const svid = validateChain(chain, bundles, site.clock.now());
    assert.equal(svid.id.toString(), 'spiffe://lubeck.example/web');
    const leaf = chain[0] as Certificate;
    assert.deepEqual(leaf.extensions.subjectAlternativeName?.dnsNames, ['web.lubeck.example']);
    assert.ok(leaf.notAfterMs - site.clock.now() <= 120_000);
    assert.ok(createPublicKey(key).equals(leaf.publicKey));
  });

  test('gives no name below a reserved domain, though the entry had it before', async (t) => {
    const site = await signingSite(t, { siteNames: ['.kube-fed.svc', '.kube-fed'] });
    const taken = ['api.app1.kube-fed.svc', 'kube-fed.svc', '*.app1.kube-fed', 'api.kube-fed'];
    await putEntry(site.store, 'web', { ...onCrane, dnsNames: [...taken, 'web.lubeck.example'] });
    const key = await newKey();
    const { x509 } = await site.sign(crane, requestOf([{ entry: 'uid-web', key }]), exporter);
    const leaf = Certificate.parse(Buffer.from(x509[0]?.chain[0] as Uint8Array));
    assert.deepEqual(leaf.extensions.subjectAlternativeName?.dnsNames, ['web.lubeck.example']);
  });

  test('gives a JWT-SVID for the audience, with the lifetime of the entry', async (t) => {
    const site = await signingSite(t, { jwtIssuer: 'https://lubeck.example' });
    await putEntry(site.store, 'web', onCrane);
    const request = requestOf([], [{ entry: 'uid-web', audience: ['db'] }]);
    const { jwt } = await site.sign(crane, request, exporter);
    const bundles = { bundleFor: () => site.authority.bundle };
    const token = jwt[0]?.token ?? '';
    const { id, claims } = validateJwtSvid(token, 'db', bundles, site.clock.now());
    assert.equal(id.toString(), 'spiffe://lubeck.example/web');
    assert.equal(claims['iss'], 'https://lubeck.example');
    assert.equal(jwt[0]?.keyId, site.authority.jwtSigner.keyId);
    assert.equal(Number(jwt[0]?.expiresAtMs) - Number(jwt[0]?.issuedAtMs), 300_000);
  });

  test('gives nothing for an entry that is assigned to another agent, deleted, or nowhere', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'foreign', { agents: { names: ['crane-2'] } });
    await putEntry(site.store, 'here', {});
    await putEntry(site.store, 'gone', onCrane);
    await remove(site.store, 'workloadentries', 'gone');
    const key = await newKey();
    const unknown = /^HANSA_FORBIDDEN .* no usable WorkloadEntry with this uid is assigned/;
    for (const entry of [
      'uid-foreign',
      'uid-here',
      'uid-gone',
      'uid-nowhere',
      '',
      'x'.repeat(5000),
    ]) {
      const refused = await refusalOf(site, { entry, key });
      assert.match(refused, unknown);
      assert.ok(refused.length < 300);
      const request = requestOf([], [{ entry, audience: ['db'] }]);
      assert.match(refusals(await site.sign(crane, request, exporter))[0] ?? '', unknown);
    }
    assert.deepEqual(await site.records(), []);
  });

  test('gives nothing for an entry that is being deleted', async (t) => {
    const site = await signingSite(t);
    await site.store.commit({
      put: [
        {
          collection: 'workloadentries',
          name: 'web',
          encode: () =>
            Buffer.from(
              JSON.stringify({
                metadata: { name: 'web', uid: 'uid-web', generation: 1, deletionTimestamp: 'x' },
                spec: {
                  spiffeID: 'spiffe://lubeck.example/web',
                  selectors: ['unix:uid:1'],
                  federatesWith: [],
                  ...onCrane,
                },
              }),
            ),
        },
      ],
    });
    assert.match(
      await refusalOf(site, { entry: 'uid-web', key: await newKey() }),
      /^HANSA_FORBIDDEN/,
    );
  });

  test('stops for an entry that moves to another agent, and for an agent that loses a label', async (t) => {
    const site = await signingSite(t);
    const key = await newKey();
    const asked = requestOf([{ entry: 'uid-web', key }]);
    await putEntry(site.store, 'web', onCrane);
    assert.deepEqual(refusals(await site.sign(crane, asked, exporter)), [undefined]);
    await putEntry(site.store, 'web', { agents: { names: ['crane-2'] } });
    assert.match(refusals(await site.sign(crane, asked, exporter))[0] ?? '', /^HANSA_FORBIDDEN/);
    await putEntry(site.store, 'web', { agents: { selector: { matchLabels: { zone: 'north' } } } });
    await put(site.store, agentKind.plural, 'crane-1', { spec: {} }, { zone: 'north' });
    assert.deepEqual(refusals(await site.sign(crane, asked, exporter)), [undefined]);
    await put(site.store, agentKind.plural, 'crane-1', { spec: {} }, { zone: 'south' });
    assert.match(refusals(await site.sign(crane, asked, exporter))[0] ?? '', /^HANSA_FORBIDDEN/);
  });

  test('never gives an identity below /hansa, of another trust domain or without a path', async (t) => {
    const site = await signingSite(t);
    const ids = [
      'spiffe://lubeck.example/hansa/agent/crane-2',
      'spiffe://lubeck.example/hansa/site',
      'spiffe://lubeck.example/hansa',
      'spiffe://bruges.example/web',
      'spiffe://lubeck.example',
    ];
    for (const [at, spiffeID] of ids.entries()) {
      await putEntry(site.store, `bad-${at}`, { ...onCrane, spiffeID });
      const entry = `uid-bad-${at}`;
      const request = requestOf([{ entry, key: await newKey() }], [{ entry, audience: ['x'] }]);
      for (const refused of refusals(await site.sign(crane, request, exporter))) {
        assert.match(refused ?? '', /^HANSA_FORBIDDEN/, spiffeID);
      }
    }
  });

  test('accepts a proof only for this key, entry, request, connection, agent and trust domain', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    await putEntry(site.store, 'db', onCrane);
    const key = await newKey();
    const other = await newKey();
    const spki = createPublicKey(other).export({ format: 'der', type: 'spki' });
    const wrong: readonly Partial<Asked>[] = [
      { proves: { exporter: Buffer.alloc(32, 8) } },
      { proves: { request: 2n } },
      { proves: { entry: 'uid-db' } },
      { proves: { agent: 'crane-2' } },
      { proves: { trustDomain: 'bruges.example' } },
      { proves: { publicKey: spki } },
      { proof: new Uint8Array() },
      { proof: Buffer.alloc(70, 0x30) },
      { proof: x509Request({ entry: 'uid-web', key: other }, 1n).proof },
    ];
    for (const one of wrong) {
      const refused = await refusalOf(site, { entry: 'uid-web', key, ...one });
      assert.match(refused, /^HANSA_FORBIDDEN .* does not prove that the agent holds the key/);
    }
    assert.deepEqual(await site.records(), []);
    // The same request over another connection.
    const request = requestOf([{ entry: 'uid-web', key }]);
    assert.deepEqual(refusals(await site.sign(crane, request, exporter)), [undefined]);
    const replayed = await site.sign(crane, request, Buffer.alloc(32, 9));
    assert.match(refusals(replayed)[0] ?? '', /does not prove/);
    const byAnother = await site.sign({ ...crane, name: 'crane-2' }, request, exporter);
    assert.match(refusals(byAnother)[0] ?? '', /^HANSA_FORBIDDEN/);
  });

  test('signs keys of all allowed types, and no weak or broken ones', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    const good: readonly KeyObject[] = [
      generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey,
      generateKeyPairSync('ec', { namedCurve: 'P-521' }).privateKey,
      generateKeyPairSync('ed25519').privateKey,
      generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
    ];
    const all = requestOf(good.map((key) => ({ entry: 'uid-web', key })));
    assert.deepEqual(
      refusals(await site.sign(crane, all, exporter)),
      good.map(() => undefined),
    );
    const huge = createPublicKey({
      key: { kty: 'RSA', n: Buffer.alloc(2048, 0xc1).toString('base64url'), e: 'AQAB' },
      format: 'jwk',
    }).export({ format: 'der', type: 'spki' });
    const spkiOf = (key: KeyObject): Buffer =>
      createPublicKey(key).export({ format: 'der', type: 'spki' });
    const offCurve = Buffer.from(spkiOf(await newKey()));
    offCurve.fill(1, offCurve.length - 10);
    const bad: readonly Uint8Array[] = [
      spkiOf(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey),
      spkiOf(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey),
      spkiOf(generateKeyPairSync('x25519').privateKey),
      huge,
      offCurve,
      new Uint8Array(),
      Buffer.alloc(91, 0x30),
    ];
    const request = create(SignRequestSchema, {
      id: 1n,
      x509: bad.map((publicKey) => ({ entry: 'uid-web', publicKey, proof: Buffer.alloc(64) })),
    });
    for (const refused of refusals(await site.sign(crane, request, exporter))) {
      assert.match(refused ?? '', /^HANSA_CERTIFICATE_INVALID/);
    }
  });

  test('signs the other requests of a batch where one is refused', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    const key = await newKey();
    const request = requestOf(
      [
        { entry: 'uid-web', key },
        { entry: 'uid-none', key },
        { entry: 'uid-web', key },
      ],
      [
        { entry: 'uid-web', audience: [] },
        { entry: 'uid-web', audience: ['db'] },
      ],
    );
    const response = await site.sign(crane, request, exporter);
    assert.deepEqual(
      refusals(response).map((one) => one?.split(' ')[0]),
      [undefined, 'HANSA_FORBIDDEN', undefined, 'HANSA_BAD_REQUEST', undefined],
    );
    assert.equal((await site.records()).length, 3);
  });

  test('bounds audiences as the Workload API does', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    const bad = [
      [],
      [''],
      Array<string>(33).fill('x'),
      ['x'.repeat(2049)],
      Array<string>(3).fill('x'.repeat(2000)),
    ];
    const request = requestOf(
      [],
      bad.map((audience) => ({ entry: 'uid-web', audience })),
    );
    for (const refused of refusals(await site.sign(crane, request, exporter))) {
      assert.match(refused ?? '', /^HANSA_BAD_REQUEST .*audience/);
    }
  });

  test('rejects a batch with too many requests, without checking any', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    const jwt = Array.from({ length: maxSignBatch + 1 }, () => ({
      entry: 'uid-web',
      audience: ['x'],
    }));
    await assert.rejects(site.sign(crane, requestOf([], jwt), exporter), /the limit is 256/);
    assert.equal(site.denials[0]?.code, 'HANSA_BAD_REQUEST');
    assert.deepEqual(await site.records(), []);
  });
});

suite('the quota of an agent', () => {
  const refusedOf = (response: SignResponse): number =>
    refusals(response).filter((one) => one?.startsWith('HANSA_TOO_MANY_REQUESTS')).length;
  const tokens = (count: number) =>
    requestOf(
      [],
      Array.from({ length: count }, () => ({ entry: 'uid-web', audience: ['x'] })),
    );
  /** They cost quota too, and are cheap. */
  const broken = (count: number) =>
    create(SignRequestSchema, {
      id: 1n,
      x509: Array.from({ length: count }, () => ({ entry: 'uid-none' })),
    });

  test('lets an agent with a thousand entries restart and renew, and refuses a flood', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    assert.ok(x509Quota.burst >= 2000 && x509Quota.perSecond >= 1000 / 30);
    for (let left: number = x509Quota.burst; left > 0; left -= 250) {
      assert.equal(refusedOf(await site.sign(crane, broken(250), exporter)), 0);
    }
    const flood = await site.sign(crane, broken(200), exporter);
    assert.equal(refusedOf(flood), 200);
    assert.match(refusals(flood)[0] ?? '', /crane-1 requested too many SVIDs. Try again in 1 s/);
    await site.clock.advance(1000);
    assert.equal(refusedOf(await site.sign(crane, broken(250), exporter)), 150);
  });

  test('is one for certificates and another one for tokens, for each agent', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', { agents: { names: ['crane-1', 'crane-2'] } });
    for (let left: number = jwtQuota.burst; left > 0; left -= 250) {
      assert.equal(refusedOf(await site.sign(crane, tokens(250), exporter)), 0);
    }
    assert.equal(refusedOf(await site.sign(crane, tokens(1), exporter)), 1);
    assert.equal(refusedOf(await site.sign(crane, broken(1), exporter)), 0);
    const other = { ...crane, name: 'crane-2' };
    assert.deepEqual(refusals(await site.sign(other, tokens(1), exporter)), [undefined]);
  });
});

suite('an agent that the site does not sign for', () => {
  const asked = async (site: SigningSite) => {
    await putEntry(site.store, 'web', onCrane);
    return requestOf(
      [{ entry: 'uid-web', key: await newKey() }],
      [{ entry: 'uid-web', audience: ['x'] }],
    );
  };
  const vouched = {
    name: 'crane-1',
    provenBy: 'spiffe://bruges.example/host',
    peerUid: 'uid-bruges.example',
  };
  const peer = (site: SigningSite, desiredState: string, state: string) =>
    put(site.store, 'federationpeers', 'bruges.example', {
      spec: { desiredState },
      status: { state },
    });

  test('gets nothing while it is conflicted, and is told what an operator can do', async (t) => {
    const site = await signingSite(t);
    const request = await asked(site);
    site.members.set('agent/crane-1', { name: 'crane-1', provenBy: 'secret', conflictedAtMs: 0 });
    for (const refused of refusals(await site.sign(crane, request, exporter))) {
      assert.match(refused ?? '', /^HANSA_UNAVAILABLE .*conflicted.*hansa agent reinstate crane-1/);
    }
    assert.deepEqual(await site.records(), []);
  });

  test('gets nothing after it was forgotten', async (t) => {
    const site = await signingSite(t);
    const request = await asked(site);
    site.members.delete('agent/crane-1');
    for (const refused of refusals(await site.sign(crane, request, exporter))) {
      assert.match(refused ?? '', /^HANSA_FORBIDDEN .*forgotten/);
    }
  });

  test('gets nothing while the peer that vouched for it is suspended, or after it was revoked', async (t) => {
    const site = await signingSite(t);
    const request = await asked(site);
    site.members.set('agent/crane-1', vouched);
    await put(site.store, 'spiffefederations', 'bruges.example', {
      spec: { bundleSource: { httpsWeb: {} } },
    });
    const first = async (): Promise<string> =>
      refusals(await site.sign(crane, request, exporter))[0] ?? 'none';
    await peer(site, 'active', 'active');
    assert.equal(await first(), 'none');
    await peer(site, 'suspended', 'active');
    assert.match(await first(), /^HANSA_UNAVAILABLE .*suspended/);
    await peer(site, 'active', 'revoked');
    assert.match(await first(), /^HANSA_FORBIDDEN .*revoked/);
  });
});
