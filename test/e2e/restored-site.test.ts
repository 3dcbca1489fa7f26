// A site is restored from a backup, with a signed record of it. Real daemons and real SQLite files.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { parseVerifier } from '../../src/core/audit/note.ts';
import { readRestore, type RestoreRecord } from '../../src/core/audit/restore-record.ts';
import type { PeeringSite } from './peering-pair.ts';
import { writeRestore } from './restore-writer.ts';
import { copyFolder } from './tampered-store.ts';
import { until } from './until.ts';
import {
  addEvents,
  allCosigned,
  conditionOf,
  copyPath,
  dataDirOf,
  eventsOf,
  finding,
  heartbeats,
  logOf,
  metricsOf,
  signsNothing,
  startWitnessingPair,
  stopAndCopy,
} from './witnessing-pair.ts';

suite('a site that was restored from a backup', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;
  let record: RestoreRecord;
  /** How many events bruges had seen before the restore. */
  let seen = 0;
  let keyBefore = '';

  before(async () => {
    ({ lubeck, bruges } = await startWitnessingPair());
    await addEvents(lubeck, 'early', 10);
    await allCosigned(lubeck, bruges);
    // The backup has this cosignature.
    await until(async () =>
      (await lubeck.must(['audit', 'verify'])).includes('cosigned by bruges'),
    );
    const backup = await stopAndCopy(lubeck, 'backup');
    await lubeck.start();
    await addEvents(lubeck, 'late', 10);
    await allCosigned(lubeck, bruges);
    await lubeck.stop();
    const { events, key } = await logOf(bruges, lubeck);
    seen = events;
    keyBefore = key;
    copyFolder(backup, dataDirOf(lubeck));
    record = await writeRestore(dataDirOf(lubeck));
    await lubeck.start();
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop()]));

  test('is told apart by its record, and shown with what was lost', async () => {
    const proof = await finding(bruges, lubeck, 'Restored');
    const { finding: found, key } = await logOf(bruges, lubeck);
    assert.ok(record.size > 0 && record.size < seen);
    assert.match(
      found?.message ?? '',
      new RegExp(
        `checkpoint of ${record.size} events, .* has seen ${seen}: ${seen - record.size} events are not`,
      ),
    );
    assert.equal(readRestore(proof.at(-1) ?? '', parseVerifier(keyBefore)).note, record.note);
    assert.match(key, /^lubeck\.example\/log\/2\+/);
    assert.equal((await bruges.peer(lubeck.name))?.state, 'active');
  });

  test('has a new log, which its peer cosigns from the beginning', async () => {
    assert.match(await metricsOf(lubeck), /^hansa_audit_problem 0$/m);
    await allCosigned(lubeck, bruges);
    const text = await lubeck.must(['audit', 'verify']);
    assert.match(text, /^lubeck\.example\/log\/2: \d+ events, verified/);
    assert.match(text, /^cosigned by bruges\.example up to event \d+/m);
    const [first] = await eventsOf(lubeck, 'audit.restored');
    assert.equal(first?.index, 0);
    assert.ok(first.reason?.includes(`checkpoint: ${record.size} `), first.reason);
    await bruges.must(['witness', 'acknowledge', lubeck.name]);
    assert.deepEqual(await conditionOf(bruges, lubeck), { status: 'True', reason: 'Consistent' });
  });

  test('cosigns nothing until an operator confirms what it has seen', async () => {
    assert.deepEqual(await conditionOf(lubeck, bruges), {
      status: 'Unknown',
      reason: 'Unconfirmed',
    });
    assert.match(await metricsOf(lubeck), /^hansa_peer_log_unconfirmed 1$/m);
    const cosignedBefore = (await logOf(bruges, lubeck)).cosigned.events;
    await addEvents(bruges, 'unconfirmed', 3);
    const received = await heartbeats(bruges, 'received');
    await until(async () => (await heartbeats(bruges, 'received')) >= received + 3);
    const { cosigned } = await logOf(bruges, lubeck);
    assert.equal(cosigned.events, cosignedBefore);
    assert.ok((cosigned.waitsSeconds ?? 0) > 0);
    await lubeck.must(['witness', 'confirm', bruges.name]);
    assert.ok((await allCosigned(bruges, lubeck)) > cosignedBefore);
    assert.deepEqual(await conditionOf(lubeck, bruges), { status: 'True', reason: 'Consistent' });
  });

  test('signs nothing any more if the backup is put back without the record', async () => {
    await lubeck.stop();
    copyFolder(copyPath(lubeck, 'backup'), dataDirOf(lubeck));
    await lubeck.start();
    await signsNothing(lubeck);
    await finding(bruges, lubeck, 'KeyChanged');
    const [event] = await eventsOf(lubeck, 'audit.contradicted');
    const why = /checkpoint of the log lubeck\.example\/log\/2 .* an older copy of the data folder/;
    assert.match(event?.reason ?? '', why);
  });
});
