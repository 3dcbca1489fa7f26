// What an operator sees if a peer does not cosign, does not show its log, or sends findings without end.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cosign, withSignatures } from '../../core/audit/cosignature.ts';
import { parseCheckpoint, signCheckpoint } from '../../core/audit/checkpoint.ts';
import { signRestore } from '../../core/audit/restore-record.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import { findingLimit } from '../timing.ts';
import type { LogPart } from './log-part.ts';
import {
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
  await acquainted(lubeck, bruges);
  return { lubeck, bruges };
}

/** The value of a metric without labels or with this peer; undefined if it is absent. */
function metric(site: TestWitnessSite, name: string, peer?: string): number | undefined {
  const labels = peer === undefined ? '' : `\\{peer="${peer}"\\}`;
  const found = new RegExp(`^${name}${labels} (\\S+)$`, 'm').exec(site.metrics.expose());
  return found === null ? undefined : Number(found[1]);
}

const unwitnessed = (site: TestWitnessSite) => metric(site, 'hansa_audit_unwitnessed_seconds');

/** The peer sends no cosignature, for example because it has a finding about this log. */
async function withheld(from: TestWitnessSite, to: TestWitnessSite): Promise<void> {
  await beat(from, to, (part) => ({
    ...part,
    ...(part.held && { held: parseCheckpoint(bareNote(part.held.note)) }),
  }));
}

/** Without the last signature, which is that of the witness. */
function bareNote(note: string): string {
  return `${note.trimEnd().split('\n').slice(0, -1).join('\n')}\n`;
}

describe('the wait for a cosignature', () => {
  test('is absent without peers, and 0 while a peer cosigns', async () => {
    const alone = await testWitnessSite('alone.example', { seed: 9 });
    await alone.write(3);
    assert.equal(unwitnessed(alone), undefined);
    const { lubeck } = await pair();
    assert.equal(unwitnessed(lubeck), 0);
  });

  test('begins with an event, not with the last cosignature a quiet hour before', async () => {
    const { lubeck, bruges } = await pair();
    await lubeck.clock.advance(3_600_000);
    await lubeck.write(1);
    assert.equal(unwitnessed(lubeck), 0);
    await lubeck.clock.advance(20_000);
    assert.equal(unwitnessed(lubeck), 20);
    await beat(lubeck, bruges);
    await beat(lubeck, bruges);
    assert.equal(unwitnessed(lubeck), 0);
  });

  test('grows while the peer sends heartbeats without cosignatures, also before its first one', async () => {
    const lubeck = await testWitnessSite('lubeck.example', { seed: 1 });
    const bruges = await testWitnessSite('bruges.example', { seed: 2 });
    for (let minute = 0; minute < 30; minute++) {
      await withheld(bruges, lubeck);
      await lubeck.clock.advance(60_000);
    }
    assert.equal(lubeck.publicLog.cosignedBy(bruges.name), 0);
    assert.ok((unwitnessed(lubeck) ?? 0) >= 1700);
  });

  test('does not depend on the clock of the witness', async () => {
    const { lubeck, bruges } = await pair();
    // A witness whose clock is a century ahead.
    await lubeck.write(1);
    await beat(lubeck, bruges);
    const answer = await bruges.witness.part(lubeck.name);
    assert.ok(answer.held);
    const seconds = Math.floor(lubeck.clock.now() / 1000) + 3_000_000_000;
    const signer = testSigner(bruges.name, 2);
    const held = withSignatures(parseCheckpoint(bareNote(answer.held.note)), [
      await cosign(answer.held, bruges.name, signer, seconds),
    ]);
    const sender = { name: bruges.name, uid: await lubeck.addPeer(bruges.name) };
    await lubeck.witness.heard(sender, overWire({ ...answer, held }));
    assert.equal(unwitnessed(lubeck), 0);
    await lubeck.write(1);
    await lubeck.witness.part(bruges.name);
    await lubeck.clock.advance(1_000_000);
    assert.equal(unwitnessed(lubeck), 1000);
  });

  test('is that of the best of several witnesses, and ends with the peer', async () => {
    const { lubeck, bruges } = await pair();
    const novgorod = await testWitnessSite('novgorod.example', { seed: 3 });
    await acquainted(lubeck, novgorod);
    await beat(lubeck, bruges);
    await lubeck.write(1);
    await lubeck.witness.part(bruges.name);
    await lubeck.witness.part(novgorod.name);
    await lubeck.clock.advance(100_000);
    await beat(lubeck, novgorod);
    await beat(lubeck, novgorod);
    assert.equal(unwitnessed(lubeck), 0);
    assert.equal(lubeck.witness.awaited.waitsMs(bruges.name), 100_000);
    lubeck.witness.forget(novgorod.name);
    assert.equal(unwitnessed(lubeck), 100);
    lubeck.witness.forget(bruges.name);
    assert.equal(unwitnessed(lubeck), undefined);
  });
});

describe('a peer that never shows that its log extends what this site has seen', () => {
  /** It lost its last events, never answers, and claims to know an older head of the other site. */
  async function liar() {
    const { lubeck, bruges } = await pair();
    await lubeck.write(20);
    await beat(lubeck, bruges);
    const old = await testWitnessSite('lubeck.example', { seed: 1 });
    const uid = await bruges.addPeer('lubeck.example');
    const part = await old.witness.part('bruges.example');
    const send = async (change: Partial<LogPart> = {}) => {
      await bruges.witness.heard({ name: 'lubeck.example', uid }, overWire({ ...part, ...change }));
    };
    return { lubeck, bruges, send };
  }

  test('is shown after a minute of such messages, without a finding and without a cosignature', async () => {
    const { bruges, send } = await liar();
    const held = bruges.witness.logs.get('lubeck.example')?.value.size;
    for (let i = 0; i < 4; i++) await send({ seen: 1 });
    assert.equal(await bruges.condition('lubeck.example'), 'Consistent');
    await bruges.clock.advance(60_000);
    await send({ seen: 1 });
    assert.equal(await bruges.condition('lubeck.example'), 'Stale');
    assert.equal(finding(bruges, 'lubeck.example'), undefined);
    assert.equal(metric(bruges, 'hansa_peer_log_stale_seconds', 'lubeck.example'), 60);
    assert.equal(bruges.witness.logs.get('lubeck.example')?.value.size, held);
  });

  test('is shown also if it says nothing about what it has seen', async () => {
    const { bruges, send } = await liar();
    for (let i = 0; i < 4; i++) await send();
    await bruges.clock.advance(60_000);
    await send();
    assert.equal(await bruges.condition('lubeck.example'), 'Stale');
  });

  test('is not shown for a few messages that were under way for long', async () => {
    const { bruges, send } = await liar();
    await send();
    await bruges.clock.advance(600_000);
    await send();
    assert.equal(await bruges.condition('lubeck.example'), 'Consistent');
    assert.equal(metric(bruges, 'hansa_peer_log_stale_seconds', 'lubeck.example'), 0);
  });

  test('is shown no longer when a message proves it', async () => {
    const { lubeck, bruges, send } = await liar();
    for (let i = 0; i < 4; i++) await send();
    await bruges.clock.advance(60_000);
    await send();
    await beat(lubeck, bruges);
    assert.equal(await bruges.condition('lubeck.example'), 'Consistent');
    assert.ok(await cosigns(bruges, 'lubeck.example'));
  });
});

test('a peer that sends ever new restore records adds few audit records', async () => {
  const { lubeck, bruges } = await pair();
  const head = { size: 1, rootHash: Buffer.alloc(32) };
  const uid = await bruges.addPeer(lubeck.name);
  const { introduction: _known, ...part } = await lubeck.witness.part(bruges.name);
  for (let i = 1; i < 40; i++) {
    const ended = testSigner(i === 1 ? lubeck.name : `${lubeck.name}/log/${i}`, 1);
    const next = testSigner(`${lubeck.name}/log/${i + 1}`, 1);
    const { note } = await signRestore(ended, next, head, '2026-01-02T00:00:00Z');
    const checkpoint = await signCheckpoint(next, head);
    const sent = overWire({ ...part, checkpoint, restored: note });
    await bruges.witness.heard({ name: lubeck.name, uid }, sent);
  }
  const rows = await bruges.events('witness.finding');
  assert.equal(rows.length, findingLimit.burst);
  assert.equal(finding(bruges, lubeck.name), 'Restored');
});

describe('replicas of a site', () => {
  /** Two processes of lubeck on one database, and bruges, which has seen what the first one wrote last. */
  async function replicas() {
    const database = new MemoryDatabase();
    const first = await testWitnessSite('lubeck.example', { seed: 1, database });
    const second = await testWitnessSite('lubeck.example', { seed: 1, database });
    const bruges = await testWitnessSite('bruges.example', { seed: 2 });
    await acquainted(first, bruges);
    await first.write(9);
    await beat(first, bruges);
    assert.ok(second.store.auditLog.size < first.store.auditLog.size);
    return { first, second, bruges };
  }

  test('that have not seen the newest rows do not take them for those of another log', async () => {
    const { first, second, bruges } = await replicas();
    const sent = overWire(await bruges.witness.part('lubeck.example'));
    const sender = { name: bruges.name, uid: await first.addPeer(bruges.name) };
    await second.witness.heard(sender, sent);
    assert.equal(second.audit.problem, undefined);
    assert.equal(second.store.auditLog.size, first.store.auditLog.size);
  });

  test('show a peer a checkpoint that is not older than the one that it holds', async () => {
    const { first, second, bruges } = await replicas();
    // It has seen all rows, and its own last checkpoint is older.
    await second.store.commit({});
    const sent = overWire(await bruges.witness.part('lubeck.example'));
    assert.ok((sent.held?.size ?? 0) > (second.publicLog.checkpoint?.size ?? 0));
    const sender = { name: bruges.name, uid: await first.addPeer(bruges.name) };
    await second.witness.heard(sender, sent);
    const answer = overWire(await second.witness.answer(bruges.name, sent));
    const uid = await bruges.addPeer('lubeck.example');
    await bruges.witness.heard({ name: 'lubeck.example', uid }, answer, sent);
    assert.equal(finding(bruges, 'lubeck.example'), undefined);
  });

  test('prove a checkpoint to a peer that has it from another peer', async () => {
    const database = new MemoryDatabase();
    const first = await testWitnessSite('lubeck.example', { seed: 1, database });
    const second = await testWitnessSite('lubeck.example', { seed: 1, database });
    const bruges = await testWitnessSite('bruges.example', { seed: 2, passesOn: true });
    const riga = await testWitnessSite('riga.example', { seed: 3, passesOn: true });
    await acquainted(first, bruges);
    await acquainted(first, riga);
    await acquainted(riga, bruges);
    // Its own last checkpoint is newer than the one that bruges holds.
    await second.write(1);
    await first.write(9);
    await beat(first, riga);
    await beat(riga, bruges);
    const sent = overWire(await bruges.witness.part('lubeck.example'));
    assert.ok(sent.asks.some((size) => size > second.store.auditLog.size));
    const sender = { name: bruges.name, uid: await first.addPeer(bruges.name) };
    await second.witness.heard(sender, sent);
    const answer = overWire(await second.witness.answer(bruges.name, sent));
    const uid = await bruges.addPeer('lubeck.example');
    await bruges.witness.heard({ name: 'lubeck.example', uid }, answer, sent);
    assert.equal(finding(bruges, 'lubeck.example'), undefined);
    assert.deepEqual(overWire(await bruges.witness.part('lubeck.example')).asks, []);
  });
});
