// Someone with the files of a site, and with its signing key, changes its audit log while the site is stopped. Its
// peer shows that with the proof, and the site signs nothing more. Real daemons and real SQLite files.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { parseCheckpoint, verifyCheckpoint } from '../../src/core/audit/checkpoint.ts';
import { parseVerifier } from '../../src/core/audit/note.ts';
import { firingAlerts, whyNoPromtool } from './firing-alerts.ts';
import type { PeeringSite } from './peering-pair.ts';
import { AuditFile, copyFolder, signerOf } from './tampered-store.ts';
import {
  addEvents,
  allCosigned,
  conditionOf,
  copyPath,
  dataDirOf,
  eventsOf,
  finding,
  logOf,
  metricsOf,
  signsNothing,
  startWitnessingPair,
  stopAndCopy,
} from './witnessing-pair.ts';
import { until } from './until.ts';

suite('an audit log that someone with the files of its site changed', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;

  before(async () => {
    ({ lubeck, bruges } = await startWitnessingPair());
    await addEvents(lubeck, 'early', 30);
    await allCosigned(lubeck, bruges);
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop()]));

  const fires = async (site: PeeringSite, alert: string, t: { diagnostic(text: string): void }) => {
    if (whyNoPromtool !== false) return t.diagnostic(whyNoPromtool);
    const firing = await firingAlerts(site.name, await metricsOf(site), true);
    assert.ok(firing.includes(alert), `${alert} does not fire at ${site.name}: ${firing.join()}`);
  };

  /** Puts back the newest copy of the data folder, and ends the finding of bruges. */
  async function repair(newest: string): Promise<void> {
    await lubeck.stop();
    copyFolder(newest, dataDirOf(lubeck));
    await lubeck.start();
    const { finding: found } = await logOf(bruges, lubeck);
    if (found !== undefined) await bruges.must(['witness', 'acknowledge', lubeck.name]);
    await allCosigned(lubeck, bruges);
    assert.deepEqual(await conditionOf(bruges, lubeck), { status: 'True', reason: 'Consistent' });
    assert.doesNotMatch(await metricsOf(bruges), /^hansa_peer_log_finding/m);
    assert.match(await metricsOf(lubeck), /^hansa_audit_problem 0$/m);
    assert.match(await lubeck.must(['audit', 'verify']), /cosigned by bruges\.example/);
  }

  test('fits before, and no alert fires', async (t) => {
    for (const [site, peer] of [
      [lubeck, bruges],
      [bruges, lubeck],
    ] as const) {
      assert.deepEqual(await conditionOf(site, peer), { status: 'True', reason: 'Consistent' });
      if (whyNoPromtool !== false) t.diagnostic(whyNoPromtool);
      else assert.deepEqual(await firingAlerts(site.name, await metricsOf(site)), []);
    }
  });

  test('with rows cut off: the site does not start, and is silent', async (t) => {
    const newest = await stopAndCopy(lubeck, 'newest');
    const file = new AuditFile(dataDirOf(lubeck));
    file.cut(file.size - 5);
    file.close();
    await assert.rejects(lubeck.start(), /HANSA_STORE_CORRUPT/);
    await bruges.until(lubeck.name, 'degraded');
    await fires(bruges, 'HansaPeerSilent lubeck.example', t);
    await repair(newest);
  });

  test('with a row rewritten, but not its hash: verifying names the row', async () => {
    const newest = await stopAndCopy(lubeck, 'newest');
    const file = new AuditFile(dataDirOf(lubeck));
    const changed = file.rewrite((event) =>
      event.name === 'early-3'
        ? { ...event, actor: { ...event.actor, user: 'mallory' } }
        : undefined,
    );
    file.close();
    const stopped = await lubeck.run(['audit', 'verify']);
    assert.equal(stopped.code, 11, stopped.stdout);
    assert.match(stopped.stderr, new RegExp(`record ${changed} was changed`));
    await repair(newest);
  });

  test('with rows cut off and all hashes computed again: it is no longer signed', async (t) => {
    const newest = await stopAndCopy(lubeck, 'newest');
    const file = new AuditFile(dataDirOf(lubeck));
    file.cut(file.size - 20);
    file.rehash();
    file.close();
    await lubeck.start();
    await signsNothing(lubeck);
    const [held] = await finding(bruges, lubeck, 'Unsigned');
    const { key } = await logOf(bruges, lubeck);
    verifyCheckpoint(parseCheckpoint(held ?? ''), parseVerifier(key));
    assert.equal((await bruges.peer(lubeck.name))?.state, 'active');
    await fires(bruges, 'HansaPeerLogContradictory lubeck.example Unsigned', t);
    await fires(lubeck, 'HansaAuditLogContradictory', t);
    await repair(newest);
  });

  test('with rows cut off and signed again: it shrank, and signs nothing after a restart', async (t) => {
    const newest = await stopAndCopy(lubeck, 'newest');
    const signer = await signerOf(dataDirOf(lubeck));
    const file = new AuditFile(dataDirOf(lubeck));
    file.cut(file.size - 20);
    await file.resign(signer);
    file.close();
    await lubeck.start();
    await isProof('Shrank', (was, is) => assert.ok(is < was));
    await contradicted(/an older copy of the data folder was put back/);
    await saysWayOut();
    await fires(bruges, 'HansaPeerLogContradictory lubeck.example Shrank', t);
    await fires(lubeck, 'HansaAuditLogContradictory', t);
    await lubeck.stop('SIGKILL');
    await lubeck.start();
    await signsNothing(lubeck);
    await repair(newest);
  });

  test('with a row and all hashes rewritten and signed again: it forked', async (t) => {
    const newest = await stopAndCopy(lubeck, 'newest');
    const signer = await signerOf(dataDirOf(lubeck));
    const file = new AuditFile(dataDirOf(lubeck));
    file.rewrite((event) =>
      event.name === 'early-3'
        ? { ...event, actor: { ...event.actor, user: 'mallory' } }
        : undefined,
    );
    await file.resign(signer);
    file.close();
    await lubeck.start();
    await isProof('Forked', (was, is) => assert.ok(is >= was));
    await contradicted(/records of the audit log are others: they were changed/);
    await fires(bruges, 'HansaPeerLogContradictory lubeck.example Forked', t);
    // bruges cosigns none of the events that came since.
    await fires(lubeck, 'HansaAuditUnwitnessed', t);
    await repair(newest);
  });

  test('by an old copy of the whole folder with the signing key: it shrank', async (t) => {
    const old = await stopAndCopy(lubeck, 'old');
    await lubeck.start();
    await addEvents(lubeck, 'late', 30);
    await allCosigned(lubeck, bruges);
    const newest = await stopAndCopy(lubeck, 'newest');
    copyFolder(old, dataDirOf(lubeck));
    await lubeck.start();
    await isProof('Shrank', (was, is) => assert.ok(is < was));
    await contradicted(/an older copy of the data folder was put back/);
    await fires(bruges, 'HansaPeerLogContradictory lubeck.example Shrank', t);
    await fires(lubeck, 'HansaAuditLogContradictory', t);
    await repair(newest);
  });

  test('by an old copy that grew until it was larger, without its peer: it forked', async () => {
    const newest = await stopAndCopy(lubeck, 'newest');
    await bruges.stop();
    copyFolder(copyPath(lubeck, 'old'), dataDirOf(lubeck));
    await lubeck.start();
    await addEvents(lubeck, 'another', 60);
    // Signed, as no peer has told the site of its larger log.
    await lubeck.must(['audit', 'checkpoint']);
    await bruges.start();
    await isProof('Forked', (was, is) => assert.ok(is > was));
    await contradicted(/records of the audit log are others: they were changed/);
    await repair(newest);
  });

  /** Every place that says that the site is not ready also says what to do. */
  async function saysWayOut(): Promise<void> {
    const metrics = lubeck.daemon.endpoints.metrics;
    const readyz = async () => (await fetch(new URL('/readyz', metrics))).text();
    const way =
      /put back the newest copy of the data folder\. If there is none.*hansa peer reenrol/s;
    const shows = async (read: () => Promise<string>): Promise<void> => {
      let shown = '';
      await until(
        async () => way.test((shown = (await read()).replaceAll(/\s+/g, ' '))),
        () => shown,
      );
    };
    await shows(readyz);
    await shows(() => lubeck.must(['status']));
    await shows(async () => (await lubeck.run(['peer', 'list'])).stderr);
    await shows(async () => (await lubeck.run(['doctor'])).stdout);
    assert.equal((await fetch(new URL('/livez', metrics))).status, 200);
  }

  /** Two checkpoints that the site itself signed, and that cannot both be of one log. */
  async function isProof(reason: string, sizes: (was: number, is: number) => void): Promise<void> {
    const proof = (await finding(bruges, lubeck, reason)).map(parseCheckpoint);
    assert.equal(proof.length, 2);
    const key = parseVerifier((await logOf(bruges, lubeck)).key);
    for (const checkpoint of proof) verifyCheckpoint(checkpoint, key);
    const [was, is] = proof.map(({ size }) => size) as [number, number];
    sizes(was, is);
    assert.equal((await bruges.peer(lubeck.name))?.state, 'active');
  }

  /** lubeck saw a larger or another checkpoint of its own, says so, and signs nothing more. */
  async function contradicted(why: RegExp): Promise<void> {
    await signsNothing(lubeck);
    const events = await eventsOf(lubeck, 'audit.contradicted');
    assert.equal(events.length, 1);
    assert.match(events[0]?.reason ?? '', why);
    assert.match(events[0]?.reason ?? '', /Checkpoint: lubeck\.example\n\d+\n/);
    const ready = await fetch(new URL('/readyz', lubeck.daemon.endpoints.metrics));
    assert.match(await ready.text(), why);
  }
});
