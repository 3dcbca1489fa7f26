import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { createLog } from '../log/json-log.ts';
import { MetricsRegistry } from '../metrics/registry.ts';
import { MemoryDatabase } from '../store/memory/driver.ts';
import { openStore } from '../store/open.ts';
import { Audit } from './log.ts';
import { consistencyProof } from './proof.ts';
import { PublicLog } from './public-log.ts';
import { testSigner } from './test-signer.ts';

test('a proof that could not be read is read again for the next call', async () => {
  const clock = new VirtualClock(Date.UTC(2026, 0, 1));
  const store = await openStore({ driver: 'memory', database: new MemoryDatabase() }, { clock });
  const metrics = new MetricsRegistry();
  const sink = { write: () => undefined };
  const log = createLog({ sink, clock, level: 'warn', format: 'text' });
  const signer = testSigner('lubeck.example', 1);
  const audit = new Audit({ store, clock, signer, log, metrics });
  await audit.start();
  const publicLog = new PublicLog({ audit, store, clock, signer, log, metrics });
  const actor = { user: 'alice', groups: [], via: 'certificate' } as const;
  const rows = ['a', 'b', 'c', 'd', 'e'].map((name) =>
    audit.record({ actor, verb: 'create', name, outcome: 'allow' }),
  );
  await store.commit({ audit: rows });
  await audit.checkpoint();
  const { checkpoint } = publicLog;
  assert.ok(checkpoint);

  const { auditLog } = store;
  const leafHashes = auditLog.leafHashes.bind(auditLog);
  auditLog.leafHashes = () => Promise.reject(new Error('the disk is away'));
  await assert.rejects(publicLog.proof(3, checkpoint), /the disk is away/);
  auditLog.leafHashes = leafHashes;
  assert.deepEqual(
    await publicLog.proof(3, checkpoint),
    await consistencyProof(auditLog, 3, checkpoint.size),
  );
});
