import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { signCheckpoint } from '../../core/audit/checkpoint.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import { mostPassedOn } from './log-part.ts';
import {
  acquainted,
  beat,
  finding,
  testWitnessSite,
  type TestWitnessSite,
} from './test-witness-site.ts';

describe('three sites that pass on checkpoints', () => {
  async function three() {
    const options = { passesOn: true };
    const lubeck = await testWitnessSite('lubeck.example', { seed: 1, ...options });
    const bruges = await testWitnessSite('bruges.example', { seed: 2, ...options });
    const novgorod = await testWitnessSite('novgorod.example', { seed: 3, ...options });
    for (const [a, b] of [
      [lubeck, bruges],
      [bruges, novgorod],
      [lubeck, novgorod],
    ] as const) {
      await acquainted(a, b);
    }
    return { lubeck, bruges, novgorod };
  }

  test('find nothing wrong with honest logs that grow', async () => {
    const { lubeck, bruges, novgorod } = await three();
    for (let round = 0; round < 4; round++) {
      await lubeck.write(3);
      await beat(lubeck, bruges);
      await beat(bruges, novgorod);
      await lubeck.write(2);
      await beat(novgorod, lubeck);
      await beat(novgorod, bruges);
    }
    for (const site of [lubeck, bruges, novgorod]) {
      for (const { name, value } of site.witness.logs.list()) {
        assert.equal(value.finding, undefined, `${site.name} about ${name}`);
      }
    }
  });

  test('find a log that shows two of them different histories of one size', async () => {
    const { lubeck, bruges, novgorod } = await three();
    const twin = await twinOf(lubeck);
    await beat(twin, novgorod);
    await beat(twin, novgorod);
    await lubeck.write(twin.store.auditLog.size - lubeck.store.auditLog.size);
    await beat(lubeck, bruges);
    assert.equal(finding(novgorod, lubeck.name), undefined);
    await beat(bruges, novgorod);
    await beat(novgorod, bruges);
    assert.equal(finding(bruges, lubeck.name) ?? finding(novgorod, lubeck.name), 'SplitView');
  });

  test('find a split view of different sizes by asking the log for a proof', async () => {
    const { lubeck, bruges, novgorod } = await three();
    const twin = await twinOf(lubeck);
    await lubeck.write(4);
    await twin.write(7);
    await beat(lubeck, bruges);
    await beat(twin, novgorod);
    await beat(twin, novgorod);
    await beat(bruges, novgorod);
    await beat(novgorod, bruges);
    assert.equal(finding(bruges, lubeck.name), undefined);
    await beat(bruges, lubeck);
    assert.equal(finding(bruges, lubeck.name), 'SplitView');
    const found = bruges.witness.logs.get(lubeck.name)?.value.finding;
    assert.match(found?.message ?? '', /showed novgorod\.example a checkpoint/);
    assert.equal(found?.proof.length, 2);
  });

  test('pass on nothing where one of two does not want it', async () => {
    const { bruges } = await three();
    const quiet = await testWitnessSite('hamburg.example', { seed: 4 });
    await acquainted(quiet, bruges);
    assert.deepEqual((await bruges.witness.part(quiet.name)).others, []);
    assert.deepEqual((await quiet.witness.part(bruges.name)).others, []);
  });

  test('pass on at most eight, and take turns', async () => {
    const hub = await testWitnessSite('hub.example', { seed: 50, passesOn: true });
    const reader = await testWitnessSite('reader.example', { seed: 51, passesOn: true });
    await acquainted(reader, hub);
    for (let i = 0; i < 11; i++) {
      await acquainted(await testWitnessSite(`site-${i}.example`, { seed: 60 + i }), hub);
    }
    await beat(reader, hub);
    const seen = new Set<string>();
    for (let i = 0; i < 3; i++) {
      const { others } = await hub.witness.part(reader.name);
      assert.equal(others.length, mostPassedOn);
      for (const { origin } of others) seen.add(origin);
    }
    assert.equal(seen.size, 11);
  });

  test('refuse and audit a checkpoint that a peer made up for another log', async () => {
    const { lubeck, bruges, novgorod } = await three();
    const made = await signCheckpoint(testSigner(lubeck.name, 77), {
      size: 5000,
      rootHash: Buffer.alloc(32, 1),
    });
    await beat(novgorod, bruges, (part) => ({ ...part, others: [made] }));
    assert.equal(finding(bruges, lubeck.name), undefined);
    const [row] = await bruges.events('witness.refuse');
    assert.match(row?.actor.user ?? '', /novgorod\.example/);
  });

  /** Another process with the same key and the same records so far. */
  async function twinOf(site: TestWitnessSite): Promise<TestWitnessSite> {
    const database = new MemoryDatabase();
    const twin = await testWitnessSite(site.name, { seed: 1, passesOn: true, database });
    const rows = await site.store.auditLog.read(1, 1000);
    await twin.store.commit({ audit: rows.map((row) => ({ encode: () => row })) });
    for (const { name, value } of site.witness.logs.list()) {
      await twin.witness.logs.put(name, undefined, value);
    }
    await twin.clock.advance(60_000);
    await twin.write(4);
    return twin;
  }
});
