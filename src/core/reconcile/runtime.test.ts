import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sleep } from '../clock/clock.ts';
import { SeededRandom } from '../clock/seeded-random.ts';
import { settle, VirtualClock } from '../clock/virtual.ts';
import { HansaError } from '../errors/error.ts';
import { createLog } from '../log/json-log.ts';
import { MetricsRegistry } from '../metrics/registry.ts';
import { commitFenced, currentFence } from '../lease/current-fence.ts';
import { openStore } from '../store/open.ts';
import {
  type Controller,
  type Leadership,
  type ReconcileContext,
  type StartedController,
  TerminalError,
} from './controller.ts';
import { LeaseLeadership } from './lease-leadership.ts';
import { ReconcileRuntime } from './runtime.ts';
import { StoreSource } from './source.ts';

async function harness() {
  const clock = new VirtualClock();
  const random = new SeededRandom('runtime');
  const lines: string[] = [];
  const log = createLog({
    sink: { write: (line: string) => lines.push(line) },
    clock,
    level: 'debug',
    format: 'text',
  });
  const store = await openStore({ driver: 'memory' }, { clock });
  const runtimes: MetricsRegistry[] = [];
  const runtime = (holder = 'one'): ReconcileRuntime => {
    const metrics = new MetricsRegistry();
    runtimes.push(metrics);
    const leadership = new LeaseLeadership({
      leases: store.leases,
      holder,
      durationMs: 3000,
      clock,
      random: random.fork(holder),
      log,
    });
    return new ReconcileRuntime({ clock, random, log, metrics, leadership });
  };
  const put = (name: string): Promise<unknown> =>
    store.commit({ put: [{ collection: 'things', name, encode: () => Buffer.from(name) }] });
  const controller = (
    reconcile: (key: string, context: ReconcileContext) => Promise<unknown>,
    options: Partial<Controller> = {},
  ): Controller => ({
    name: 'test',
    sources: [new StoreSource({ store, clock, collection: 'things' })],
    reconcile: async (key, context) =>
      (await reconcile(key, context)) as { requeueAfterMs?: number } | undefined,
    ...options,
  });
  /** Starts it and lets what follows happen while time passes. */
  const finish = async (done: Promise<unknown>): Promise<void> => {
    const state = { ended: false };
    void done.finally(() => {
      state.ended = true;
    });
    while (!state.ended) await clock.advance(100);
  };
  return { clock, store, runtime, put, controller, finish, lines, metrics: () => runtimes };
}

describe('the runtime of controllers', () => {
  test('reconciles what exists and what changes', async () => {
    const { clock, runtime, put, controller } = await harness();
    await put('a');
    const seen: string[] = [];
    runtime().start(controller(async (key) => void seen.push(key)));
    await clock.advance(1);
    await put('b');
    await clock.advance(1);
    assert.deepEqual(seen, ['a', 'b']);
  });

  test('tries again after a failure, and looks again when asked', async () => {
    const { clock, runtime, put, controller, metrics } = await harness();
    await put('a');
    const at: number[] = [];
    runtime().start(
      controller(async () => {
        at.push(clock.monotonic());
        if (at.length < 3) throw new Error('not yet');
        return at.length === 3 ? { requeueAfterMs: 5000 } : undefined;
      }),
    );
    await clock.advance(60_000);
    assert.equal(at.length, 4);
    assert.ok((at[1] as number) <= 50 && (at[2] as number) <= 150);
    assert.equal((at[3] as number) - (at[2] as number), 5000);
    const text = metrics()[0]?.expose() ?? '';
    assert.match(text, /^hansa_reconcile_total\{controller="test",result="error"\} 2$/m);
    assert.match(text, /^hansa_reconcile_total\{controller="test",result="requeue"\} 1$/m);
    assert.match(text, /^hansa_reconcile_failing\{controller="test"\} 0$/m);
    assert.match(text, /^hansa_reconcile_active\{controller="test"\} 1$/m);
  });

  test('leaves a key alone after a terminal error, until it changes', async () => {
    const { clock, runtime, put, controller, lines } = await harness();
    await put('a');
    let runs = 0;
    runtime().start(
      controller(async () => {
        runs++;
        throw new TerminalError('the value is wrong');
      }),
    );
    await clock.advance(60_000);
    assert.equal(runs, 1);
    assert.ok(lines.some((line) => line.includes('the value is wrong')));
    await put('a');
    await clock.advance(1);
    assert.equal(runs, 2);
  });

  test('does not make a noise about conflicts', async () => {
    const { clock, runtime, put, controller, lines } = await harness();
    await put('a');
    let runs = 0;
    runtime().start(
      controller(async () => {
        if (++runs === 1) throw new HansaError('HANSA_CONFLICT', 'changed since it was read');
      }),
    );
    await clock.advance(1000);
    assert.equal(runs, 2);
    assert.ok(!lines.some((line) => / (?:warn|error) /.test(line)));
  });

  test('looks at everything again at each resync', async () => {
    const { clock, runtime, put, controller } = await harness();
    await put('a');
    let runs = 0;
    runtime().start(controller(async () => void runs++, { resyncMs: 10_000 }));
    await clock.advance(30_001);
    assert.equal(runs, 4);
  });

  test('aborts a run that takes too long', async () => {
    const { clock, runtime, put, controller } = await harness();
    await put('a');
    const reasons: string[] = [];
    runtime().start(
      controller(
        async (_, { signal }) => {
          await sleep(clock, 10_000, signal).catch((error: unknown) => {
            reasons.push(String(error));
          });
        },
        { timeoutMs: 500 },
      ),
    );
    await clock.advance(600);
    assert.deepEqual(reasons, ['Error: it took longer than 500 ms']);
  });

  test('lets what runs finish when it stops, and begins nothing more', async () => {
    const { clock, runtime, put, controller, finish } = await harness();
    await put('a');
    await put('b');
    const ended: string[] = [];
    const one = runtime();
    one.start(
      controller(async (key, { signal }) => {
        await sleep(clock, 3000, signal);
        ended.push(key);
      }),
    );
    await clock.advance(1000);
    await finish(one.stop());
    assert.deepEqual(ended, ['a']);
    const late = one.start(
      controller(async (key) => void ended.push(key), { name: 'late', lease: 'late' }),
    );
    await clock.advance(1000);
    await late.stop();
    assert.deepEqual(ended, ['a']);
    assert.equal(one.active.has('late'), false);
  });

  test('aborts what does not finish within the grace', async () => {
    const { clock, runtime, put, controller, finish } = await harness();
    await put('a');
    let aborted = false;
    const one = runtime();
    one.start(
      controller(async (_, { signal }) => {
        await sleep(clock, 50_000, signal).catch((error: unknown) => {
          aborted = true;
          throw error;
        });
      }),
    );
    await clock.advance(10);
    const before = clock.monotonic();
    await finish(one.stop(2000));
    assert.equal(aborted, true);
    assert.ok(clock.monotonic() - before <= 2100);
  });

  test('does not wait for ever for a run that ignores its signal', async () => {
    const { clock, runtime, put, controller, finish, lines } = await harness();
    await put('a');
    const one = runtime();
    one.start(controller(() => sleep(clock, 10_000_000)));
    await clock.advance(10);
    await finish(one.stop(1000));
    assert.ok(lines.some((line) => line.includes('ignores its abort signal')));
  });

  test('refuses to start the same controller twice', async () => {
    const { runtime, controller } = await harness();
    const one = runtime();
    one.start(controller(async () => undefined));
    assert.throws(() => one.start(controller(async () => undefined)), /twice/);
  });
});

describe('a controller that is stopped while the process runs', () => {
  test('ends its runs, frees its lease and its metrics, and can start again', async () => {
    const { clock, store, runtime, put, controller, finish } = await harness();
    await put('a');
    const seen: (number | undefined)[] = [];
    const one = runtime('one');
    const start = (): StartedController =>
      one.start(controller(async (_, { epoch }) => void seen.push(epoch), { lease: 'test' }));
    const started = start();
    await clock.advance(10);
    await finish(started.stop());
    await started.stop();
    assert.deepEqual([...one.active], []);
    await put('a');
    await clock.advance(1000);
    assert.deepEqual(seen, [1]);
    assert.equal((await store.leases.acquire('test', 'two', 1000))?.epoch, 2);
    await store.leases.release('test', 'two', 2);
    start();
    await clock.advance(5000);
    assert.deepEqual(seen, [1, 3]);
    await finish(one.stop());
  });

  test('waits for its current run, and aborts it after the grace period', async () => {
    const { clock, runtime, put, controller, finish } = await harness();
    await put('a');
    const reasons: unknown[] = [];
    const one = runtime();
    const started = one.start(
      controller((_, { signal }) =>
        sleep(clock, 100_000, signal).then(
          () => undefined,
          (error: unknown) => void reasons.push(error),
        ),
      ),
    );
    await clock.advance(10);
    let isStopped = false;
    const stopped = started.stop().finally(() => {
      isStopped = true;
    });
    await clock.advance(9000);
    assert.deepEqual([isStopped, reasons.length], [false, 0]);
    await finish(stopped);
    assert.match(String(reasons[0]), /the controller is stopped/);
  });

  test('leads by a leadership of its own, whatever leases others have', async () => {
    const { clock, runtime, put, controller, finish } = await harness();
    await put('a');
    const seen: unknown[] = [];
    const one = runtime();
    one.start(controller(async () => undefined, { lease: 'test' }));
    const reconcile = async (_: string, context: ReconcileContext): Promise<undefined> => {
      seen.push(context.epoch, context.mayWrite?.());
    };
    const elsewhere: Leadership = {
      campaign: (_, stopping, lead) => lead({ epoch: 7, signal: stopping, mayWrite: () => false }),
    };
    one.start({ ...controller(reconcile, { lease: 'test' }), name: 'other' }, elsewhere);
    await clock.advance(10);
    assert.deepEqual(seen, [7, false]);
    await finish(one.stop());
  });
});

describe('a controller with a lease', () => {
  test('cannot share it with another controller of its process', async () => {
    const { runtime, controller, finish } = await harness();
    const one = runtime();
    const lease = { lease: 'test' };
    one.start(controller(async () => undefined, lease));
    const other = { ...controller(async () => undefined, lease), name: 'other' };
    assert.throws(() => one.start(other), /other has the lease test of another controller/);
    await finish(one.stop());
  });

  test('carries its epoch in every write, so that the store refuses one of a lost lease', async () => {
    const { clock, store, runtime, put, controller, finish } = await harness();
    await put('a');
    const written: string[] = [];
    const one = runtime();
    const write = (name: string): Promise<void> =>
      commitFenced(store, {
        put: [{ collection: 'done', name, encode: () => Buffer.from(name) }],
      }).then(
        () => void written.push(name),
        ({ code }: HansaError) => void written.push(code),
      );
    let go = (): void => undefined;
    one.start(
      controller(
        async () => {
          await write('held');
          await new Promise<void>((resolve) => (go = resolve));
          // As a process that was stopped for long, and that does not look at its signal.
          await write('lost');
        },
        { lease: 'test' },
      ),
    );
    await clock.advance(10);
    await store.leases.release('test', 'one', 1);
    assert.equal((await store.leases.acquire('test', 'two', 60_000))?.epoch, 2);
    go();
    await settle();
    assert.deepEqual(written, ['held', 'HANSA_FENCED']);
    await finish(one.stop());
  });

  test('without a lease of the store writes without an epoch, also if another one started it', async () => {
    const { clock, runtime, put, controller, finish } = await harness();
    await put('a');
    const fences: unknown[] = [];
    const one = runtime();
    const foreign: Leadership = {
      campaign: (_, stopping, lead) => lead({ epoch: 7, signal: stopping, mayWrite: () => true }),
    };
    one.start(
      controller(
        async () => {
          fences.push(currentFence());
          const inner = controller(async () => void fences.push(currentFence()));
          one.start({ ...inner, name: 'every replica' });
          one.start({ ...inner, name: 'of a cluster', lease: 'theirs' }, foreign);
        },
        { lease: 'test' },
      ),
    );
    await clock.advance(10);
    assert.deepEqual(fences, [{ lease: 'test', epoch: 1 }, undefined, undefined]);
    assert.equal(currentFence(), undefined);
    await finish(one.stop());
  });

  test('runs in one process, with its epoch, and in the next one after that stopped', async () => {
    const { clock, runtime, put, controller, finish } = await harness();
    await put('a');
    const seen: string[] = [];
    const make = (holder: string): ReconcileRuntime => {
      const started = runtime(holder);
      started.start(
        controller(async (key, { epoch }) => void seen.push(`${holder} ${key} ${epoch}`), {
          lease: 'test',
        }),
      );
      return started;
    };
    const one = make('one');
    await clock.advance(10);
    const two = make('two');
    await clock.advance(10_000);
    assert.deepEqual(seen, ['one a 1']);
    assert.deepEqual(
      [...one.active, ...two.active],
      [
        ['test', true],
        ['test', false],
      ],
    );
    await finish(one.stop());
    await clock.advance(5000);
    assert.deepEqual(seen, ['one a 1', 'two a 2']);
    await finish(two.stop());
  });

  test('keeps its lease while it finishes what it began', async () => {
    const { clock, store, runtime, put, controller, finish } = await harness();
    await put('a');
    const one = runtime('one');
    let done = false;
    one.start(
      controller(
        async (_, { signal }) => {
          await sleep(clock, 8000, signal);
          done = true;
        },
        { lease: 'test' },
      ),
    );
    await clock.advance(1000);
    const stopping = one.stop();
    for (let i = 0; i < 60; i++) {
      await clock.advance(100);
      assert.equal(await store.leases.acquire('test', 'two', 3000), undefined);
    }
    await finish(stopping);
    assert.equal(done, true);
    assert.equal((await store.leases.acquire('test', 'two', 3000))?.epoch, 2);
  });

  test('aborts everything when the lease is lost, and begins again with a new epoch', async () => {
    const { clock, store, runtime, put, controller, finish } = await harness();
    await put('a');
    const seen: string[] = [];
    const one = runtime('one');
    one.start(
      controller(
        async (_, { epoch, signal }) => {
          seen.push(`begin ${epoch}`);
          await sleep(clock, 100_000, signal).catch((error: unknown) => {
            seen.push(`abort ${epoch}`);
            throw error;
          });
        },
        { lease: 'test' },
      ),
    );
    await clock.advance(500);
    // The store forgets the holder, as if its clock had jumped past the lease.
    await store.leases.release('test', 'one', 1);
    await store.leases.acquire('test', 'thief', 2000);
    await clock.advance(10_000);
    assert.deepEqual(seen, ['begin 1', 'abort 1', 'begin 3']);
    await finish(one.stop(0));
    await settle();
  });
});
