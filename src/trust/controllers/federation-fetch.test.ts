import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Bundle, type JwtAuthority } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { federationSite, type TestEndpoint } from '../federation/test-federation-site.ts';

const name = 'bruges.example';
const bruges = TrustDomain.parse(name);
let site: Awaited<ReturnType<typeof federationSite>>;
let peer: TestEndpoint;

beforeEach(async () => {
  site = await federationSite();
  peer = site.endpoint(name);
});

/** Virtual time does not advance, so a stop must not wait for it. */
afterEach(async () => {
  const stopped = site.stop();
  await site.clock.advance(60_000);
  await stopped;
});

const seconds = (count: number): Promise<void> => site.clock.advance(count * 1000);
const held = (): readonly string[] =>
  site.bundles.bundleFor(bruges)?.authorities.map(({ fingerprint }) => fingerprint) ?? [];

function redirectTo(location: string | (() => string)): void {
  peer.answer = () => ({
    status: 302,
    headers: { location: typeof location === 'string' ? location : location() },
    body: Buffer.alloc(0),
  });
}

suite('a fetch', () => {
  test('follows a redirect to the same identity, and asks the first address again next time', async () => {
    const mirror = site.endpoint('mirror.example');
    mirror.presents = forgeLeaf(peer.root, peer.id);
    mirror.answer = () => peer.ok(peer.document([peer.root], 4));
    redirectTo('https://mirror.example/bundle?of=bruges#keys');
    await site.create(name, peer.spec());
    await seconds(1);
    assert.equal((await site.status(name)).sequence, 4);
    assert.equal(mirror.asked?.path, '/bundle?of=bruges');
    await seconds(301);
    assert.equal(peer.requests, 2);
  });

  test('tells what is held, and takes the word of the endpoint that it is still the newest', async () => {
    const document = peer.document([peer.root], 1);
    peer.answer = () =>
      peer.asked?.headers?.['if-none-match'] === '"one"'
        ? { status: 304, headers: {}, body: Buffer.alloc(0) }
        : { ...peer.ok(document), headers: { etag: '"one"' } };
    await site.create(name, peer.spec());
    await seconds(1);
    const before = await site.status(name);
    const revision = site.store.get('spiffefederations', name)?.revision;
    await seconds(301);
    assert.equal(peer.asked?.headers?.['if-none-match'], '"one"');
    const after = await site.status(name);
    assert.equal(after.lastError, undefined);
    assert(Date.parse(after.syncedAt ?? '') > Date.parse(before.syncedAt ?? ''));
    assert.equal(site.store.get('spiffefederations', name)?.revision, revision);
  });

  test('believes nobody who says that nothing changed without having been asked', async () => {
    peer.answer = () => ({ status: 304, headers: {}, body: Buffer.alloc(0) });
    await site.create(name, peer.spec());
    await seconds(1);
    assert.equal((await site.status(name)).lastError?.class, 'http');
  });

  test('does not ask a redirected address by the name that another gave the document', async () => {
    const mirror = site.endpoint('mirror.example');
    mirror.presents = forgeLeaf(peer.root, peer.id);
    mirror.answer = () => peer.ok(peer.document([peer.root], 2));
    peer.answer = () => ({ ...peer.ok(peer.document([peer.root], 1)), headers: { etag: '"one"' } });
    await site.create(name, peer.spec());
    await seconds(1);
    redirectTo('https://mirror.example/');
    await seconds(301);
    assert.equal(mirror.asked?.headers?.['if-none-match'], undefined);
    assert.equal((await site.status(name)).sequence, 2);
  });

  test('that finds nothing new is no commit, and neither is a failure like the one before', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    const revision = () => site.store.get('spiffefederations', name)?.revision;
    const first = revision();
    await seconds(1000);
    assert.equal(revision(), first);
    assert(peer.requests > 3);
    peer.answer = () => 'refused';
    await seconds(400);
    const failed = revision();
    const { consecutiveFailures = 0 } = await site.status(name);
    await seconds(600);
    assert.equal(revision(), failed);
    assert(((await site.status(name)).consecutiveFailures ?? 0) > consecutiveFailures);
  });

  test('takes a bundle without a sequence for the newest, as one that never had one', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    const { keys } = JSON.parse(peer.document([forgeRoot(name), peer.root], 1)) as {
      keys: unknown;
    };
    peer.answer = () => peer.ok(JSON.stringify({ keys }));
    await seconds(301);
    assert.equal((await site.status(name)).sequence, undefined);
    assert.equal(held().length, 2);
  });
});

// SPIFFE Federation §5.2.2.2: an endpoint that is not self-serving.
test('an endpoint of another trust domain is believed by a federation with that one, and by nothing else', async () => {
  const host = site.endpoint('host.example');
  const hosted = { ...peer.spec().bundleSource.httpsSpiffe, endpointSpiffeID: host.id };
  peer.presents = forgeLeaf(host.root, host.id);
  peer.answer = () => peer.ok(peer.document([peer.root], 7));
  await site.create(name, peer.spec({ bundleSource: { httpsSpiffe: hosted } }));
  await seconds(1);
  assert.match((await site.status(name)).lastError?.message ?? '', /no-bundle;/);
  // The fetched bundle cannot vouch for the other trust domain.
  peer.presents = forgeLeaf(peer.root, host.id);
  await site.create(host.trustDomain, host.spec());
  await seconds(320);
  assert.match((await site.status(name)).lastError?.message ?? '', /unknown-authority;/);
  peer.presents = forgeLeaf(host.root, host.id);
  await seconds(320);
  assert.equal((await site.status(name)).sequence, 7);
  // The served bundle does not authenticate its own endpoint.
  assert.deepEqual(held(), [peer.root.certificate.fingerprint]);
});

suite('JWT authorities', () => {
  const jwtKey = (keyId: string) => ({
    keyId,
    publicKey: generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey,
  });
  const document = (sequence: number, ...keys: readonly JwtAuthority[]): string =>
    encodeSpiffeBundle(new Bundle(bruges, [peer.root.certificate], keys), {
      sequence,
      refreshHintSeconds: 300,
    });

  test('are counted and named, and a change of them alone is a rotation', async () => {
    const [old, next] = [jwtKey('monday'), jwtKey('tuesday')];
    peer.answer = () => peer.ok(document(1, old));
    await site.create(name, peer.spec());
    await seconds(1);
    const status = await site.status(name);
    assert.equal(status.authorityCount, 2);
    assert.deepEqual(status.jwtAuthorities, [{ keyID: 'monday' }]);
    peer.answer = () => peer.ok(document(2, next));
    await seconds(301);
    const rotated = site.records.filter(({ verb }) => verb === 'spiffe.federation.rotation');
    assert.equal(rotated.length, 1);
    assert.match(rotated[0]?.reason ?? '', /added jwt "tuesday"; removed jwt "monday"/);
  });

  test('under the same name, but another key, are others', async () => {
    peer.answer = () => peer.ok(document(1, jwtKey('one')));
    await site.create(name, peer.spec());
    await seconds(1);
    peer.answer = () => peer.ok(document(2, jwtKey('one')));
    await seconds(301);
    assert(site.records.some(({ verb }) => verb === 'spiffe.federation.rotation'));
  });

  test('alone are a bundle by https_web, and none where the endpoint is known by the bundle', async () => {
    const { keys } = JSON.parse(document(2, jwtKey('one'))) as { keys: { use: string }[] };
    const jwtOnly = JSON.stringify({ keys: keys.filter(({ use }) => use === 'jwt-svid') });
    await site.create(name, peer.spec());
    await seconds(1);
    peer.answer = () => peer.ok(jwtOnly);
    await seconds(301);
    assert.equal((await site.status(name)).lastError?.class, 'empty');
    await site.change(name, () => peer.webSpec());
    await seconds(1);
    assert.equal((await site.status(name)).authorityCount, 1);
  });
});

suite('a federation by https_web', () => {
  test('is fetched by the rules of its spec, and believed by nobody before', async () => {
    const rules = { caBundle: 'PEM', pinnedKeys: [`sha256/${'A'.repeat(43)}=`] };
    const { answer } = peer;
    peer.answer = () => 'refused';
    await site.create(name, peer.webSpec(rules));
    await seconds(1);
    assert.deepEqual(held(), []);
    peer.answer = answer;
    await site.change(name, (spec) => ({ ...spec, staleAfterSeconds: 600 }));
    await seconds(0.1);
    assert.deepEqual(peer.web, rules);
    await site.remove(name);
    await site.create(name, peer.webSpec());
    await seconds(0.1);
    assert.deepEqual(peer.web, { caBundle: undefined, pinnedKeys: [] });
    const { source, syncedAt } = await site.status(name);
    assert.equal(source, 'https_web');
    assert(syncedAt !== undefined);
    assert.equal(held().length, 1);
  });

  test('keeps what it has when the endpoint empties its bundle', async () => {
    await site.create(name, peer.webSpec());
    await seconds(1);
    peer.answer = () => peer.ok('{"keys":[]}');
    await seconds(301);
    assert.equal((await site.status(name)).lastError?.class, 'empty');
    assert.equal(held().length, 1);
  });

  test('takes nothing over from another kind of source', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    peer.answer = () => 'refused';
    await site.change(name, () => peer.webSpec());
    await seconds(1);
    assert.deepEqual(held(), []);
    assert.equal((await site.status(name)).bundle, undefined);
  });
});

suite('an operator', () => {
  test('has a federation looked at now, whatever the time', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    await site.refresh(name);
    await seconds(0.1);
    assert.equal(peer.requests, 2);
    assert.equal(site.store.get('trust.refresh', name), undefined);
  });

  test('accepts that a sequence went back, for once', async () => {
    peer.answer = () => peer.ok(peer.document([peer.root], 9));
    await site.create(name, peer.spec());
    await seconds(1);
    const rebuilt = forgeRoot(name);
    peer.answer = () => peer.ok(peer.document([peer.root, rebuilt], 3));
    await site.refresh(name);
    await seconds(0.1);
    assert.equal((await site.status(name)).lastError?.class, 'sequence');
    await site.refresh(name, { acceptRollback: true });
    await seconds(0.1);
    assert.equal((await site.status(name)).sequence, 3);
    assert.equal(held().length, 2);
    peer.answer = () => peer.ok(peer.document([peer.root], 2));
    await site.refresh(name);
    await seconds(0.1);
    assert.equal((await site.status(name)).sequence, 3);
  });

  test('begins anew with another bootstrap, which a change of the spec alone does not', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    const [old, rebuilt] = [peer.root, forgeRoot(name)];
    peer.root = rebuilt;
    peer.answer = () => peer.ok(peer.document([rebuilt], 1));
    await site.change(name, () => peer.spec());
    await seconds(1);
    assert.equal((await site.status(name)).lastError?.class, 'identity');
    assert.deepEqual(held(), [old.certificate.fingerprint]);
    await site.refresh(name, { rebootstrap: true });
    await seconds(0.1);
    assert.deepEqual(held(), [rebuilt.certificate.fingerprint]);
    const status = await site.status(name);
    assert.equal(status.lastError, undefined);
    assert.equal(status.bootstrappedAt, undefined);
    assert(site.records.some(({ verb }) => verb === 'spiffe.federation.rotation'));
  });

  test('who asks for what is not there leaves nothing behind', async () => {
    await site.refresh('nobody.example');
    await seconds(1);
    assert.equal(site.store.get('trust.refresh', 'nobody.example'), undefined);
  });
});

test('hundreds of silent peers do not delay a healthy one either, from their second turn on', async () => {
  for (let i = 0; i < 300; i++) {
    const dead = site.endpoint(`dead${i}.example`);
    dead.answer = () => 'silence';
    await site.create(dead.trustDomain, dead.spec());
  }
  // The first fetches have failed by now, and would all be retried for ten seconds each.
  await seconds(12);
  await site.create(name, peer.spec());
  await seconds(0.1);
  assert.equal((await site.condition(name, 'Ready'))?.reason, 'BundleAccepted');
});

test('peers that were made together are asked ever less together, and none later than its hint says', async () => {
  const names = Array.from({ length: 40 }, (_, i) => `peer${i}.example`);
  for (const each of names) await site.create(each, site.endpoint(each).spec());
  await seconds(1);
  const waits = await Promise.all(
    names.map(async (each) => {
      const { syncedAt = '', nextSyncAt = '' } = await site.status(each);
      return (Date.parse(nextSyncAt) - Date.parse(syncedAt)) / 1000;
    }),
  );
  assert(Math.min(...waits) >= 269 && Math.max(...waits) <= 300, waits.join());
  // Over a tenth of five minutes, by the second: more than half of that is used.
  assert(new Set(waits).size > 15, waits.join());
});

test('fifty silent peers do not delay a healthy one', async () => {
  for (let i = 0; i < 50; i++) {
    const dead = site.endpoint(`dead${i}.example`);
    dead.answer = () => 'silence';
    await site.create(dead.trustDomain, dead.spec());
  }
  await site.create(name, peer.spec());
  await seconds(0.1);
  assert.equal((await site.condition(name, 'Ready'))?.reason, 'BundleAccepted');
});
