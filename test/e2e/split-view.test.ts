// A site shows each of two peers another history of its audit log. Neither can tell by itself. They pass on what they
// saw to each other, and so one of them finds the split view although the other is dark by then. Real daemons and
// real files.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { parseCheckpoint, verifyCheckpoint } from '../../src/core/audit/checkpoint.ts';
import { parseVerifier } from '../../src/core/audit/note.ts';
import { type PeeringSite, startSites } from './peering-pair.ts';
import { copyFolder } from './tampered-store.ts';
import { until } from './until.ts';
import {
  addEvents,
  allCosigned,
  conditionOf,
  dataDirOf,
  finding,
  heartbeats,
  logOf,
  signsNothing,
  stopAndCopy,
} from './witnessing-pair.ts';

type Three = [lubeck: PeeringSite, bruges: PeeringSite, novgorod: PeeringSite];

suite('two sites that pass on checkpoints', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;
  let novgorod: PeeringSite;

  before(async () => {
    const flags = ['--peering-pass-on-checkpoints', 'yes'];
    [lubeck, bruges, novgorod] = (await startSites(
      flags,
      'lubeck',
      'bruges',
      'novgorod',
    )) as unknown as Three;
    for (const [inviter, acceptor] of pairs()) {
      const { code, stderr } = await acceptor.accept(
        await inviter.invite(['--for', acceptor.name]),
      );
      assert.equal(code, 0, stderr);
    }
    for (const [one, other] of pairs()) {
      await allCosigned(one, other);
      await allCosigned(other, one);
    }
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop(), novgorod?.stop()]));

  const pairs = () =>
    [
      [lubeck, bruges],
      [lubeck, novgorod],
      [bruges, novgorod],
    ] as const;

  /** Until the two have told each other what they saw. */
  const passOn = async (): Promise<void> => {
    const [sent, received] = [
      await heartbeats(bruges, 'sent'),
      await heartbeats(bruges, 'received'),
    ];
    await until(async () => (await heartbeats(bruges, 'sent')) >= sent + 3);
    await until(async () => (await heartbeats(bruges, 'received')) >= received + 3);
  };

  test('find nothing in an honest log', async () => {
    await addEvents(lubeck, 'honest', 20);
    await allCosigned(lubeck, bruges);
    await allCosigned(lubeck, novgorod);
    await passOn();
    for (const site of [bruges, novgorod]) {
      assert.deepEqual(await conditionOf(site, lubeck), { status: 'True', reason: 'Consistent' });
    }
  });

  test('find a log that shows each of them another history', async () => {
    const old = await stopAndCopy(lubeck, 'old');
    await novgorod.stop();
    await lubeck.start();
    await addEvents(lubeck, 'for-bruges', 20);
    await allCosigned(lubeck, bruges);
    await lubeck.stop();
    await bruges.stop();
    copyFolder(old, dataDirOf(lubeck));
    await novgorod.start();
    await lubeck.start();
    await addEvents(lubeck, 'for-novgorod', 60);
    await allCosigned(lubeck, novgorod);
    await lubeck.stop();
    await bruges.start();
    await passOn();
    // The two histories have different sizes, so only lubeck can show how they belong together.
    for (const site of [bruges, novgorod]) {
      assert.deepEqual(await conditionOf(site, lubeck), { status: 'True', reason: 'Consistent' });
    }
    await bruges.stop();
    await lubeck.start();
    const proof = (await finding(novgorod, lubeck, 'SplitView')).map(parseCheckpoint);
    assert.equal(proof.length, 2);
    const key = parseVerifier((await logOf(novgorod, lubeck)).key);
    for (const checkpoint of proof) verifyCheckpoint(checkpoint, key);
    assert.match((await logOf(novgorod, lubeck)).finding?.message ?? '', /showed bruges\.example/);
    await bruges.start();
    await signsNothing(lubeck);
  });
});
