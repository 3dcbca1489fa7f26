import assert from 'node:assert/strict';
import type { KeyObject } from 'node:crypto';
import { suite, test } from 'node:test';
import { PublicKey } from '../../../core/identity/x509/keys.ts';
import { putEntry, remove } from '../../workload/test-workload-site.ts';
import {
  crane,
  exporter,
  newKey,
  onCrane,
  refusals,
  requestOf,
  type SigningSite,
  signingSite,
} from './test-signing-site.ts';

suite('the audit records of a batch', () => {
  test('name the agent and each entry, and are durable before the answer', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    let isAnswered = false;
    const gate = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    site.hooks.beforeCommit = () => {
      reached.resolve();
      return gate.promise;
    };
    const request = requestOf(
      [{ entry: 'uid-web', key: await newKey() }],
      [{ entry: 'uid-web', audience: ['db'] }],
    );
    const answer = site.sign(crane, request, exporter).then((response) => {
      isAnswered = true;
      return response;
    });
    await reached.promise;
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isAnswered, false);
    gate.resolve();
    await answer;
    const records = await site.records();
    assert.deepEqual(
      records.map(({ verb, kind, name, uid, outcome }) => [verb, kind, name, uid, outcome]),
      Array.from({ length: 2 }, () => ['svid.issue', 'WorkloadEntry', 'web', 'uid-web', 'allow']),
    );
    assert.deepEqual(records[0]?.actor, {
      user: 'spiffe://lubeck.example/hansa/agent/crane-1',
      groups: [],
      via: 'certificate',
      credential: 'a1',
      address: '192.0.2.1',
    });
    assert.match(records[0]?.reason ?? '', /^spiffe:..lubeck.example.web, serial number /);
    assert.match(records[1]?.reason ?? '', /JWT-SVID for \["db"\] with key/);
  });

  test('are in one commit', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    let commits = 0;
    site.hooks.beforeCommit = () => commits++;
    const key = await newKey();
    const all = Array.from({ length: 50 }, () => ({ entry: 'uid-web', key }));
    await site.sign(crane, requestOf(all), exporter);
    assert.equal(commits, 1);
    assert.equal((await site.records()).length, 50);
  });

  test('are awaited without the keys of the batch in OpenSSL', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    const parse = PublicKey.parse.bind(PublicKey);
    const parsed: { readonly key: PublicKey; readonly keyObject: KeyObject }[] = [];
    t.mock.method(PublicKey, 'parse', (spki: Uint8Array) => {
      const key = parse(spki);
      parsed.push({ key, keyObject: key.keyObject });
      return key;
    });
    let held: number | undefined;
    site.hooks.beforeCommit = () => {
      held = parsed.filter(({ key, keyObject }) => key.keyObject === keyObject).length;
    };
    const key = await newKey();
    const all = Array.from({ length: 5 }, () => ({ entry: 'uid-web', key }));
    assert.deepEqual(
      refusals(await site.sign(crane, requestOf(all), exporter)),
      all.map(() => undefined),
    );
    assert.equal(parsed.length, 5);
    assert.equal(held, 0);
  });

  test('fail the whole batch where they cannot be written', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    site.hooks.beforeCommit = () => {
      throw new Error('the disk is full');
    };
    const request = requestOf([{ entry: 'uid-web', key: await newKey() }]);
    await assert.rejects(site.sign(crane, request, exporter), /the disk is full/);
  });

  test('of tokens are limited, and later ones count the rest', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    const many = Array.from({ length: 100 }, (_, at) => ({
      entry: 'uid-web',
      audience: [`a${at}`],
    }));
    const response = await site.sign(crane, requestOf([], many), exporter);
    assert.ok(response.jwt.every(({ token }) => token !== ''));
    assert.equal((await site.records()).length, 60);
    await site.clock.advance(60_000);
    await site.sign(crane, requestOf([], many.slice(0, 1)), exporter);
    assert.match((await site.records()).at(-1)?.reason ?? '', /and 40 more before it/);
  });

  test('say why a request was refused', async (t) => {
    const site = await signingSite(t);
    await site.sign(crane, requestOf([{ entry: 'uid-none', key: await newKey() }]), exporter);
    const [denial] = site.denials;
    assert.equal(denial?.actor.user, 'spiffe://lubeck.example/hansa/agent/crane-1');
    assert.equal(denial?.code, 'HANSA_FORBIDDEN');
    assert.match(denial?.reason ?? '', /uid-none/);
  });
});

suite('a change while a batch is signed', () => {
  const signing = async (site: SigningSite) => {
    await putEntry(site.store, 'web', onCrane);
    return requestOf(
      [{ entry: 'uid-web', key: await newKey() }],
      [{ entry: 'uid-web', audience: ['x'] }],
    );
  };

  test('withholds the SVIDs of an entry that was deleted or changed', async (t) => {
    const site = await signingSite(t);
    const request = await signing(site);
    for (const change of [
      () => putEntry(site.store, 'web', { ...onCrane, spiffeID: 'spiffe://lubeck.example/other' }),
      () => remove(site.store, 'workloadentries', 'web'),
    ]) {
      site.hooks.afterCommit = change;
      for (const refused of refusals(await site.sign(crane, request, exporter))) {
        assert.match(refused ?? '', /^HANSA_FORBIDDEN .* changed while the site signed/);
      }
      site.hooks.afterCommit = () => undefined;
    }
  });

  test('does not withhold them where only the status of the entry changed', async (t) => {
    const site = await signingSite(t);
    const request = await signing(site);
    site.hooks.afterCommit = () => {
      const entry = site.store.get('workloadentries', 'web');
      const object = JSON.parse(entry?.value.toString() ?? '') as object;
      const value = Buffer.from(JSON.stringify({ ...object, status: { trustDomainCount: 1 } }));
      return site.store.commit({
        put: [{ collection: 'workloadentries', name: 'web', encode: () => value }],
      });
    };
    assert.deepEqual(refusals(await site.sign(crane, request, exporter)), [undefined, undefined]);
  });

  test('withholds everything from an agent that was forgotten', async (t) => {
    const site = await signingSite(t);
    const request = await signing(site);
    site.hooks.afterCommit = () => site.members.delete('agent/crane-1');
    for (const refused of refusals(await site.sign(crane, request, exporter))) {
      assert.match(refused ?? '', /^HANSA_FORBIDDEN .*forgotten/);
    }
  });

  test('signs again with the next authority where the first was revoked', async (t) => {
    const site = await signingSite(t);
    const request = await signing(site);
    const before = [site.authority.certificate.fingerprint, site.authority.jwtSigner.keyId];
    let commits = 0;
    site.hooks.afterCommit = async () => {
      if (commits++ > 0) return;
      await site.authority.replaceAtOnce('x509', { fresh: true }, () => []);
      await site.authority.replaceAtOnce('jwt', { fresh: true }, () => []);
    };
    const { x509, jwt } = await site.sign(crane, request, exporter);
    assert.deepEqual(
      [x509[0]?.authority, jwt[0]?.keyId],
      [site.authority.certificate.fingerprint, site.authority.jwtSigner.keyId],
    );
    assert.notDeepEqual([x509[0]?.authority, jwt[0]?.keyId], before);
    assert.equal(commits, 2);
  });
});
