import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import { signCheckpoint } from '../../core/audit/checkpoint.ts';
import { latestRestore, restoreCollection, signRestore } from '../../core/audit/restore-record.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import type { Head } from './judge.ts';
import {
  acknowledge,
  acquainted,
  beat,
  cosigns,
  finding,
  testWitnessSite,
  type TestWitnessSite,
} from './test-witness-site.ts';

const owner = { caller: socketOwner, origin: {} };

async function pair() {
  const lubeck = await testWitnessSite('lubeck.example', { seed: 1 });
  const bruges = await testWitnessSite('bruges.example', { seed: 2 });
  return { lubeck, bruges };
}

describe('a restore', () => {
  const nothing: Head = { size: 0, rootHash: Buffer.alloc(32) };

  async function restoredLubeck(bruges: TestWitnessSite, lubeck: TestWitnessSite) {
    const last = lubeck.publicLog.cosignatures.list()[0]?.checkpoint ?? nothing;
    await lubeck.write(6);
    await beat(lubeck, bruges);
    return restoredSite(lubeck.name, 1, last);
  }

  /** A site that was restored from a backup, whose last cosigned checkpoint this was. */
  async function restoredSite(name: string, seed: number, last: Head, passesOn = false) {
    const origin = `${name}/log/2`;
    const [ended, next] = [testSigner(name, seed), testSigner(origin, seed)];
    const { note } = await signRestore(ended, next, last, '2026-01-02T00:00:00Z');
    const site = await testWitnessSite(name, { seed, origin, passesOn });
    const encode = () => Buffer.from(note);
    await site.store.commit({
      put: [{ collection: restoreCollection, name: latestRestore, encode }],
    });
    return site;
  }

  test('with a signed record is told apart from a log that shrank, and always shown', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const restored = await restoredLubeck(bruges, lubeck);
    await beat(restored, bruges);
    const log = bruges.witness.logs.get('lubeck.example')?.value;
    assert.equal(log?.finding?.reason, 'Restored');
    assert.match(log.finding.message, /6 events are not in the restored log/);
    assert.match(log.key, /^lubeck\.example\/log\/2\+/);
    assert.equal(restored.audit.problem, undefined);
    assert.equal(await bruges.condition('lubeck.example'), 'Restored');
    // The new log is witnessed from its beginning.
    await beat(restored, bruges);
    assert.ok(await cosigns(bruges, 'lubeck.example'));
    await acknowledge(bruges, 'lubeck.example');
    assert.equal(await bruges.condition('lubeck.example'), 'Consistent');
    assert.equal(
      bruges.witness.logs.get('lubeck.example')?.value.size,
      restored.publicLog.checkpoint?.size,
    );
  });

  test('is not undone: a copy of the data from before it stops signing, for good', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const restored = await restoredLubeck(bruges, lubeck);
    await beat(restored, bruges);
    await beat(restored, bruges);
    const database = new MemoryDatabase();
    const old = await testWitnessSite('lubeck.example', { seed: 1, database });
    await beat(old, bruges);
    const why = /checkpoint of the log lubeck\.example\/log\/2 .* older copy of the data folder/;
    assert.match(old.audit.problem?.message ?? '', why);
    await assert.rejects(old.audit.checkpoint(), why);
    assert.equal(finding(bruges, 'lubeck.example'), 'KeyChanged');
    await old.store.close();
    const again = await testWitnessSite('lubeck.example', { seed: 1, database });
    assert.match(again.audit.problem?.message ?? '', why);
  });

  test('leaves a peer that has not heard of it with a checkpoint that counts no more', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const restored = await restoredLubeck(bruges, lubeck);
    await beat(bruges, restored);
    assert.equal(restored.audit.problem, undefined);
    assert.deepEqual(await restored.events('witness.refuse'), []);
  });

  test('cannot be claimed by a peer with a checkpoint that this site did not sign', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const head = { size: 9, rootHash: Buffer.alloc(32, 1) };
    const held = await signCheckpoint(testSigner('lubeck.example/log/7', 2), head);
    await beat(bruges, lubeck, (part) => ({ ...part, held }));
    assert.equal(lubeck.audit.problem, undefined);
    assert.equal((await lubeck.events('witness.refuse')).length, 1);
  });

  test('does not end a graver finding: the log is still forked, and not cosigned', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const fork = await signCheckpoint(testSigner(lubeck.name, 1), {
      size: lubeck.store.auditLog.size,
      rootHash: Buffer.alloc(32, 7),
    });
    await beat(lubeck, bruges, (part) => ({ ...part, checkpoint: fork }));
    assert.equal(finding(bruges, lubeck.name), 'Forked');
    const restored = await restoredLubeck(bruges, lubeck);
    await beat(restored, bruges);
    await beat(restored, bruges);
    assert.match(bruges.witness.logs.get(lubeck.name)?.value.key ?? '', /\/log\/2\+/);
    assert.equal(finding(bruges, lubeck.name), 'Forked');
    assert.equal(await bruges.condition(lubeck.name), 'Forked');
    assert.equal(await cosigns(bruges, lubeck.name), false);
  });

  test('that follows another one replaces its finding', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const head = { size: 1, rootHash: Buffer.alloc(32) };
    const origins = ['lubeck.example', 'lubeck.example/log/2', 'lubeck.example/log/3'] as const;
    for (const [i, time] of ['2026-01-02T00:00:00Z', '2026-01-03T00:00:00Z'].entries()) {
      const ended = testSigner(origins[i] as string, 1);
      const next = testSigner(origins[i + 1] as string, 1);
      const { note } = await signRestore(ended, next, head, time);
      const checkpoint = await signCheckpoint(next, head);
      await beat(lubeck, bruges, ({ introduction: _earlier, ...part }) => ({
        ...part,
        restored: note,
        checkpoint,
      }));
      const found = bruges.witness.logs.get(lubeck.name)?.value.finding;
      assert.equal(found?.reason, 'Restored');
      assert.ok(found.message.includes(time), found.message);
    }
    assert.equal((await bruges.events('witness.finding')).length, 2);
  });

  test('whose record another key signed is refused, audited, and the log contradicts', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const thief = testSigner('lubeck.example', 9);
    const head = { size: 1, rootHash: Buffer.alloc(32) };
    const { note } = await signRestore(
      thief,
      testSigner('lubeck.example/log/2', 9),
      head,
      '2026-01-02T00:00:00Z',
    );
    await beat(lubeck, bruges, (part) => ({ ...part, restored: note }));
    assert.equal(finding(bruges, 'lubeck.example'), undefined);
    assert.match((await bruges.events('witness.refuse'))[0]?.reason ?? '', /no signature/);
  });

  test('does not contradict what another peer passed on before it', async () => {
    const passesOn = true;
    const lubeck = await testWitnessSite('lubeck.example', { seed: 1, passesOn });
    const bruges = await testWitnessSite('bruges.example', { seed: 2, passesOn });
    const novgorod = await testWitnessSite('novgorod.example', { seed: 3, passesOn });
    await acquainted(lubeck, bruges);
    await acquainted(lubeck, novgorod);
    await acquainted(bruges, novgorod);
    await novgorod.write(3);
    await beat(novgorod, bruges);
    await beat(bruges, lubeck);
    assert.ok(
      (await lubeck.witness.part(novgorod.name)).asks.length > 0,
      'lubeck asks for a proof',
    );
    const restored = await restoredSite(novgorod.name, 3, nothing, passesOn);
    await beat(restored, lubeck);
    await beat(lubeck, restored);
    assert.equal(finding(lubeck, novgorod.name), 'Restored');
    assert.deepEqual((await lubeck.witness.part(novgorod.name)).asks, []);
  });

  test('of a witness: it cosigns nothing until an operator confirms', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const restored = await restoredLubeck(bruges, lubeck);
    await beat(restored, bruges);
    await beat(restored, bruges);
    assert.equal(await cosigns(restored, bruges.name), false);
    assert.equal(await restored.condition(bruges.name), 'Unconfirmed');
    assert.match(restored.metrics.expose(), /hansa_peer_log_unconfirmed 1/);
    await restored.decisions.confirm(bruges.name, owner);
    assert.ok(await cosigns(restored, bruges.name));
    assert.equal(await restored.condition(bruges.name), 'Consistent');
    await assert.rejects(restored.decisions.confirm(bruges.name, owner), /needs no confirmation/);
  });

  test('of a witness: a mutual peer that has seen as much confirms', async () => {
    const lubeck = await testWitnessSite('lubeck.example', { seed: 1, passesOn: true });
    const bruges = await testWitnessSite('bruges.example', { seed: 2, passesOn: true });
    const novgorod = await testWitnessSite('novgorod.example', { seed: 3, passesOn: true });
    await acquainted(lubeck, bruges);
    await acquainted(bruges, novgorod);
    const ended = testSigner('novgorod.example', 3);
    const next = testSigner('novgorod.example/log/2', 3);
    const head = { size: 0, rootHash: Buffer.alloc(32) };
    const { note } = await signRestore(ended, next, head, '2026-01-02T00:00:00Z');
    await novgorod.store.commit({
      put: [
        { collection: restoreCollection, name: latestRestore, encode: () => Buffer.from(note) },
      ],
    });
    await acquainted(lubeck, novgorod);
    assert.equal(await cosigns(novgorod, lubeck.name), false);
    // bruges passes on what it holds of lubeck.
    await beat(lubeck, bruges);
    await beat(novgorod, bruges);
    await beat(novgorod, lubeck);
    assert.ok(await cosigns(novgorod, lubeck.name));
    assert.match((await novgorod.events('witness.confirm'))[0]?.reason ?? '', /^bruges\.example/);
    // Nobody else has seen bruges.
    assert.equal(await cosigns(novgorod, bruges.name), false);
  });
});
