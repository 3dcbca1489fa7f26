import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { SeededRandom } from '../clock/seeded-random.ts';
import { LocalClock, settle, VirtualClock } from '../clock/virtual.ts';
import { hasCode } from '../errors/error.ts';
import { createLog } from '../log/json-log.ts';
import { MetricsRegistry } from '../metrics/registry.ts';
import { openStore } from '../store/open.ts';
import type { LeaseTable, Store } from '../store/store.ts';
import type { HeldLease, LeaseOptions } from './lease.ts';
import { holdLease, LeaseMetrics } from './lease.ts';

const durationMs = 9000;

/** Holds until told to stop. */
function untilAborted({ signal }: HeldLease): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

async function makeSite() {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const log = createLog({ level: 'error', format: 'json', clock, sink: { write() {} } });
  const options = (holder: string, more: Partial<LeaseOptions> = {}): LeaseOptions => ({
    leases: store.leases,
    name: 'work',
    holder,
    durationMs,
    clock,
    random: new SeededRandom(holder),
    log,
    ...more,
  });
  return { clock, store, options };
}

/** The store's leases behind a connection that can break. */
function breakable(leases: LeaseTable): LeaseTable & { state: 'well' | 'failing' | 'hanging' } {
  const call = <T>(answer: () => Promise<T>): Promise<T> => {
    if (table.state === 'hanging') return new Promise<T>(() => {});
    return table.state === 'well' ? answer() : Promise.reject(new Error('unreachable'));
  };
  const table: LeaseTable & { state: 'well' | 'failing' | 'hanging' } = {
    state: 'well',
    acquire: (...args) => call(() => leases.acquire(...args)),
    renew: (...args) => call(() => leases.renew(...args)),
    release: (...args) => call(() => leases.release(...args)),
    list: () => call(() => leases.list()),
  };
  return table;
}

async function holderOf(store: Store): Promise<string | undefined> {
  return (await store.leases.list())[0]?.holder;
}

describe('holding a lease', () => {
  test('runs the work as long as the lease is renewed', async () => {
    const { clock, store, options } = await makeSite();
    let aborted = false;
    const hold = holdLease(options('one'), async (held) => {
      assert.equal(held.epoch, 1);
      await untilAborted(held);
      aborted = true;
    });
    await clock.advance(20 * durationMs);
    assert.equal(aborted, false);
    assert.equal(await holderOf(store), 'one');
    await hold.stop();
    await hold.stop();
    assert.equal(aborted, true);
    assert.equal(await holderOf(store), '', 'it was released');
  });

  test('ends when the work is done, and gives the lease to who waits', async () => {
    const { clock, options } = await makeSite();
    const order: string[] = [];
    const first = holdLease(options('one'), async () => {
      order.push('one');
    });
    const second = holdLease(options('two'), async ({ epoch }) => {
      order.push(`two at epoch ${epoch}`);
    });
    await clock.advance(durationMs);
    await Promise.all([first.done, second.done]);
    assert.deepEqual(order, ['one', 'two at epoch 2']);
  });

  test('tries again after work that failed, under a new epoch', async () => {
    const { clock, options } = await makeSite();
    const epochs: number[] = [];
    const hold = holdLease(options('one'), async ({ epoch }) => {
      epochs.push(epoch);
      if (epochs.length < 3) throw new Error('not yet');
    });
    await clock.advance(3 * durationMs);
    await hold.done;
    assert.deepEqual(epochs, [1, 2, 3]);
  });

  for (const state of ['failing', 'hanging'] as const) {
    test(`aborts the work before another can take it when renewals are ${state}`, async () => {
      const { clock, store, options } = await makeSite();
      const leases = breakable(store.leases);
      let abortedAtMs = Number.NaN;
      const first = holdLease(options('one', { leases }), async (held) => {
        await untilAborted(held);
        abortedAtMs = clock.now();
      });
      await clock.advance(durationMs);
      leases.state = state;
      let takenAtMs = Number.NaN;
      const second = holdLease(options('two'), async (held) => {
        takenAtMs = clock.now();
        await untilAborted(held);
      });
      await clock.advance(3 * durationMs);
      assert.ok(abortedAtMs < takenAtMs, `aborted at ${abortedAtMs}, taken at ${takenAtMs}`);
      assert.ok(takenAtMs - abortedAtMs >= durationMs / 4, 'the work has time to end');
      await second.stop();
      const stopped = first.stop();
      await clock.advance(durationMs);
      await stopped;
    });
  }

  test('survives a failure that is shorter than the lease', async () => {
    const { clock, store, options } = await makeSite();
    const leases = breakable(store.leases);
    let aborted = false;
    const hold = holdLease(options('one', { leases }), async (held) => {
      await untilAborted(held);
      aborted = true;
    });
    await clock.advance(durationMs);
    leases.state = 'failing';
    await clock.advance(durationMs / 4);
    leases.state = 'well';
    await clock.advance(3 * durationMs);
    assert.equal(aborted, false);
    await hold.stop();
  });

  test('warns once in an outage, however long it lasts', async () => {
    const { clock, store, options } = await makeSite();
    const leases = breakable(store.leases);
    const warnings: string[] = [];
    const sink = { write: (line: string) => void warnings.push(line) };
    const log = createLog({ level: 'warn', format: 'json', clock, sink });
    const hold = holdLease(options('one', { leases, log }), untilAborted);
    await clock.advance(0);
    for (const count of [1, 2]) {
      leases.state = 'failing';
      await clock.advance(durationMs * 2);
      warnings.length = 0;
      await clock.advance(durationMs * 100);
      assert.deepEqual(warnings, [], `outage ${count}`);
      leases.state = 'well';
      await clock.advance(durationMs);
      assert.equal(await holderOf(store), 'one');
    }
    leases.state = 'failing';
    warnings.length = 0;
    await clock.advance(durationMs * 2);
    assert.ok(warnings.some((line) => line.includes('cannot acquire the lease')));
    leases.state = 'well';
    await clock.advance(durationMs);
    await hold.stop();
  });

  test('does not start work with a lease that took too long to get', async () => {
    const { clock, store, options } = await makeSite();
    let delayMs = durationMs;
    const leases: LeaseTable = {
      ...breakable(store.leases),
      acquire: async (...args) => {
        const lease = await store.leases.acquire(...args);
        await new Promise<void>((resolve) => clock.timer(delayMs, resolve));
        return lease;
      },
    };
    let started = 0;
    const hold = holdLease(options('one', { leases }), async (held) => {
      started++;
      await untilAborted(held);
    });
    await clock.advance(durationMs);
    assert.equal(started, 0);
    delayMs = 10;
    await clock.advance(2 * durationMs);
    assert.equal(started, 1);
    await hold.stop();
  });

  test('a holder that was frozen is told as soon as it wakes, and its writes are refused', async () => {
    const { clock, store, options } = await makeSite();
    const frozen = new LocalClock(clock);
    let held: HeldLease | undefined;
    holdLease(options('one', { clock: frozen }), async (lease) => {
      held = lease;
      await untilAborted(lease);
    });
    await settle();
    frozen.pause();
    const second = holdLease(options('two'), untilAborted);
    await clock.advance(3 * durationMs);
    assert.equal(await holderOf(store), 'two');
    const write = {
      fence: { lease: 'work', epoch: held?.epoch ?? 0 },
      put: [{ collection: 'things', name: 'a', encode: () => Buffer.from('stale') }],
    };
    await assert.rejects(store.commit(write), (error) => hasCode(error, 'HANSA_FENCED'));
    assert.equal(held?.signal.aborted, false);
    frozen.resume();
    await clock.advance(1);
    assert.equal(held?.signal.aborted, true);
    await second.stop();
  });

  test('a holder that was frozen may not write, although no timer has told it yet', async () => {
    const { clock, options } = await makeSite();
    const frozen = new LocalClock(clock);
    let held: HeldLease | undefined;
    holdLease(options('one', { clock: frozen }), async (lease) => {
      held = lease;
      await untilAborted(lease);
    });
    await settle();
    assert.equal(held?.mayWrite(), true);
    frozen.pause();
    await clock.advance(durationMs);
    assert.equal(held?.signal.aborted, false);
    assert.equal(held?.mayWrite(), false);
    assert.equal(held?.signal.aborted, true, 'the work learns it too');
  });

  test('work that ignores its signal may not write after it returned', async () => {
    const { clock, options } = await makeSite();
    let held: HeldLease | undefined;
    const hold = holdLease(options('one'), async (lease) => {
      held = lease;
    });
    await clock.advance(durationMs);
    await hold.done;
    assert.equal(held?.mayWrite(), false);
  });

  test('a renewal that is answered after the deadline does not bring the lease back', async () => {
    const { clock, store, options } = await makeSite();
    const frozen = new LocalClock(clock);
    let held: HeldLease | undefined;
    let answer = (): void => undefined;
    const leases: LeaseTable = {
      ...breakable(store.leases),
      renew: (...args) =>
        new Promise((resolve) => {
          answer = () => void store.leases.renew(...args).then(resolve);
        }),
    };
    holdLease(options('one', { clock: frozen, leases }), async (lease) => {
      held = lease;
      await untilAborted(lease);
    });
    await clock.advance(durationMs / 2);
    frozen.pause();
    await clock.advance(durationMs / 4);
    answer();
    await settle();
    assert.deepEqual([held?.mayWrite(), held?.signal.aborted], [false, true]);
  });

  test('counts from the request that took it where the table did other work before', async () => {
    const { clock, store, options } = await makeSite();
    const slow: LeaseTable = {
      ...breakable(store.leases),
      acquire: async (...args) => {
        await new Promise<void>((resolve) => clock.timer(durationMs, resolve));
        const sentMs = clock.monotonic();
        const lease = await store.leases.acquire(...args);
        return lease && { ...lease, sentMs };
      },
    };
    let held: HeldLease | undefined;
    const hold = holdLease(options('one', { leases: slow }), async (lease) => {
      held = lease;
      await untilAborted(lease);
    });
    await clock.advance(durationMs + 1);
    assert.equal(held?.mayWrite(), true);
    await hold.stop();
  });

  test('shows in the metrics who holds what', async () => {
    const { clock, options } = await makeSite();
    const registry = new MetricsRegistry();
    const hold = holdLease(options('one', { metrics: new LeaseMetrics(registry) }), untilAborted);
    await clock.advance(10);
    assert.match(registry.expose(), /hansa_lease_held\{lease="work"\} 1/);
    assert.match(registry.expose(), /hansa_lease_epoch\{lease="work"\} 1/);
    await hold.stop();
    assert.match(registry.expose(), /hansa_lease_held\{lease="work"\} 0/);
  });

  test('never has two workers at once, whatever fails when', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            who: fc.nat(2),
            state: fc.constantFrom('well' as const, 'failing' as const, 'hanging' as const),
            forMs: fc.integer({ min: 1, max: 2 * durationMs }),
          }),
          { maxLength: 12 },
        ),
        async (faults) => {
          const { clock, store, options } = await makeSite();
          const working = new Set<string>();
          let last = { holder: '', epoch: 0 };
          const violations: string[] = [];
          const tables = ['a', 'b', 'c'].map((holder) => {
            const leases = breakable(store.leases);
            holdLease(options(holder, { leases }), async (held) => {
              working.add(holder);
              if (working.size > 1) violations.push([...working].join(' and '));
              // A holder that could not give it back, and gets it again, has the same epoch.
              const grows = held.epoch > last.epoch || holder === last.holder;
              if (!grows || held.epoch < last.epoch) violations.push(`epoch ${held.epoch}`);
              last = { holder, epoch: held.epoch };
              await untilAborted(held);
              working.delete(holder);
            });
            return leases;
          });
          for (const { who, state, forMs } of faults) {
            (tables[who] as (typeof tables)[number]).state = state;
            await clock.advance(forMs);
          }
          assert.deepEqual(violations, []);
        },
      ),
      { numRuns: 200 },
    ));
});
