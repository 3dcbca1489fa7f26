import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { shrinkWhenIdle } from './shrink-when-idle.ts';

function scene() {
  const clock = new VirtualClock();
  const state = { cpuMs: 0, heapBytes: 25 * 1024 ** 2, collections: 0, releases: 0 };
  const shrinking = shrinkWhenIdle(clock, {
    cpuMs: () => state.cpuMs,
    heapBytes: () => state.heapBytes,
    collect: () => {
      state.collections++;
      state.cpuMs += 5_000;
    },
    releaseProgram: () => {
      state.releases++;
    },
  });
  return {
    state,
    shrinking,
    /** So many periods, each with so much CPU time. */
    pass: async (periods: number, cpuMs: number) => {
      for (let period = 0; period < periods; period++) {
        state.cpuMs += cpuMs;
        await clock.advance(10_000);
      }
    },
  };
}

suite('an idle process', () => {
  test('is collected once, a minute after its start', async () => {
    const { state, pass } = scene();
    await pass(5, 50);
    assert.equal(state.collections, 0);
    await pass(1, 50);
    assert.equal(state.collections, 1);
    await pass(500, 50);
    assert.equal(state.collections, 1);
  });

  test('is not collected while it serves some requests, and once after a quiet minute', async () => {
    const { state, pass } = scene();
    await pass(60, 200);
    await pass(5, 199);
    await pass(1, 200);
    await pass(5, 199);
    assert.equal(state.collections, 0);
    await pass(1, 199);
    assert.equal(state.collections, 1);
  });

  test('is collected again after load, but not within an hour', async () => {
    const { state, pass } = scene();
    await pass(6, 0);
    for (let minutes = 0; minutes < 58; minutes += 2) {
      await pass(6, 8_000);
      await pass(6, 0);
    }
    assert.equal(state.collections, 1);
    await pass(12, 0);
    assert.equal(state.collections, 2);
    await pass(500, 0);
    assert.equal(state.collections, 2);
  });

  test('with a large heap is not collected, and only returns pages of its program', async () => {
    const { state, pass } = scene();
    state.heapBytes = 57 * 1024 ** 2;
    await pass(20, 0);
    assert.equal(state.collections, 0);
    assert.equal(state.releases, 1);
  });

  test('is left alone after stop', async () => {
    const { state, shrinking, pass } = scene();
    shrinking.stop();
    await pass(20, 0);
    assert.equal(state.collections, 0);
  });
});
