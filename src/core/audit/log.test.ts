import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { describe, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { HansaError, hasCode } from '../errors/error.ts';
import { createLog } from '../log/json-log.ts';
import { MetricsRegistry } from '../metrics/registry.ts';
import { MemoryDatabase } from '../store/memory/driver.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { verifyCheckpoint } from './checkpoint.ts';
import { noteSigner } from './note.ts';
import { type AuditDraft, parseEvent } from './event.ts';
import { Audit } from './log.ts';
import { verifyConsistency, verifyInclusion } from '../merkle/proofs.ts';
import { leafHash } from '../merkle/tree.ts';

const signer = noteSigner(
  'lubeck.example/hansa/audit',
  createPrivateKey({
    key: Buffer.concat([
      Buffer.from('302e020100300506032b657004220420', 'hex'),
      Buffer.alloc(32, 1),
    ]),
    format: 'der',
    type: 'pkcs8',
  }),
);

const create: AuditDraft = {
  actor: { user: 'alice', groups: [], via: 'certificate' },
  verb: 'create',
  kind: 'Role',
  name: 'viewer',
  outcome: 'allow',
};

const denied: AuditDraft = {
  ...create,
  actor: { user: 'mallory', groups: [], via: 'token' },
  outcome: 'deny',
  code: 'HANSA_FORBIDDEN',
};

async function harness(database = new MemoryDatabase()) {
  const clock = new VirtualClock(Date.UTC(2026, 0, 1));
  const lines: string[] = [];
  const log = createLog({
    sink: { write: (line: string) => lines.push(line) },
    clock,
    level: 'info',
    format: 'text',
  });
  const store = await openStore({ driver: 'memory', database }, { clock });
  const metrics = new MetricsRegistry();
  const audit = new Audit({ store, clock, signer, log, metrics });
  await audit.start();
  return { clock, store, audit, database, lines, metrics };
}

async function write(store: Store, audit: Audit, draft: AuditDraft = create): Promise<void> {
  await store.commit({
    put: [{ collection: 'roles', name: draft.name ?? 'x', encode: () => Buffer.from('{}') }],
    audit: [audit.record(draft)],
  });
}

async function rows(store: Store): Promise<ReturnType<typeof parseEvent>[]> {
  return (await store.auditLog.read(0, 1000)).map(parseEvent);
}

describe('the audit log', () => {
  test('records a change with its index, time and revision', async () => {
    const { store, audit } = await harness();
    await write(store, audit);
    const [event] = await rows(store);
    assert.equal(event?.index, 0);
    assert.equal(event?.time, '2026-01-01T00:00:00.000Z');
    assert.equal(event?.revision, store.get('roles', 'viewer')?.revision);
  });

  test('signs new records within about a second, once for all of them', async () => {
    const { clock, store, audit } = await harness();
    for (let i = 0; i < 5; i++) await write(store, audit);
    assert.equal(audit.latestCheckpoint?.size, 0);
    const before = store.revision;
    await clock.advance(1000);
    assert.equal(audit.latestCheckpoint?.size, 5);
    assert.equal(store.revision, before + 1);
    verifyCheckpoint(audit.latestCheckpoint, signer.verifier);
    await clock.advance(100_000);
    assert.equal(store.revision, before + 1);
  });

  test('signs at once on demand, and what nothing changed about only once', async () => {
    const { store, audit } = await harness();
    await write(store, audit);
    const [one, two] = await Promise.all([audit.checkpoint(), audit.checkpoint()]);
    assert.equal(one.size, 1);
    assert.equal(one.note, two.note);
    assert.deepEqual(one.rootHash, store.auditLog.rootHash);
  });

  test('signs a record whose commit came late', async () => {
    const { clock, store, audit } = await harness();
    const row = audit.record(create);
    await clock.advance(3000);
    await store.commit({ audit: [row] });
    await clock.advance(1500);
    assert.equal(audit.latestCheckpoint?.size, 1);
  });

  test('signs a row whose commit ended after the checkpoint that was due', async () => {
    const { clock, store, audit } = await harness();
    await write(store, audit);
    await clock.advance(999);
    // Its commit takes longer than the rest of the second after which the first row is signed.
    const late = audit.record(create);
    await clock.advance(1);
    assert.equal(audit.latestCheckpoint?.size, 1);
    await store.commit({ audit: [late] });
    await clock.advance(1000);
    assert.equal(audit.latestCheckpoint?.size, 2);
  });

  test('goes on from its checkpoint after a restart', async () => {
    const { clock, store, audit, database } = await harness();
    await write(store, audit);
    await clock.advance(1000);
    await write(store, audit);
    await store.close();
    const again = await harness(database);
    assert.equal(again.audit.problem, undefined);
    assert.equal(again.audit.latestCheckpoint?.size, 2);
  });

  test('signs nothing more where the log no longer extends its checkpoint, but goes on', async () => {
    const { store, audit, database } = await harness();
    await write(store, audit);
    await write(store, audit);
    await audit.stop();
    await store.close();
    // Somebody puts another history under the same checkpoint.
    const forged = await harness();
    await write(forged.store, forged.audit, denied);
    await forged.store.commit({
      put: [
        {
          collection: 'audit.checkpoints',
          name: 'latest',
          encode: () => Buffer.from(audit.latestCheckpoint?.note ?? ''),
        },
      ],
    });
    await forged.store.close();
    const again = await harness(forged.database);
    assert.ok(hasCode(again.audit.problem, 'HANSA_AUDIT_INVALID'));
    assert.match(again.metrics.expose(), /^hansa_audit_problem 1$/m);
    await write(again.store, again.audit);
    await assert.rejects(again.audit.checkpoint(), /do not extend/);
    await again.audit.stop();
    assert.notEqual(database, forged.database);
  });

  test('signs nothing more where its checkpoint was taken away', async () => {
    const { store, audit, database } = await harness();
    await write(store, audit);
    await audit.stop();
    await store.commit({ delete: [{ collection: 'audit.checkpoints', name: 'latest' }] });
    await store.close();
    const again = await harness(database);
    assert.ok(hasCode(again.audit.problem, 'HANSA_AUDIT_INVALID'));
    await assert.rejects(again.audit.checkpoint(), /its signed checkpoint is missing/);
    await again.audit.stop();
  });

  test('tries ever less often to sign while the disk is full, and stops all the same', async () => {
    const { clock, store, audit, lines } = await harness();
    await write(store, audit);
    Object.defineProperty(store, 'commit', {
      value: () => Promise.reject(new HansaError('HANSA_STORE_FULL', 'the disk is full')),
    });
    await clock.advance(10 * 60_000);
    const tries = lines.filter((line) => line.includes('cannot sign a checkpoint')).length;
    assert.ok(tries > 5 && tries < 20, `${tries} tries`);
    await audit.stop();
  });

  test('proves that a record is in it, and that it only grew', async () => {
    const { store, audit } = await harness();
    for (let i = 0; i < 10; i++) await write(store, audit);
    const old = await audit.checkpoint();
    for (let i = 0; i < 300; i++) await write(store, audit);
    const { index, row, checkpoint, proof } = await audit.prove(4);
    assert.ok(
      verifyInclusion({
        index,
        leafHash: leafHash(row),
        size: checkpoint.size,
        rootHash: checkpoint.rootHash,
        proof,
      }),
    );
    const consistency = await audit.proveConsistency(10);
    assert.ok(
      verifyConsistency({
        size1: 10,
        rootHash1: old.rootHash,
        size2: 310,
        rootHash2: consistency.checkpoint.rootHash,
        proof: consistency.proof,
      }),
    );
  });

  test('says so where there is no such record or size', async () => {
    const { store, audit } = await harness();
    await write(store, audit);
    for (const index of [-1, 1, 0.5, Number.NaN]) {
      await assert.rejects(audit.prove(index), (error) => hasCode(error, 'HANSA_NOT_FOUND'));
      if (index !== 1) {
        await assert.rejects(audit.proveConsistency(index), (e) => hasCode(e, 'HANSA_BAD_REQUEST'));
      }
    }
  });
});

describe('denials', () => {
  test('are written as one record for each who and why, a minute', async () => {
    const { clock, store, audit } = await harness();
    for (let i = 0; i < 500; i++) {
      audit.deny({ ...denied, name: `n${i}` });
      await clock.advance(10);
    }
    audit.deny({ ...denied, verb: 'delete' });
    assert.equal(store.auditLog.size, 0);
    await clock.advance(60_000);
    const events = await rows(store);
    assert.equal(events.length, 2);
    assert.equal(events[0]?.count, 500);
    assert.equal(events[0]?.since, '2026-01-01T00:00:00.000Z');
    assert.equal(events[0]?.name, undefined);
    assert.equal(events[0]?.revision, undefined);
    assert.equal(events[1]?.count, undefined);
    assert.equal(events[1]?.name, 'viewer');
  });

  test('are there for whoever looks, but are not written each time that somebody does', async () => {
    const { clock, store, audit } = await harness();
    audit.deny(denied);
    const { events } = await audit.list({ limit: 10 });
    assert.deepEqual(
      events.map(({ verb, outcome }) => [verb, outcome]),
      [[denied.verb, 'deny']],
    );
    for (let i = 0; i < 40; i++) {
      audit.deny(denied);
      await audit.list({ limit: 10 });
      await clock.advance(100);
    }
    assert.equal(store.auditLog.size, 1);
    await clock.advance(60_000);
    const [, gathered, ...others] = await rows(store);
    assert.equal(gathered?.count, 40);
    assert.deepEqual(others, []);
  });

  test('tell several reasons of one caller, so that none hides the others', async () => {
    const { clock, store, audit } = await harness();
    for (const reason of ['expired', 'expired', 'our own key']) audit.deny({ ...denied, reason });
    for (let i = 0; i < 500; i++) audit.deny({ ...denied, verb: 'delete', reason: `reason ${i}` });
    await clock.advance(61_000);
    const [first, second] = await rows(store);
    assert.equal(first?.reason, 'expired | our own key');
    assert.match(second?.reason ?? '', /^reason 0 \|.*\| reason 4 \| and others$/);
  });

  test('are bounded, however many callers are refused', async () => {
    const { clock, store, audit, metrics } = await harness();
    for (let i = 0; i < 5000; i++) {
      audit.deny({ ...denied, actor: { user: `u${i}`, groups: [], via: 'token' } });
    }
    await clock.advance(61_000);
    const { size } = store.auditLog;
    assert.equal(size, 1001);
    assert.equal(parseEvent((await store.auditLog.read(1000, 1))[0] as Buffer).count, 4000);
    assert.match(metrics.expose(), /^hansa_audit_denials_total 5000$/m);
  });

  test('are not lost when the log is stopped', async () => {
    const { store, audit } = await harness();
    audit.deny(denied);
    await audit.stop();
    assert.equal(store.auditLog.size, 1);
    assert.equal(audit.latestCheckpoint?.size, 1);
  });
});

describe('records that do not hold up their event', () => {
  test('are written in batches', async () => {
    const { clock, store, audit } = await harness();
    for (let i = 0; i < 10; i++) audit.later({ ...create, verb: 'renew' });
    await clock.advance(1000);
    assert.equal(store.auditLog.size, 10);
  });

  test('are written as they come where there are very many, and none is given up', async () => {
    const { clock, store, audit } = await harness();
    for (let batch = 0; batch < 100; batch++) {
      for (let i = 0; i < 256; i++) audit.later({ ...create, verb: 'renew' });
      await clock.advance(1);
    }
    await clock.advance(1000);
    assert.equal(store.auditLog.size, 25_600);
  });

  test('wait while the disk is full, bounded, and say afterwards how many were given up', async () => {
    const { clock, store, audit, lines } = await harness();
    const commit = store.commit.bind(store);
    let full = true;
    Object.defineProperty(store, 'commit', {
      value: (...args: Parameters<Store['commit']>) =>
        full
          ? Promise.reject(new HansaError('HANSA_STORE_FULL', 'the disk is full'))
          : commit(...args),
    });
    for (let i = 0; i < 10_007; i++) audit.later({ ...create, verb: 'renew' });
    await clock.advance(1000);
    assert.ok(lines.some((line) => line.includes('cannot write waiting audit records')));
    full = false;
    await clock.advance(61_000);
    assert.equal(store.auditLog.size, 10_001);
    const [row] = await store.auditLog.read(256, 1);
    const event = parseEvent(row as Buffer);
    assert.equal(event.verb, 'lose');
    assert.equal(event.count, 7);
  });
});

describe('searching the log', () => {
  test('finds by user, verb, kind, name, outcome and time, newest first, page by page', async () => {
    const { clock, store, audit } = await harness();
    for (let i = 0; i < 1200; i++) {
      await write(store, audit, {
        ...create,
        actor: { user: i % 2 === 0 ? 'alice' : 'bob', groups: ['"verb":"create"'], via: 'token' },
        verb: i % 3 === 0 ? 'delete' : 'create',
        name: `n${i}`,
      });
      await clock.advance(1000);
    }
    const indexes = async (query: Parameters<Audit['list']>[0]): Promise<number[]> =>
      (await audit.list(query)).events.map(({ index }) => index);
    assert.deepEqual(await indexes({ limit: 2 }), [1199, 1198]);
    assert.deepEqual(await indexes({ limit: 2, user: 'alice', verb: 'delete' }), [1194, 1188]);
    assert.deepEqual(await indexes({ limit: 9, name: 'n7' }), [7]);
    assert.deepEqual(await indexes({ limit: 9, kind: 'Site' }), []);
    assert.deepEqual(await indexes({ limit: 9, outcome: 'deny' }), []);
    const start = Date.UTC(2026, 0, 1);
    assert.deepEqual(
      await indexes({ limit: 9, sinceMs: start + 5000, untilMs: start + 8000 }),
      [7, 6, 5],
    );
    const all: number[] = [];
    let before: number | undefined;
    do {
      const page = await audit.list({
        limit: 100,
        verb: 'create',
        ...(before === undefined ? {} : { before }),
      });
      all.push(...page.events.map(({ index }) => index));
      before = page.before;
    } while (before !== undefined);
    assert.equal(all.length, 800);
    assert.deepEqual(
      all,
      all.toSorted((a, b) => b - a),
    );
  });
});
