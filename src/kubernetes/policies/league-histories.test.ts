// Properties of the part for policies over random histories of users, links, processes and API servers: two
// supervisors lead three in-memory clusters. `policy-histories.test.ts` checks the decisions alone, over many more.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { hasCode } from '../../core/errors/error.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { MemoryCluster, MemoryLeague, Supervisor } from '../league/test-memory-league.ts';
import { policyAnnotation, replicaAnnotation } from '../names.ts';
import type { Backup } from '../../../test/fakes/memory-kube/memory-etcd.ts';
import { hourMs, policy, policyLeague, recordOf } from './test-policy-league.ts';

const names = ['deny', 'allow'] as const;
const sites = ['lubeck.example', 'bruges.example'] as const;

const cluster = fc.constantFrom(0, 1, 2);
const site = fc.constantFrom(0, 1);
const name = fc.constantFrom(...names);

const edits = fc.record({
  do: fc.constantFrom('edit', 'edit', 'edit', 'deleteRecord'),
  cluster,
  name,
  content: fc.constantFrom('v1', 'v2', 'v3'),
});
const ends = fc.record({ do: fc.constantFrom('delete', 'delete', 'end', 'plain'), cluster, name });
const links = fc.record({ do: fc.constantFrom('cut', 'heal', 'crash'), cluster, site });
const servers = fc.record({
  do: fc.constantFrom('diesBefore', 'diesAfter', 'returns', 'resets', 'backup', 'restore'),
  cluster,
});
const places = fc.record({ do: fc.constantFrom('deleteNamespace', 'createNamespace'), cluster });
const clocks = fc.record({
  do: fc.constant('clock'),
  cluster,
  ms: fc.constantFrom(-hourMs, -5000, 5000, hourMs),
});
const time = fc.record({
  do: fc.constant('pass'),
  ms: fc.constantFrom(0, 3, 20, 60, 150, 1000, 5000, 20_000),
});

interface Action {
  readonly do: string;
  readonly cluster?: number;
  readonly site?: number;
  readonly name?: string;
  readonly content?: string;
  readonly ms?: number;
}

class History {
  readonly league: MemoryLeague;
  readonly #delayMs: () => number;
  readonly #supervisors: Supervisor[] = [];
  readonly #backups = new Map<string, Backup>();

  private constructor(league: MemoryLeague, seed: number) {
    this.league = league;
    const random = new SeededRandom(String(seed));
    this.#delayMs = () => random.integer(1, 40);
  }

  static async start(seed: number): Promise<History> {
    const history = new History(await policyLeague({ homes: sites.length }), seed);
    for (const index of sites.keys()) await history.#start(index);
    await history.league.settle(20_000);
    return history;
  }

  async play(action: Action): Promise<void> {
    if (action.do === 'pass') return this.league.settle(action.ms);
    const at = this.league.clusters[action.cluster ?? 0] as MemoryCluster;
    switch (action.do) {
      case 'cut':
        return void this.#site(action).cut.add(at.id);
      case 'heal':
        return this.#site(action).cut.clear();
      case 'crash': {
        const index = action.site ?? 0;
        this.#site(action).crash();
        return this.#start(index);
      }
      case 'clock':
        return at.clock.jumpWall(action.ms ?? 0);
      case 'diesBefore':
      case 'diesAfter':
        at.kube.diesAtWrite = action.do === 'diesBefore' ? 'before' : 'after';
        return;
      case 'returns':
        return returns(at);
      case 'resets':
        return at.kube.endWatches('reset');
      case 'backup':
        return void this.#backups.set(at.id, at.kube.backup());
      case 'restore': {
        const backup = this.#backups.get(at.id);
        if (backup !== undefined) at.kube.restore(backup, true);
        return;
      }
      default:
        return this.#use(at, action);
    }
  }

  /** Everything works again, for long enough. */
  async heal(): Promise<void> {
    for (const at of this.league.clusters) returns(at);
    for (const { cut } of this.#supervisors) cut.clear();
    await this.league.settle(2000);
    for (const at of this.league.clusters) await asUser(() => at.namespace('shop'));
    await this.league.settle(150_000);
  }

  end(): void {
    for (const { clock } of this.#supervisors) clock.kill();
  }

  #site({ site: index = 0 }: Action): Supervisor {
    return this.#supervisors[index] as Supervisor;
  }

  async #start(index: number): Promise<void> {
    this.#supervisors[index] = await this.league.supervise(sites[index] as string, {
      home: this.league.clusters[index]?.id ?? '',
      delayMs: this.#delayMs,
    });
  }

  /** A user does something, if the cluster allows it. */
  async #use(at: MemoryCluster, action: Action): Promise<void> {
    const { name: own = '', content = '' } = action;
    const key = `shop/${own}`;
    const live = () => at.find('networkpolicies', key);
    const record = recordOf(at, own);
    await asUser(async () => {
      switch (action.do) {
        case 'edit':
          return at.apply('networkpolicies', policy(content, own));
        case 'plain':
          if (live() === undefined) await at.apply('networkpolicies', policy('own', own, ''));
          return;
        case 'end':
          return at.patch('networkpolicies', key, {
            metadata: { annotations: { [policyAnnotation]: null } },
          });
        case 'delete':
          return at.remove('networkpolicies', key);
        case 'deleteRecord':
          if (record !== undefined) await at.remove('policyrecords', record.metadata.name);
          return;
        case 'deleteNamespace':
          return at.remove('namespaces', 'shop');
        case 'createNamespace':
          return at.namespace('shop');
        default:
          throw new Error(`unknown action ${action.do}`);
      }
    });
  }
}

function returns({ kube }: MemoryCluster): void {
  kube.diesAtWrite = undefined;
  kube.isDown = false;
}

/** The API server may be away, and the object or its namespace may be missing or ending. */
async function asUser(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const isExpected =
      hasCode(error, 'HANSA_UNREACHABLE') ||
      (error instanceof KubeStatusError && [403, 404, 409].includes(error.status));
    if (!isExpected) throw error;
  }
}

interface Held {
  readonly id: string;
  readonly content: string | undefined;
  readonly isFederated: boolean;
  readonly isReplica: boolean;
  readonly state: string | undefined;
  readonly stamp: unknown;
}

function heldIn(at: MemoryCluster, own: string): Held {
  const found = at.find<{ spec: unknown }>('networkpolicies', `shop/${own}`);
  const { annotations = {} } = found?.metadata ?? {};
  const { state, stamp } = recordOf(at, own)?.spec ?? {};
  return {
    id: at.id,
    content: found && JSON.stringify(found.spec),
    isFederated: annotations[policyAnnotation] === 'true',
    isReplica: annotations[replicaAnnotation] !== undefined,
    state,
    stamp,
  };
}

/** Where no user has a policy of his own in the way. */
function checkAgreement({ clusters }: MemoryLeague): void {
  for (const own of names) {
    const all = clusters.map((at) => heldIn(at, own));
    const text = JSON.stringify(all);
    const open = all.filter(({ content, isFederated }) => content === undefined || isFederated);
    const live = open.find(({ state }) => state === 'Live');
    for (const held of open) {
      if (live === undefined) {
        const isKept = held.state === 'Ended' && !held.isReplica;
        assert.ok(held.content === undefined || isKept, `${own} is still in ${held.id}: ${text}`);
      } else {
        assert.equal(held.state, 'Live', `${own} is not live in ${held.id}: ${text}`);
        assert.equal(held.content, live.content, `${own} differs in ${held.id}: ${text}`);
        assert.deepEqual(held.stamp, live.stamp, `${own} differs in ${held.id}: ${text}`);
      }
    }
  }
}

/** The hourly marks go on. */
const writesIn = ({ clusters }: MemoryLeague): readonly string[] =>
  clusters.flatMap(({ id, writes }) =>
    writes.filter((write) => !write.endsWith('/synced')).map((write) => `${id} ${write}`),
  );

async function checkRest({ league }: History): Promise<void> {
  const before = writesIn(league).length;
  await league.settle(150_000);
  assert.deepEqual(writesIn(league).slice(before), []);
}

function property(
  what: string,
  action: fc.Arbitrary<Action>,
  check: (history: History) => void,
): void {
  test(what, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(),
        fc.array(action, { minLength: 5, maxLength: 40, size: 'max' }),
        async (seed, actions) => {
          const history = await History.start(seed);
          try {
            for (const each of actions) await history.play(each);
            await history.heal();
            checkAgreement(history.league);
            check(history);
            await checkRest(history);
          } finally {
            history.end();
          }
        },
      ),
      { numRuns: 15 },
    );
  });
}

suite('supervisors of clusters with policies', () => {
  property(
    'make all members agree after any history, and then write nothing',
    fc.oneof(
      { weight: 6, arbitrary: edits },
      { weight: 4, arbitrary: ends },
      { weight: 8, arbitrary: time },
      { weight: 4, arbitrary: links },
      { weight: 4, arbitrary: servers },
      { weight: 2, arbitrary: places },
      { weight: 1, arbitrary: clocks },
    ),
    () => undefined,
  );

  property(
    'never delete a policy that no user deleted',
    fc.oneof(
      { weight: 6, arbitrary: edits },
      { weight: 8, arbitrary: time },
      { weight: 4, arbitrary: links },
      { weight: 4, arbitrary: servers },
      { weight: 3, arbitrary: places },
      { weight: 1, arbitrary: clocks },
    ),
    ({ league }) => {
      for (const at of league.clusters) {
        for (const own of names) {
          const { state = '' } = recordOf(at, own)?.spec ?? {};
          assert.ok(!['Deleted', 'Ended'].includes(state), `${own} is ${state} in ${at.id}`);
        }
      }
    },
  );
});
