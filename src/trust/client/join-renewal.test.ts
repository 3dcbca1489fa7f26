import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { silentLog } from '../../core/log/test-log.ts';
import { systemRandom } from '../../core/clock/system.ts';
import { openSiteStream } from '../agent/site-stream.ts';
import { ciToken, joinSite, runner, type TestJoinSite } from '../join/test-join-site.ts';
import { joinBySvid } from './join-client.ts';
import { JoinFolder } from './join-folder.ts';
import { renewOnce } from './join-renewal.ts';

suite('the renewal of a folder', () => {
  let site: TestJoinSite;
  const folder = mkdtempSync(join(tmpdir(), 'hansa-renewal-'));
  const { signal } = new AbortController();

  before(async () => {
    site = await joinSite();
    await site.createToken('ci-runners', ciToken);
  });
  after(async () => {
    await site.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const parts = (into: JoinFolder) => ({
    io: { clock: site.clock, random: systemRandom, interruption: () => signal },
    folder: into,
    server: undefined,
  });
  const joinInto = async (name: string): Promise<JoinFolder> => {
    const into = new JoinFolder(join(folder, name));
    const key = await into.nextKey(systemRandom);
    const server = { url: site.url, bundle: site.authority.bundle };
    const joined = await joinBySvid(
      { server, clock: site.clock, random: systemRandom, key },
      { token: 'ci-runners', role: 'agent', name },
      { chain: [runner.certificate], key: runner.key },
    );
    into.keep(joined, site.url);
    return into;
  };

  test('that several parts of a process ask for at once happens once', async () => {
    const into = await joinInto('crane-1');
    const same = new JoinFolder(into.path);
    const all = await Promise.all([into, same, into].map((each) => renewOnce(parts(each))));
    assert.deepEqual(
      all.map(({ generation }) => generation),
      [2n, 2n, 2n],
    );
    assert.equal(into.membership?.generation, '2');
    assert.equal((await renewOnce(parts(into))).generation, 3n);
  });

  test('works with an SVID that expired', async () => {
    const into = await joinInto('crane-2');
    await site.pass(2 * 3_600_000);
    assert.equal((await renewOnce(parts(into))).generation, 2n);
    await site.pass(-2 * 3_600_000);
  });

  for (const hours of [-5, 5]) {
    test(`and the stream of an agent name the clock if it is wrong by ${hours} hours`, async () => {
      const into = await joinInto(`clock${hours}`);
      const clock = {
        now: () => site.clock.now() + hours * 3_600_000,
        monotonic: () => site.clock.monotonic(),
        timer: site.clock.timer.bind(site.clock),
      };
      const { io, ...rest } = parts(into);
      const wrong = {
        code: 'HANSA_PEER_UNTRUSTED',
        message: /check (?:both|the) clocks/i,
      };
      await assert.rejects(renewOnce({ ...rest, io: { ...io, clock } }), wrong);
      const options = { server: undefined, clock, log: silentLog, signal };
      await assert.rejects(openSiteStream(into, options), (error: Error) => {
        assert.match(error.message, wrong.message);
        assert.doesNotMatch(error.message, /replaced its authorities/);
        return true;
      });
    });
  }

  test('that failed can be tried again', async () => {
    const into = await joinInto('crane-3');
    const kept = site.members.get('agent/crane-3');
    assert.ok(kept);
    await site.members.markConflicted('agent/crane-3', 'two processes answer', []);
    await assert.rejects(renewOnce(parts(into)), { code: 'HANSA_UNAVAILABLE' });
    await site.members.reinstate('agent/crane-3', []);
    assert.equal((await renewOnce(parts(into))).generation, 2n);
  });

  test('leaves no key in a folder that belongs to no member', async () => {
    const empty = new JoinFolder(join(folder, 'empty'));
    await assert.rejects(renewOnce(parts(empty)), {
      code: 'HANSA_USAGE',
      message: /no join\.json/,
    });
    assert.ok(!existsSync(empty.path));
  });
});
