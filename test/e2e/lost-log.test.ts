// An operator puts back an older copy of the data folder, and the newest copy is lost. The site follows its own
// advice: it starts over as the same peer, signs a new log, and is ready again.

import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import type { PeeringSite } from './peering-pair.ts';
import { copyFolder } from './tampered-store.ts';
import { until } from './until.ts';
import {
  addEvents,
  allCosigned,
  copyPath,
  dataDirOf,
  logOf,
  metricsOf,
  startWitnessingPair,
  stopAndCopy,
} from './witnessing-pair.ts';

suite('a site whose newest data folder is lost', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;

  before(async () => {
    ({ lubeck, bruges } = await startWitnessingPair());
    const old = await stopAndCopy(lubeck, 'old');
    await lubeck.start();
    await addEvents(lubeck, 'late', 10);
    await allCosigned(lubeck, bruges);
    await lubeck.stop();
    copyFolder(old, dataDirOf(lubeck));
    await lubeck.start();
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop()]));

  test('starts over in a new one, and is ready again', async () => {
    await until(async () => /^hansa_audit_problem 1$/m.test(await metricsOf(lubeck)));
    await lubeck.stop();
    renameSync(dataDirOf(lubeck), copyPath(lubeck, 'lost'));
    await lubeck.start();
    const fingerprint = (await lubeck.must(['trust', 'bundle', 'fingerprint'])).trim();
    const again = ['peer', 'reenrol', lubeck.name, '--fingerprint', fingerprint];
    const accepted = await lubeck.accept((await bruges.must(again)).trim());
    assert.equal(accepted.code, 0, accepted.stderr);
    await bruges.until(lubeck.name, 'active');
    const key = (await lubeck.must(['audit', 'checkpoint', '--key'])).trim();
    await until(async () => {
      const log = await logOf(bruges, lubeck);
      if (log.finding !== undefined) await bruges.must(['witness', 'acknowledge', lubeck.name]);
      return log.finding === undefined && log.key === key;
    });
    await allCosigned(lubeck, bruges);
    const ready = await fetch(new URL('/readyz', lubeck.daemon.endpoints.metrics));
    assert.equal(ready.status, 200);
    assert.match(await metricsOf(lubeck), /^hansa_audit_problem 0$/m);
  });
});
