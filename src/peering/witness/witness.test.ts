import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import { signCheckpoint } from '../../core/audit/checkpoint.ts';
import { parseWitnessVerifier, verifyCosignature } from '../../core/audit/cosignature.ts';
import { storedCosignatures } from '../../core/audit/cosignatures.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import {
  acknowledge,
  acquainted,
  beat,
  cosigns,
  finding,
  overWire,
  testWitnessSite,
  type TestWitnessSite,
} from './test-witness-site.ts';

async function pair() {
  const lubeck = await testWitnessSite('lubeck.example', { seed: 1 });
  const bruges = await testWitnessSite('bruges.example', { seed: 2 });
  return { lubeck, bruges };
}

describe('two peers', () => {
  test('hold each other’s cosignature of the newest checkpoint after two heartbeats', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    for (const [site, peer] of [
      [lubeck, bruges],
      [bruges, lubeck],
    ] as const) {
      const [cosigned, ...more] = site.publicLog.cosignatures.list();
      assert.deepEqual(more, []);
      assert.equal(cosigned?.witness.name, peer.name);
      assert.equal(cosigned.checkpoint.size, site.store.auditLog.size);
      const key = parseWitnessVerifier(cosigned.witness.text);
      assert.equal(verifyCosignature(cosigned.checkpoint, key)?.witness, peer.name);
      assert.equal(await site.condition(peer.name), 'Consistent');
      assert.equal(finding(site, peer.name), undefined);
    }
  });

  test('follow a growing log, and write nothing to their own logs for it', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const before = bruges.store.auditLog.size;
    for (const count of [1, 7, 300]) {
      await lubeck.write(count);
      await beat(lubeck, bruges);
      await beat(lubeck, bruges);
      const { size } = lubeck.store.auditLog;
      assert.equal(bruges.witness.logs.get(lubeck.name)?.value.size, size);
      assert.equal(lubeck.publicLog.cosignatures.list()[0]?.checkpoint.size, size);
    }
    assert.equal(bruges.store.auditLog.size, before);
  });

  test('keep cosignatures over a restart', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    await lubeck.publicLog.stop();
    const [stored] = storedCosignatures(lubeck.store);
    assert.equal(stored?.witness.name, 'bruges.example');
    assert.equal(stored.checkpoint.size, lubeck.store.auditLog.size);
  });

  test('do not take messages that overtake each other for a log that shrank', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const late = overWire(await lubeck.witness.part(bruges.name));
    await lubeck.write(3);
    await beat(lubeck, bruges);
    await bruges.witness.heard({ name: lubeck.name, uid: await bruges.addPeer(lubeck.name) }, late);
    assert.equal(finding(bruges, lubeck.name), undefined);
    assert.equal(bruges.witness.logs.get(lubeck.name)?.value.size, lubeck.store.auditLog.size);
  });

  test('answer each message by itself, also if another one came before the answer', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const uid = await bruges.addPeer(lubeck.name);
    const earlier = overWire(await lubeck.witness.part(bruges.name));
    await bruges.write(3);
    await beat(bruges, lubeck);
    await bruges.write(5);
    const request = overWire(await lubeck.witness.part(bruges.name));
    await bruges.witness.heard({ name: lubeck.name, uid }, request);
    // A message that was under way for longer. It says that lubeck holds less.
    await bruges.witness.heard({ name: lubeck.name, uid }, earlier);
    const answer = overWire(await bruges.witness.answer(lubeck.name, request));
    const sender = { name: bruges.name, uid: await lubeck.addPeer(bruges.name) };
    await lubeck.witness.heard(sender, answer, request);
    assert.equal(finding(lubeck, bruges.name), undefined);
    assert.equal(lubeck.witness.logs.get(bruges.name)?.value.size, bruges.store.auditLog.size);
  });

  test('persist what they verified before they cosign it', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    await lubeck.write(1);
    const part = overWire(await lubeck.witness.part(bruges.name));
    const uid = await bruges.addPeer(lubeck.name);
    const commit = bruges.store.commit.bind(bruges.store);
    bruges.store.commit = () => Promise.reject(new Error('the disk is full'));
    await bruges.witness.heard({ name: lubeck.name, uid }, part);
    const { held } = await bruges.witness.part(lubeck.name);
    assert.equal(held?.size, (part.checkpoint?.size ?? 0) - 1);
    assert.match(bruges.logged.join(''), /cannot witness an audit log/);
    bruges.store.commit = commit;
    await bruges.witness.heard({ name: lubeck.name, uid }, part);
    assert.equal((await bruges.witness.part(lubeck.name)).held?.size, part.checkpoint?.size);
  });

  test('decide by compare-and-set where two histories come at once', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const base = overWire(await lubeck.witness.part(bruges.name));
    const signer = testSigner(lubeck.name, 1);
    const size = lubeck.store.auditLog.size;
    const fork = await signCheckpoint(signer, { size, rootHash: Buffer.alloc(32, 7) });
    const uid = await bruges.addPeer(lubeck.name);
    await Promise.all([
      bruges.witness.heard({ name: lubeck.name, uid }, base),
      bruges.witness.heard({ name: lubeck.name, uid }, { ...base, checkpoint: fork }),
    ]);
    assert.equal(finding(bruges, lubeck.name), 'Forked');
    assert.equal(await cosigns(bruges, lubeck.name), false);
  });
});

describe('a log that', () => {
  async function seen(): Promise<Awaited<ReturnType<typeof pair>>> {
    const sites = await pair();
    await acquainted(sites.lubeck, sites.bruges);
    await sites.lubeck.write(20);
    await beat(sites.lubeck, sites.bruges);
    return sites;
  }

  /** The finding is in the record, the condition, the metric and the audit log, with its proof. */
  async function shows(bruges: TestWitnessSite, reason: string, why: RegExp): Promise<void> {
    const found = bruges.witness.logs.get('lubeck.example')?.value.finding;
    assert.equal(found?.reason, reason);
    assert.match(found.message, why);
    assert.equal(await bruges.condition('lubeck.example'), reason);
    assert.match(
      bruges.metrics.expose(),
      new RegExp(`hansa_peer_log_finding\\{peer="lubeck.example",reason="${reason}"\\} 1`),
    );
    const rows = await bruges.events('witness.finding');
    assert.equal(rows.length, 1);
    for (const note of found.proof) assert.ok(rows[0]?.reason?.includes(note.slice(0, 60)));
    assert.equal(await cosigns(bruges, 'lubeck.example'), false);
  }

  test('shrank is shown, with both checkpoints', async () => {
    const { bruges } = await seen();
    // An older copy of the log, with the same key.
    const old = await testWitnessSite('lubeck.example', { seed: 1 });
    await beat(old, bruges);
    await beat(old, bruges);
    await shows(bruges, 'Shrank', /has \d+ events, and this site has seen/);
    assert.equal(bruges.witness.logs.get('lubeck.example')?.value.finding?.proof.length, 2);
  });

  test('was put back to an older copy stops signing when a peer shows a larger checkpoint', async () => {
    const { bruges } = await seen();
    const old = await testWitnessSite('lubeck.example', { seed: 1 });
    assert.ok(old.publicLog.problem === undefined);
    await beat(old, bruges);
    assert.match(old.audit.problem?.message ?? '', /an older copy of the data folder was put back/);
    await assert.rejects(old.audit.checkpoint(), /older copy/);
    assert.equal((await old.events('audit.contradicted')).length, 1);
    assert.equal(await cosigns(old, 'bruges.example'), false);
  });

  test('was put back stays unsigned over a restart', async () => {
    const { bruges } = await seen();
    const database = new MemoryDatabase();
    const old = await testWitnessSite('lubeck.example', { seed: 1, database });
    await beat(old, bruges);
    await old.store.close();
    const again = await testWitnessSite('lubeck.example', { seed: 1, database });
    assert.match(again.audit.problem?.message ?? '', /older copy/);
  });

  test('was put back stays unsigned also if the disk was full when a peer showed it', async () => {
    const { bruges } = await seen();
    const database = new MemoryDatabase();
    const old = await testWitnessSite('lubeck.example', { seed: 1, database });
    const commit = old.store.commit.bind(old.store);
    old.store.commit = (asked) =>
      asked.put?.some(({ collection }) => collection === 'audit.checkpoints')
        ? Promise.reject(new Error('the disk is full'))
        : commit(asked);
    await beat(old, bruges);
    assert.match(old.audit.problem?.message ?? '', /older copy/);
    old.store.commit = commit;
    await beat(old, bruges);
    await beat(old, bruges);
    assert.equal((await old.events('audit.contradicted')).length, 1);
    await old.store.close();
    const again = await testWitnessSite('lubeck.example', { seed: 1, database });
    assert.match(again.audit.problem?.message ?? '', /older copy/);
  });

  test('was rewritten and signed again is shown as forked, and stops signing', async () => {
    const { bruges } = await seen();
    const other = await testWitnessSite('lubeck.example', { seed: 1 });
    await other.clock.advance(60_000);
    await other.write(40);
    await beat(other, bruges);
    await beat(other, bruges);
    const reason = bruges.witness.logs.get('lubeck.example')?.value.finding?.reason;
    assert.equal(reason, 'Forked');
    await shows(bruges, 'Forked', /are not those that this site has seen/);
    assert.match(other.audit.problem?.message ?? '', /are others: they were changed/);
  });

  test('is no longer signed is shown', async () => {
    const { lubeck, bruges } = await seen();
    await beat(lubeck, bruges, ({ checkpoint: _gone, ...part }) => part);
    await shows(bruges, 'Unsigned', /no longer signs/);
  });

  test('is no longer spoken of is shown', async () => {
    const { bruges } = await seen();
    const uid = await bruges.addPeer('lubeck.example');
    await bruges.witness.heard({ name: 'lubeck.example', uid }, undefined);
    await shows(bruges, 'Unsigned', /no longer signs/);
  });

  test('is signed by another key is shown', async () => {
    const { bruges } = await seen();
    const thief = await testWitnessSite('lubeck.example', { seed: 9 });
    await beat(thief, bruges);
    const found = bruges.witness.logs.get('lubeck.example')?.value;
    assert.equal(found?.finding?.reason, 'KeyChanged');
    assert.match(found.key, /^lubeck\.example\+/);
    assert.notEqual(found.key, thief.publicLog.verifier.text);
  });

  test('is signed by another key is shown also if the peer speaks first', async () => {
    const { bruges } = await seen();
    const rebuilt = await testWitnessSite('lubeck.example', { seed: 9 });
    await beat(bruges, rebuilt);
    assert.equal(finding(bruges, 'lubeck.example'), 'KeyChanged');
    await acknowledge(bruges, 'lubeck.example');
    await beat(bruges, rebuilt);
    assert.equal(finding(bruges, 'lubeck.example'), undefined);
    assert.ok(await cosigns(bruges, 'lubeck.example'));
  });

  test('is that of another site is shown', async () => {
    const { lubeck, bruges } = await seen();
    const novgorod = await testWitnessSite('novgorod.example', { seed: 3 });
    const foreign = novgorod.publicLog.checkpoint;
    assert.ok(foreign);
    await beat(lubeck, bruges, (part) => ({ ...part, checkpoint: foreign }));
    await shows(bruges, 'Unsigned', /belongs to the log novgorod\.example/);
  });

  test('comes with a proof of the wrong size or none is shown, and not cosigned', async () => {
    for (const change of [
      (hashes: readonly Buffer[]) => hashes.slice(1),
      (hashes: readonly Buffer[]) => [...hashes, Buffer.alloc(32)],
    ]) {
      const { lubeck, bruges } = await seen();
      await lubeck.write(9);
      await beat(lubeck, bruges, (part) => ({
        ...part,
        proofs: part.proofs.map(({ from, hashes }) => ({ from, hashes: change(hashes) })),
      }));
      await shows(bruges, 'Forked', /are not those/);
    }
    const { lubeck, bruges } = await seen();
    await lubeck.write(9);
    await beat(lubeck, bruges, (part) => ({ ...part, proofs: [] }));
    await shows(bruges, 'Unproven', /does not prove/);
  });

  test('is acknowledged by an operator starts over, and the record says who', async () => {
    const { bruges } = await seen();
    const old = await testWitnessSite('lubeck.example', { seed: 1 });
    await beat(old, bruges);
    await beat(old, bruges);
    await acknowledge(bruges, 'lubeck.example');
    assert.equal(finding(bruges, 'lubeck.example'), undefined);
    assert.equal(bruges.witness.logs.get('lubeck.example')?.value.size, 0);
    const [row] = await bruges.events('witness.acknowledge');
    assert.equal(row?.actor.user, socketOwner.user);
    await assert.rejects(acknowledge(bruges, 'lubeck.example'), /no finding/);
  });
});

test('an introduction that could not be signed is signed for the next message', async () => {
  const { lubeck, bruges } = await pair();
  const { publicLog, witness } = lubeck;
  const introduce = publicLog.introduce.bind(publicLog);
  publicLog.introduce = () => Promise.reject(new Error('the signer is away'));
  await assert.rejects(witness.part(bruges.name), /the signer is away/);
  publicLog.introduce = introduce;
  assert.match((await witness.part(bruges.name)).introduction ?? '', /lubeck\.example/);
});
