import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { maxBundleBytes } from '../../core/identity/bundle/spiffe-bundle.ts';
import { forge, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
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

suite('a federation by https_spiffe', () => {
  test('is fetched at once, and then as often as its hint says', async () => {
    await site.create(name, peer.spec());
    await seconds(0.1);
    assert.equal(peer.requests, 1);
    const status = await site.status(name);
    assert.equal(status.sequence, 1);
    assert.equal(status.refreshHintSeconds, 300);
    assert.equal(status.authorityCount, 1);
    assert.equal((await site.condition(name, 'Ready'))?.status, 'True');
    assert.equal((await site.condition(name, 'Fresh'))?.status, 'True');
    assert.equal((await site.condition(name, 'EndpointReachable'))?.status, 'True');
    await seconds(269);
    assert.equal(peer.requests, 1);
    await seconds(32);
    assert.equal(peer.requests, 2);
  });

  test('is believed by its bootstrap before the first answer', async () => {
    peer.answer = () => 'silence';
    await site.create(name, peer.spec());
    assert.deepEqual(held(), [peer.root.certificate.fingerprint]);
  });

  test('says before the first answer that its bootstrap is in use, and only where it is', async () => {
    const meanwhile =
      /^The endpoint has not confirmed the bundle yet\. .* the bootstrap bundle\. \S/;
    const message = async () => (await site.condition(name, 'Ready'))?.message ?? '';
    peer.answer = () => 'refused';
    await site.create(name, peer.spec());
    await seconds(1);
    assert.equal((await site.condition(name, 'Ready'))?.status, 'False');
    assert.equal((await site.condition(name, 'Ready'))?.reason, 'Connect');
    assert.match(await message(), meanwhile);
    await site.change(name, (spec) => ({ ...spec, quarantined: true }));
    await seconds(600);
    assert.doesNotMatch(await message(), meanwhile);
  });

  test('is fetched at once when its spec changes, or a newer bundle is announced', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    await site.change(name, (spec) => ({ ...spec, staleAfterSeconds: 7200 }));
    await seconds(0.1);
    assert.equal(peer.requests, 2);
    const next = forgeRoot(name);
    peer.answer = () => peer.ok(peer.document([peer.root, next], 2));
    await site.change(name, (spec) => ({ ...spec, announcedSequence: 2 }));
    await seconds(0.1);
    assert.equal(held().length, 2);
  });

  test('is fetched again where its spec changed while it was fetched', async () => {
    peer.answer = () => 'silence';
    await site.create(name, peer.spec());
    await seconds(5);
    assert.equal(peer.requests, 1);
    await site.change(name, (spec) => ({ ...spec, announcedSequence: 7 }));
    peer.answer = () => peer.ok(peer.document([peer.root], 7));
    // The first one ends without an answer after ten seconds; the second does not wait for a retry.
    await seconds(5.1);
    assert.equal(peer.requests, 2);
    assert.equal((await site.status(name)).sequence, 7);
  });

  test('made anew under the same name takes nothing from a fetch for the one before', async () => {
    const slow = site.endpoint(name);
    slow.root = peer.root;
    let answered = (): void => undefined;
    slow.delay = new Promise<void>((resolve) => {
      answered = resolve;
    });
    await site.create(name, slow.spec());
    await seconds(1);
    await site.remove(name);
    const rebuilt = site.endpoint(name);
    rebuilt.answer = () => 'refused';
    await site.create(name, rebuilt.spec());
    answered();
    await seconds(1);
    assert.deepEqual(held(), [rebuilt.root.certificate.fingerprint]);
    assert(rebuilt.requests > 0);
  });

  test('may begin with another sequence than its bootstrap, which no endpoint gave', async () => {
    const { bundleSource, ...rest } = peer.spec();
    const bundleBootstrap = peer.document([peer.root], 9);
    await site.create(name, {
      ...rest,
      bundleSource: {
        httpsSpiffe: { ...bundleSource.httpsSpiffe, bundleBootstrap } as never,
      },
    });
    await seconds(1);
    assert.equal((await site.status(name)).sequence, 1);
  });

  test('tells which keys of a bundle it left out', async () => {
    const document = JSON.parse(peer.document([peer.root], 2)) as { keys: unknown[] };
    document.keys.unshift({ use: 'x509-svid', kty: 'LATTICE' });
    peer.answer = () => peer.ok(JSON.stringify(document));
    await site.create(name, peer.spec());
    await seconds(1);
    assert.match((await site.condition(name, 'Ready'))?.message ?? '', /Skipped 1 of its keys/);
    assert.equal(held().length, 1);
  });

  test('follows a rotation, by which the next endpoint certificate is believed, and records it', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    const before = peer.root;
    const next = forgeRoot(name);
    peer.answer = () => peer.ok(peer.document([before, next], 2, 60));
    await seconds(301);
    peer.root = next;
    peer.answer = () => peer.ok(peer.document([next], 3, 60));
    await seconds(61);
    assert.deepEqual(held(), [next.certificate.fingerprint]);
    const rotations = site.records.filter(({ verb }) => verb === 'spiffe.federation.rotation');
    assert.equal(rotations.length, 2);
    const [added, removed] = [next, before].map(({ certificate }) =>
      certificate.fingerprint.slice(0, 16),
    );
    assert.match(rotations[0]?.reason ?? '', new RegExp(`added x509 ${added}; removed none`));
    assert.match(rotations[1]?.reason ?? '', new RegExp(`added none; removed x509 ${removed}`));
  });

  test('is still fetched while quarantined, believed by nobody, and back when that ends', async () => {
    await site.create(name, peer.spec({ quarantined: true }));
    await seconds(1);
    assert.equal((await site.condition(name, 'Ready'))?.status, 'True');
    assert.deepEqual(held(), []);
    const next = forgeRoot(name);
    peer.answer = () => peer.ok(peer.document([peer.root, next], 2));
    await seconds(301);
    await site.change(name, (spec) => ({ ...spec, quarantined: false }));
    assert.equal(held().length, 2);
  });

  test('is not asked any more after it was deleted, and not believed', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    await site.federations.delete(name, { controller: 'test' });
    assert.deepEqual(held(), []);
    await seconds(3600);
    assert.equal(peer.requests, 1);
  });

  test('creation, change and deletion are recorded under their own names', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    await site.change(name, (spec) => ({ ...spec, staleAfterSeconds: 60 }));
    await site.federations.delete(name, { controller: 'test' });
    const verbs = site.records.map(({ verb }) => verb);
    assert(verbs.includes('spiffe.federation.create'));
    assert(verbs.includes('spiffe.federation.update'));
    assert(verbs.includes('spiffe.federation.delete'));
  });
});

function redirectTo(location: string | (() => string)): void {
  peer.answer = () => ({
    status: 302,
    headers: { location: typeof location === 'string' ? location : location() },
    body: Buffer.alloc(0),
  });
}

suite('what goes wrong shows in the status, and the last good bundle stays', () => {
  const wrong: Record<string, { class: string; says: RegExp; make: () => void }> = {
    'nobody answers': {
      class: 'connect',
      says: /nobody answers/,
      make: () => (peer.answer = () => 'refused'),
    },
    'it never answers': {
      class: 'unreachable',
      says: /did not answer/,
      make: () => (peer.answer = () => 'silence'),
    },
    'it answers with another status': {
      class: 'http',
      says: /HTTP status 503/,
      make: () => (peer.answer = () => ({ status: 503, headers: {}, body: Buffer.alloc(0) })),
    },
    'it redirects to a name that nobody knows': {
      class: 'dns',
      says: /elsewhere\.example: no such name/,
      make: () => redirectTo('https://elsewhere.example/'),
    },
    'it redirects to http': {
      class: 'redirect',
      says: /leads to .*http:.*only https is accepted/,
      make: () => redirectTo('http://bruges.example:8443/'),
    },
    'it redirects with a password': {
      class: 'redirect',
      says: /^(?!.*secret).*with a user or a password/,
      make: () => redirectTo('https://user:secret@bruges.example:8443/'),
    },
    'it redirects to nowhere': {
      class: 'redirect',
      says: /no Location/,
      make: () => redirectTo('https://'),
    },
    'it redirects to itself': {
      class: 'redirect',
      says: /forms a loop/,
      make: () => redirectTo(peer.url),
    },
    'it redirects without end': {
      class: 'redirect',
      says: /more than 5 redirects/,
      make: () => redirectTo(() => `https://bruges.example:8443/${peer.requests}`),
    },
    'it redirects to somebody of another identity': {
      class: 'identity',
      says: /calls itself spiffe:\/\/\S+, which this site cannot verify, expected \S+ \(no-bundle;/,
      make: () => {
        site.endpoint('elsewhere.example');
        redirectTo('https://elsewhere.example/');
      },
    },
    'it answers with a web page': {
      class: 'content-type',
      says: /content type .*text\/html.*application\/json/,
      make: () =>
        (peer.answer = () => ({
          ...peer.ok(peer.document([peer.root], 2)),
          headers: { 'content-type': 'text/html; charset=utf-8' },
        })),
    },
    'it answers in another encoding': {
      class: 'content-type',
      says: /content type .*utf-16/,
      make: () =>
        (peer.answer = () => ({
          ...peer.ok(peer.document([peer.root], 2)),
          headers: { 'content-type': 'application/json; charset=utf-16' },
        })),
    },
    'it answers with too much': {
      class: 'size',
      says: /too large/,
      make: () => (peer.answer = () => peer.ok(' '.repeat(maxBundleBytes + 1))),
    },
    'it answers with half a bundle': {
      class: 'malformed',
      says: /JSON/,
      make: () => (peer.answer = () => peer.ok(peer.document([peer.root], 2).slice(0, -20))),
    },
    'it answers with a bundle of nothing': {
      class: 'empty',
      says: /no X\.509 authority/,
      make: () => (peer.answer = () => peer.ok('{"keys":[],"spiffe_sequence":2}')),
    },
    'it answers with authorities that have all expired': {
      class: 'expired',
      says: /last of its authorities expired at 2025/,
      make: () => {
        const old = forgeRoot(name, { notAfterMs: Date.UTC(2025, 0) });
        peer.answer = () => peer.ok(peer.document([old], 2));
      },
    },
    'it answers with the bundle of another trust domain': {
      class: 'trust-domain',
      says: /belong to another trust domain, .*reval\.example/,
      make: () => {
        const other = forgeRoot('reval.example');
        peer.answer = () => peer.ok(peer.document([other], 2));
      },
    },
    'its sequence goes backwards': {
      class: 'sequence',
      says: /its sequence is 0, lower than 1 .*--accept-rollback/,
      make: () => (peer.answer = () => peer.ok(peer.document([forgeRoot(name)], 0))),
    },
    'it presents another identity of its domain': {
      class: 'identity',
      says: /expected-id;/,
      make: () => (peer.presents = forgeLeaf(peer.root, `spiffe://${name}/web`)),
    },
    'it presents an identity of another domain': {
      class: 'identity',
      says: /no-bundle;/,
      make: () =>
        (peer.presents = forgeLeaf(
          forgeRoot('reval.example'),
          'spiffe://reval.example/hansa/site',
        )),
    },
    'somebody else presents its identity': {
      class: 'identity',
      says: /unknown-authority; .*hansa trust bundle bootstrap bruges\.example/,
      make: () => (peer.presents = forgeLeaf(forgeRoot(name), peer.id)),
    },
    'somebody presents a certificate without a SPIFFE ID, as a public one': {
      class: 'identity',
      says: /exactly-one-uri;/,
      make: () => {
        const publicRoot = forge({ ca: true });
        peer.presents = forge({ issuer: publicRoot, dnsNames: [name], ca: false });
      },
    },
  };
  for (const [what, { class: expected, says, make }] of Object.entries(wrong)) {
    test(what, async () => {
      await site.create(name, peer.spec());
      await seconds(1);
      const before = held();
      const { root } = peer;
      make();
      await seconds(320);
      const status = await site.status(name);
      assert.equal(status.lastError?.class, expected, status.lastError?.message);
      assert.match(status.lastError.message, says);
      assert(status.consecutiveFailures !== undefined && status.consecutiveFailures > 0);
      assert.deepEqual(held(), before);
      assert.equal((await site.condition(name, 'Ready'))?.status, 'True');
      const isHostile = !['dns', 'connect', 'unreachable', 'http'].includes(expected);
      assert.equal(site.refusals.length > 0, isHostile);
      for (const refusal of site.refusals) {
        assert.equal(refusal.verb, 'spiffe.federation.refuse');
        assert.equal(refusal.name, name);
        assert.match(refusal.reason ?? '', new RegExp(`^${expected}: `));
      }
      assert.match(site.metrics.expose(), new RegExp(`refresh_errors\\{.*class="${expected}"`));
      // And it recovers by itself.
      peer.root = root;
      peer.presents = undefined;
      peer.answer = () => peer.ok(peer.document([root], 5));
      await seconds(320);
      const after = await site.status(name);
      assert.equal(after.sequence, 5);
      assert.equal(after.lastError, undefined);
      assert.equal(after.consecutiveFailures, 0);
    });
  }

  test('it answers with an authority of this very site', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    const before = held();
    const ours = { certificate: site.authority.certificate } as typeof peer.root;
    peer.answer = () => peer.ok(peer.document([peer.root, ours], 2));
    await seconds(320);
    assert.equal((await site.status(name)).lastError?.class, 'own-authority');
    assert.match(site.refusals[0]?.reason ?? '', /an authority of this site/);
    assert.deepEqual(held(), before);
  });

  test('a bundle that was not confirmed for too long is overdue, then stale, and withheld from then on', async () => {
    await site.create(name, peer.spec({ staleAfterSeconds: 600 }));
    await seconds(1);
    peer.answer = () => 'refused';
    await seconds(298);
    assert.equal((await site.condition(name, 'Fresh'))?.status, 'True');
    await seconds(3);
    assert.equal((await site.condition(name, 'Fresh'))?.reason, 'Overdue');
    assert.equal((await site.condition(name, 'Ready'))?.status, 'True');
    await seconds(597);
    assert.equal(held().length, 1);
    await seconds(3);
    assert.equal((await site.condition(name, 'Fresh'))?.reason, 'Stale');
    assert.equal((await site.condition(name, 'Ready'))?.reason, 'Stale');
    assert.equal(held().length, 0);
    // The site still holds it, and verifies the endpoint with it when the endpoint is back.
    assert.equal(site.bundles.held.bundleFor(bruges)?.authorities.length, 1);
    peer.answer = () => peer.ok(peer.document([peer.root], 1));
    await seconds(301);
    assert.equal(held().length, 1);
    assert.equal((await site.condition(name, 'Fresh'))?.status, 'True');
    assert.equal((await site.condition(name, 'Ready'))?.status, 'True');
  });

  test('a bootstrap whose endpoint never answers is not believed for ever', async () => {
    peer.answer = () => 'refused';
    await site.create(name, peer.spec({ staleAfterSeconds: 600 }));
    await seconds(890);
    assert.equal(held().length, 1);
    await seconds(20);
    assert.equal(held().length, 0);
    assert.equal((await site.condition(name, 'Ready'))?.reason, 'Stale');
  });

  test('a bundle whose last authority expires is not ready, from that second on', async () => {
    const nowMs = site.clock.now();
    const short = forgeRoot(name, { notAfterMs: nowMs + 100_000 });
    await site.create(name, {
      bundleSource: { static: { bundle: peer.document([short], 1) } },
      staleAfterSeconds: 3600,
      quarantined: false,
    });
    await seconds(99);
    assert.equal((await site.condition(name, 'Ready'))?.status, 'True');
    await seconds(3);
    assert.equal((await site.condition(name, 'Ready'))?.reason, 'Expired');
  });

  test('a dead peer is asked ever less often', async () => {
    peer.answer = () => 'refused';
    await site.create(name, peer.spec());
    await seconds(60);
    const inMinute = peer.requests;
    assert(inMinute >= 4 && inMinute <= 12, `${inMinute} requests`);
    await seconds(3600);
    assert(peer.requests - inMinute < 25, `${peer.requests} requests`);
  });
});
