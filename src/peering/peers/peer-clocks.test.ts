import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { ClockPart } from './clock-part.ts';
import { PeerClocks } from './peer-clocks.ts';

/** Two sites whose clocks differ. Time passes only in `advance`. */
function scene(skewMs: number) {
  const time = new VirtualClock();
  const here = new VirtualClock(time.now());
  const there = new VirtualClock(time.now() + skewMs);
  const lubeck = new PeerClocks(here);
  const bruges = new PeerClocks(there);
  const wait = async (ms: number): Promise<void> => {
    await here.advance(ms);
    await there.advance(ms);
  };
  /** A heartbeat of lubeck and its answer. Both sites see what they measured. */
  const exchange = async (thereMs = 10, backMs = 10) => {
    const request = lubeck.part('bruges');
    await wait(thereMs);
    const seenThere = bruges.heard('lubeck', request);
    const answer = bruges.part('lubeck');
    await wait(backMs);
    return { here: lubeck.heard('bruges', answer), there: seenThere };
  };
  return { here, there, lubeck, bruges, wait, exchange };
}

suite('clocks of peers', () => {
  test('both sites measure, although only one of them calls', async () => {
    const { exchange, wait } = scene(90_000);
    const first = await exchange();
    assert.equal(first.here?.skewMs, 90_000);
    // The first request answers no message yet.
    assert.equal(first.there, undefined);
    await wait(2000);
    const second = await exchange();
    assert.equal(second.there?.skewMs, -90_000);
  });

  test('the fastest of the last answers counts, so that a slow one changes nothing', async () => {
    const { exchange } = scene(1000);
    const fast = await exchange(1, 1);
    const slow = await exchange(1, 3999);
    assert.deepEqual(slow.here, fast.here);
    for (let count = 0; count < 8; count++) await exchange(1, 3999);
    const late = await exchange(1, 3999);
    assert.equal(late.here?.uncertaintyMs, 2002);
  });

  test('a clock that is set counts at once, and not with those of before', async () => {
    const { exchange, there } = scene(0);
    await exchange(1, 1);
    there.jumpWall(-3_600_000);
    // A request answers the message before the jump, which says nothing certain.
    const { here } = await exchange(20, 20);
    assert.equal(here?.skewMs, -3_600_000);
  });

  test('setting our own clock is no skew of the peer', async () => {
    const { here, lubeck, bruges, wait, exchange } = scene(0);
    const request = lubeck.part('bruges');
    await wait(5);
    bruges.heard('lubeck', request);
    const answer = bruges.part('lubeck');
    here.jumpWall(600_000);
    await wait(5);
    assert.equal(lubeck.heard('bruges', answer), undefined);
    // From now on our clock is ahead, which both sites see.
    assert.equal((await exchange()).here?.skewMs, -600_000);
  });

  test('an answer to a message that this process never sent measures nothing', async () => {
    const { lubeck, wait } = scene(0);
    lubeck.part('bruges');
    await wait(5);
    const forged: ClockPart = { sentAtMs: 5, heard: { sentAtMs: 1, atMs: 2 } };
    assert.equal(lubeck.heard('bruges', forged), undefined);
  });

  test('what a peer claims never moves our clock', async () => {
    const { here, lubeck } = scene(0);
    const beforeMs = here.now();
    for (const sentAtMs of [0, 1, 253_402_300_799_999]) {
      const { sentAtMs: ours } = lubeck.part('bruges');
      lubeck.heard('bruges', { sentAtMs, heard: { sentAtMs: ours, atMs: sentAtMs } });
    }
    assert.equal(here.now(), beforeMs);
    assert.equal(lubeck.part('bruges').sentAtMs, beforeMs);
  });

  test('a peer that is forgotten starts anew', async () => {
    const { lubeck, exchange } = scene(0);
    await exchange();
    assert.notEqual(lubeck.part('bruges').heard, undefined);
    lubeck.forget('bruges');
    assert.equal(lubeck.part('bruges').heard, undefined);
  });
});
