import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { after, before, suite, test } from 'node:test';
import type { Clock } from '../../core/clock/clock.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { answerMs, joinBySvid } from '../client/join-client.ts';
import { ciToken, joinSite, putObject, runner, type TestJoinSite } from '../join/test-join-site.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { runCli } from '../../cli/program.ts';
import { allPlanes } from '../../test-planes.ts';

suite('hansa join renew --watch', () => {
  let site: TestJoinSite;
  const folder = mkdtempSync(join(tmpdir(), 'hansa-renew-'));

  before(async () => {
    site = await joinSite();
    await site.createToken('ci-runners', ciToken);
  });
  after(async () => {
    await site.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const joinInto = async (name: string): Promise<JoinFolder> => {
    const into = new JoinFolder(join(folder, name));
    const joined = await joinBySvid(
      {
        server: { url: site.url, bundle: site.authority.bundle },
        clock: systemClock,
        random: systemRandom,
        key: await into.nextKey(systemRandom),
      },
      { token: 'ci-runners', role: 'bot', name: '' },
      { chain: [runner.certificate], key: runner.key },
    );
    into.keep(joined, site.url);
    return into;
  };

  /** Its clock is ahead of the site, so renewal is due at once. It records each wait and ends it. */
  const watch = async (
    into: JoinFolder,
    aheadMs: number,
    lines: number,
    isEnough: (delayMs: number) => boolean = () => false,
  ) => {
    const interruption = new AbortController();
    const waits: number[] = [];
    const clock: Clock = {
      now: () => systemClock.now() + aheadMs,
      monotonic: () => systemClock.monotonic(),
      timer: (delayMs, fire) => {
        // Timers of HTTP calls run as usual. This test is about the waits between them.
        const ofCall = (delayMs > 0 && delayMs <= 10_000) || delayMs === answerMs;
        if (ofCall) return systemClock.timer(delayMs, fire);
        waits.push(delayMs);
        if (isEnough(delayMs)) interruption.abort();
        return systemClock.timer(0, fire);
      },
    };
    const printed: string[] = [];
    const collect = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        printed.push(chunk.toString('utf8'));
        if (printed.length >= lines) interruption.abort();
        done();
      },
    });
    const io = {
      stdout: collect,
      stderr: collect,
      stdin: Readable.from([]),
      env: {},
      cwd: folder,
      clock,
      random: systemRandom,
      launcher: 'hansa',
      interruption: () => interruption.signal,
    };
    const args = ['join', 'renew', '--watch', '--write', into.path];
    const parts = { planes: allPlanes, version: '1' };
    return { code: await runCli(args, io, parts), printed, waits };
  };

  test('renews whenever half of the life is over', async () => {
    const into = await joinInto('a');
    const { printed } = await watch(into, 40 * 60_000, 3);
    assert.equal(printed.length, 3);
    for (const line of printed) assert.match(line, /hansa\/bot\/ci, valid until /);
    assert.equal(into.membership?.generation, '4');
    assert.equal(statSync(join(into.path, 'svid.key')).mode & 0o777, 0o600);
  });

  test('goes on where the site is away, more slowly after the expiry, and gives up at the end', async () => {
    const into = await joinInto('b');
    const path = join(into.path, 'join.json');
    const moved = readFileSync(path, 'utf8').replace(site.url.origin, 'https://127.0.0.1:1');
    writeFileSync(path, moved);
    const away = await watch(into, 40 * 60_000, 3);
    for (const line of away.printed) assert.match(line, /Trying again in 15 s/);
    assert.ok(away.waits.includes(15_000));
    const expired = await watch(into, 61 * 60_000, 12);
    assert.equal(expired.code, 130);
    assert.ok(expired.waits.every((ms) => ms <= 300_000));
    assert.ok(expired.waits.some((ms) => ms >= 150_000));
    const over = await watch(into, 61 * 60_000 + 7 * 86_400_000, 99);
    assert.equal(over.code, 11);
    assert.match(over.printed.at(-1) ?? '', /Cannot renew: the SVID expired .* is over/);
  });

  test('tries again while the peer that vouched for it is suspended, and renews after', async () => {
    const into = await joinInto('e');
    const peer = (desiredState: string) =>
      putObject(site.store, 'federationpeers', {
        metadata: { name: 'bruges.example', uid: 'uid-1' },
        spec: { url: 'https://bruges.example:8443', desiredState },
        status: { state: 'active' },
      });
    await peer('suspended');
    const { printed } = await watch(into, 40 * 60_000, 2);
    for (const line of printed) {
      assert.match(line, /bruges\.example is suspended.* Trying again in 15 s/);
    }
    await peer('active');
    assert.match(
      (await watch(into, 40 * 60_000, 1)).printed[0] ?? '',
      /hansa\/bot\/ci, valid until /,
    );
  });

  test('goes on at once with an SVID that expired, as long as the site accepts its key', async () => {
    const into = await joinInto('f');
    await site.pass(2 * 3_600_000);
    const { printed } = await watch(into, 2 * 3_600_000, 1);
    assert.match(printed[0] ?? '', /hansa\/bot\/ci, valid until /);
    assert.equal(into.membership?.generation, '2');
    assert.equal(into.membership?.reattestSeconds, 604_800);
    await site.pass(-2 * 3_600_000);
  });

  test('does not go on where a membership of an older version has expired', async () => {
    const into = await joinInto('g');
    const path = join(into.path, 'join.json');
    const { reattestSeconds: _none, ...old } = into.membership ?? {};
    writeFileSync(path, JSON.stringify({ ...old, server: 'https://127.0.0.1:1' }));
    const { code, printed } = await watch(into, 61 * 60_000, 99);
    assert.equal(code, 11);
    assert.match(printed.at(-1) ?? '', /expired at .* is over\. Join again\. /);
  });

  test('keeps the bundle fresh meanwhile, so that a rotation does not lock it out', async () => {
    const into = await joinInto('d');
    const bundle = (): string => readFileSync(join(into.path, 'bundle.pem'), 'utf8');
    const first = bundle();
    await site.authority.prepare('x509', () => []);
    // The next wait is for the refresh hint: the bundle was fetched before it.
    const { printed } = await watch(into, 0, 99, (delayMs) => delayMs > 200_000);
    assert.match(printed.join(''), /^The next renewal is at 2[0-9T:.-]+Z\.\n$/);
    assert.notEqual(bundle(), first);
    assert.equal(bundle(), site.authority.bundle.pem);
    assert.equal(into.membership?.generation, '1');
  });

  test('ends where it is refused', async () => {
    const into = await joinInto('c');
    const path = join(into.path, 'join.json');
    writeFileSync(
      path,
      readFileSync(path, 'utf8').replace('"generation": "1"', '"generation": "7"'),
    );
    const { code, printed } = await watch(into, 40 * 60_000, 99);
    assert.equal(code, 7);
    assert.match(printed.join(''), /The join is rejected/);
  });
});
