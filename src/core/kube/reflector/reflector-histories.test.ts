// Properties of the reflector over random histories of a model API server with faults.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { compareVersions } from './resource-version.ts';
import { ModelServer } from '../../../../test/fakes/memory-kube/model-server.ts';
import {
  cached,
  type Reflected,
  reflect,
  stored,
} from '../../../../test/fakes/memory-kube/reflected-model.ts';

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const change = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('put' as const), name }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('tick' as const) }) },
);
const pass = fc.record({
  do: fc.constant('pass' as const),
  ms: fc.constantFrom(0, 0, 100, 1000, 40_000, 200_000),
});
/** A resume is enough after these. */
const connectionFault = fc.record({
  do: fc.constantFrom(
    'reset' as const,
    'endWatches' as const,
    'blackHole' as const,
    'bookmark' as const,
  ),
});
const fault = fc.oneof(
  connectionFault,
  fc.record({ do: fc.constantFrom('compact' as const, 'repeat' as const, 'malformed' as const) }),
  fc.record({
    do: fc.constant('answer' as const),
    with: fc.constantFrom('429', '410', '500', 'reset', 'hang', 'garbage'),
  }),
  fc.record({ do: fc.constant('lag' as const), by: fc.nat(10) }),
  fc.record({ do: fc.constant('late' as const), name }),
);
const restore = fc.record({ do: fc.constant('restore' as const), back: fc.nat(10) });

type ValueOf<A> = A extends fc.Arbitrary<infer T> ? T : never;
type Action = ValueOf<typeof change | typeof pass | typeof fault | typeof restore>;

async function play({ server, clock }: Reflected, action: Action): Promise<void> {
  switch (action.do) {
    case 'put':
    case 'remove':
      return server[action.do](action.name);
    case 'tick':
    case 'reset':
    case 'endWatches':
    case 'blackHole':
    case 'bookmark':
    case 'compact':
    case 'repeat':
      return server[action.do]();
    case 'malformed':
      return server.sendText('{"type":"ADDED","object":{}}\n');
    case 'answer':
      return void server.faults.push(action.with);
    case 'lag':
      server.cluster.lag = action.by;
      return undefined;
    case 'late':
      // An old state of an object, which may be deleted by now.
      return server.sendText(lateEvent(action.name));
    case 'restore':
      // Not before the first objects: late events are older than those.
      return server.restore(Math.max(3, server.version - action.back));
    case 'pass':
      return clock.advance(action.ms);
    default:
      return action satisfies never;
  }
}

function lateEvent(of: string): string {
  const metadata = { name: of, namespace: 'default', resourceVersion: '1', labels: {} };
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata };
  return `${JSON.stringify({ type: 'MODIFIED', object })}\n`;
}

/** Faults end, and bookmarks come each minute. */
async function heal({ server, clock }: Reflected): Promise<void> {
  server.faults.length = 0;
  for (let minute = 0; minute < 10; minute++) {
    server.tick();
    server.bookmark();
    await clock.advance(60_000);
  }
}

/** What a listener gets for one object is a chain: each `old` is the `new` before it. */
function assertChains({ changes }: Reflected): void {
  const last = new Map<string, object | undefined>();
  for (const { key, old, new: now } of changes) {
    assert.equal(old, last.get(key), key);
    assert.notEqual(old ?? now, undefined);
    last.set(key, now);
  }
}

/** Versions of one object only grow, also over its deletion. */
function assertNothingComesBack({ changes }: Reflected): void {
  const newest = new Map<string, string>();
  for (const { key, new: now } of changes) {
    if (now === undefined) continue;
    const { resourceVersion } = now.metadata;
    const before = newest.get(key);
    assert.ok(before === undefined || compareVersions(before, resourceVersion) < 0, key);
    newest.set(key, resourceVersion);
  }
}

function reflected(seed: number, usesInitialEvents: boolean, isSupported = true): Reflected {
  const random = new SeededRandom(seed);
  const server = new ModelServer();
  server.put('a');
  server.put('b');
  if (!isSupported) server.cluster.initialEvents = random.pick(['rejects', 'ignores']);
  server.cut = (text) => {
    const at = random.integer(0, text.length);
    return [text.subarray(0, at), text.subarray(at)];
  };
  return reflect(server, { usesInitialEvents, random });
}

suite('over any history, a reflector', () => {
  test('ends with the objects of the server, in order, and none comes back', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(change, change, pass, fault), { maxLength: 60 }),
        fc.nat(),
        fc.boolean(),
        fc.boolean(),
        async (actions, seed, usesInitialEvents, isSupported) => {
          const run = reflected(seed, usesInitialEvents, isSupported);
          for (const action of actions) await play(run, action);
          await heal(run);
          assert.deepEqual(cached(run.reflector), stored(run.server));
          assertChains(run);
          assertNothingComesBack(run);
          run.release();
        },
      ),
      { numRuns: 500 },
    );
  });

  test('reports each single change exactly once where the server keeps its history', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(change, change, pass, connectionFault), { maxLength: 60 }),
        fc.nat(),
        fc.boolean(),
        async (actions, seed, usesInitialEvents) => {
          const run = reflected(seed, usesInitialEvents);
          await run.clock.advance(0);
          const expected = [...run.heard];
          for (const action of actions) {
            if (action.do === 'put') {
              const sign = run.server.objects.has(action.name) ? '~' : '+';
              expected.push(`${sign}${action.name}@${run.server.version + 1}`);
            } else if (action.do === 'remove' && run.server.objects.has(action.name)) {
              expected.push(`-${action.name}`);
            }
            await play(run, action);
          }
          await heal(run);
          assert.deepEqual(run.heard, expected);
          assert.equal(run.reflector.status().relists, 0);
          run.release();
        },
      ),
      { numRuns: 500 },
    );
  });

  test('ends with the objects of the server also where etcd is restored now and then', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(change, change, pass, fault, restore), { maxLength: 60 }),
        fc.nat(),
        fc.boolean(),
        async (actions, seed, usesInitialEvents) => {
          const run = reflected(seed, usesInitialEvents);
          for (const action of actions) {
            await play(run, action);
            // Versions that the reflector saw must not be reached again before it looks.
            if (action.do === 'restore') {
              run.server.faults.length = 0;
              await run.clock.advance(240_000);
            }
          }
          await heal(run);
          assert.deepEqual(cached(run.reflector), stored(run.server));
          assertChains(run);
          run.release();
        },
      ),
      { numRuns: 500 },
    );
  });
});
