import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { SeededRandom } from '../clock/seeded-random.ts';
import { HansaError } from '../errors/error.ts';
import { retryDelayMs } from './agent-link.ts';
import { scene } from './test-link.ts';

suite('a site that does not answer', () => {
  test('is pinged after silence, and keeps its stream while it answers', async () => {
    const { clock, site, stop } = scene();
    await clock.advance(120_000);
    const pings = site.open?.sent.filter((message) => message.case === 'ping') ?? [];
    assert.ok(pings.length >= 4 && pings.length <= 9, `${pings.length} pings`);
    assert.equal(site.streams.length, 1);
    await stop();
  });

  test('is left after an unanswered ping', async () => {
    const { clock, site, link, stop } = scene();
    site.intercept = (message) => message.case === 'ping' && site.streams.length === 1;
    await clock.advance(24_000);
    assert.equal(site.streams.length, 1);
    await clock.advance(30_000);
    assert.equal(site.streams[0]?.closed, true);
    assert.equal(link.status.connected, true);
    assert.equal(site.streams.length, 2);
    await stop();
  });

  test('is left where it never sends a state', async () => {
    const { clock, site, link, stop } = scene();
    site.intercept = (message) => message.case === 'hello';
    await clock.advance(61_000);
    assert.match(link.status.lastError ?? '', /sent no state/);
    assert.equal(link.status.lastContactMs, undefined);
    await stop();
  });

  test('is left where it does not read', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const [stream] = site.streams;
    if (stream !== undefined) stream.backlogBytes = 9 * 1024 ** 2;
    stream?.say({ case: 'ping', value: { nonce: Buffer.of(1) } });
    await clock.advance(0);
    assert.match(link.status.lastError ?? '', /does not read/);
    await stop();
  });

  test('gets an answer to its own pings', async () => {
    const { clock, site, stop } = scene();
    await clock.advance(0);
    site.open?.say({ case: 'ping', value: { nonce: Buffer.from('nonce') } });
    await clock.advance(0);
    const last = site.open?.sent.at(-1);
    assert.equal(last?.case, 'pong');
    assert.equal(Buffer.from(last?.case === 'pong' ? last.value.nonce : []).toString(), 'nonce');
    await stop();
  });
});

suite('reconnecting', () => {
  test('a thousand agents spread their first retry over a second, and later ones over half a minute', () => {
    const random = new SeededRandom('spread');
    for (const [attempt, mostMs] of [
      [0, 1_000],
      [3, 8_000],
      [20, 30_000],
    ] as const) {
      const delays = Array.from({ length: 1_000 }, () => retryDelayMs(attempt, random));
      assert.ok(Math.min(...delays) >= 50);
      assert.ok(Math.max(...delays) <= mostMs);
      const tenths = Array.from({ length: 10 }, () => 0);
      for (const delay of delays) {
        const tenth = Math.min(9, Math.floor((delay / mostMs) * 10));
        tenths[tenth] = (tenths[tenth] ?? 0) + 1;
      }
      assert.ok(Math.max(...tenths) < 150, tenths.join(' '));
    }
  });

  test('a site that is away is asked less and less often, and its status says since when and until when', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(10_000);
    const contactMs = clock.now();
    site.open?.say({ case: 'ping', value: { nonce: Buffer.of(1) } });
    await clock.advance(0);
    site.away = new HansaError('HANSA_UNREACHABLE', 'Cannot connect to lubeck.example:8443.');
    let tries = 0;
    site.cut();
    await clock.advance(0);
    const { status } = link;
    assert.equal(status.connected, false);
    assert.equal(status.sinceMs, contactMs);
    assert.equal(status.lastContactMs, contactMs);
    for (let second = 0; second < 600; second++) {
      const before = link.status.nextTryMs;
      await clock.advance(1_000);
      if (link.status.nextTryMs !== before) tries++;
    }
    assert.ok(tries >= 20 && tries < 80, `${tries} tries in ten minutes`);
    assert.match(link.status.lastError ?? '', /Cannot connect to lubeck/);
    assert.ok((link.status.nextTryMs ?? 0) > clock.now());
    site.away = undefined;
    await clock.advance(31_000);
    assert.equal(link.status.connected, true);
    await stop();
  });

  test('a site that accepts and hangs up is not called in a tight loop', async () => {
    const { clock, site, stop } = scene();
    site.intercept = (_message, stream) => {
      stream.end(new HansaError('HANSA_UNAVAILABLE', 'The site is stopping.'));
      return true;
    };
    await clock.advance(60_000);
    assert.ok(site.streams.length < 20, `${site.streams.length} streams in a minute`);
    await stop();
  });

  test('with a renewed SVID happens without a pause and without a change of the state', async () => {
    const { clock, site, link, applied, stop } = scene();
    await clock.advance(0);
    const changes: boolean[] = [];
    link.onChange(() => changes.push(link.status.connected));
    link.reconnect();
    await clock.advance(0);
    assert.equal(site.streams.length, 2);
    assert.equal(site.streams[0]?.closed, true);
    assert.equal(link.status.connected, true);
    assert.deepEqual(changes, [true]);
    assert.deepEqual(applied.at(-1)?.put, []);
    await stop();
  });

  test('with a renewed SVID that fails is told once, as is the connection after it', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const changes: boolean[] = [];
    link.onChange(() => changes.push(link.status.connected));
    site.away = new HansaError('HANSA_UNREACHABLE', 'It is away.');
    link.reconnect();
    await clock.advance(10_000);
    assert.deepEqual(changes, [false]);
    site.away = undefined;
    await clock.advance(31_000);
    assert.deepEqual(changes, [false, true]);
    await stop();
  });

  test('a refusal by the site reaches the caller, which decides whether to go on', async () => {
    const { clock, site, denials, ran } = scene({
      denied: async (error) => {
        denials.push(error);
        if (denials.length === 2) throw new Error('forgotten');
      },
    });
    site.away = new HansaError('HANSA_FORBIDDEN', 'Only agents of this site may call.');
    await clock.advance(60_000);
    assert.equal(denials.length, 2);
    assert.equal(((await ran) as Error).message, 'forgotten');
  });

  test('stops at once when it is told to', async () => {
    const { clock, site, stop } = scene();
    await clock.advance(0);
    await stop();
    assert.equal(site.open, undefined);
    await clock.advance(60_000);
    assert.equal(site.streams.length, 1);
  });
});

suite('a report', () => {
  test('is sent with the first state, and again when it has changed', async () => {
    const made = scene();
    const { clock, site, stop } = made;
    await clock.advance(30_000);
    const reports = () => site.open?.sent.filter((message) => message.case === 'report') ?? [];
    assert.equal(reports().length, 1);
    made.report = { entries: 3, workloads: 1, problems: ['a', 'x'.repeat(2_000)] };
    await clock.advance(5_000);
    const last = reports().at(-1);
    assert.equal(reports().length, 2);
    assert.equal(last?.case === 'report' ? last.value.entries : 0, 3);
    assert.ok((last?.case === 'report' ? (last.value.problems[1]?.length ?? 0) : 0) <= 512);
    await stop();
  });
});
