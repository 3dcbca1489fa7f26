import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Clock } from '../../clock/clock.ts';
import { sleep } from '../../clock/clock.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { LocalClock, VirtualClock } from '../../clock/virtual.ts';
import { holdLease, type LeaseHold } from '../../lease/lease.ts';
import { createLog } from '../../log/json-log.ts';
import type { KubeRequest, KubeResponse, KubeStream } from '../kube-client.ts';
import { KubeVerbs } from '../kube-verbs.ts';
import { epochIn, type KubeLease, leaseRecord } from './kube-lease.ts';
import { KubeLeaseTable, type KubeLeaseTableOptions } from './kube-lease-table.ts';

const keys = { epoch: 'x/epoch', floor: 'x/floor' };
const durationMs = 15_000;

/** One Lease, with the concurrency rules of an API server. */
class LeaseServer {
  lease: KubeLease | undefined;
  version = 0;

  answer({ method, body }: KubeRequest): Pick<KubeResponse, 'status'> & { readonly body: object } {
    const reason = (status: number) => ({ status, body: { kind: 'Status', code: status } });
    if (method === 'POST') {
      if (this.lease !== undefined) return reason(409);
    } else if (this.lease === undefined) {
      return reason(404);
    }
    if (method !== 'GET') {
      const wanted = body as KubeLease;
      const { resourceVersion } = wanted.metadata;
      if (method === 'PUT' && resourceVersion !== String(this.version)) return reason(409);
      this.version++;
      const metadata = { ...wanted.metadata, resourceVersion: String(this.version) };
      this.lease = { ...wanted, metadata };
    }
    return { status: 200, body: this.lease as KubeLease };
  }
}

/** A process's way to the server, which takes time and can break. */
class LeaseClient extends KubeVerbs {
  isBroken = false;
  readonly #server: LeaseServer;
  readonly #clock: Clock;
  readonly #delayMs: () => number;

  constructor(server: LeaseServer, clock: Clock, delayMs: () => number = () => 1) {
    super('member.example:6443');
    this.#server = server;
    this.#clock = clock;
    this.#delayMs = delayMs;
  }

  async request(request: KubeRequest): Promise<KubeResponse> {
    await sleep(this.#clock, this.#delayMs());
    if (this.isBroken) throw new Error('unreachable');
    const { status, body } = this.#server.answer(request);
    await sleep(this.#clock, this.#delayMs());
    return { status, headers: {}, body: Buffer.from(JSON.stringify(body)) };
  }

  stream(): Promise<KubeStream> {
    throw new Error('not used');
  }

  close(): void {}
}

function setUp() {
  const clock = new VirtualClock();
  const server = new LeaseServer();
  let highest = 0;
  const nextEpoch = (seen: number): Promise<number> => {
    highest = Math.max(highest, seen) + 1;
    return Promise.resolve(highest);
  };
  const table = (over: Partial<KubeLeaseTableOptions> = {}): KubeLeaseTable =>
    new KubeLeaseTable({
      client: new LeaseClient(server, clock),
      namespace: 'hansa-system',
      clock,
      keys,
      nextEpoch,
      ...over,
    });
  /** Lets time pass until it is done. */
  const soon = async <T>(done: Promise<T>): Promise<T> => {
    await clock.advance(100);
    return done;
  };
  const acquire = (from: KubeLeaseTable, holder: string) =>
    soon(from.acquire('leader', holder, durationMs));
  return { clock, server, table, soon, acquire };
}

describe('a Lease in a cluster', () => {
  test('is created by the first who asks, with everything that other programs read', async () => {
    const { server, table, acquire } = setUp();
    const state = await acquire(table(), 'one');
    assert.equal(state?.epoch, 1);
    const { holderIdentity, leaseDurationSeconds, leaseTransitions } = server.lease?.spec ?? {};
    assert.deepEqual([holderIdentity, leaseDurationSeconds, leaseTransitions], ['one', 15, 1]);
    assert.match(
      String(server.lease?.spec?.['renewTime']),
      /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/,
    );
  });

  test('is taken over only after it was seen unchanged for its whole duration', async () => {
    const { clock, table, acquire } = setUp();
    await acquire(table(), 'one');
    const two = table();
    assert.equal(await acquire(two, 'two'), undefined);
    await clock.advance(durationMs - 300);
    assert.equal(await acquire(two, 'two'), undefined);
    await clock.advance(300);
    assert.equal((await acquire(two, 'two'))?.epoch, 2);
  });

  test('of a holder whose clock is an hour off is neither stolen nor kept for ever', async () => {
    const { clock, server, table, acquire } = setUp();
    const skewed = new LocalClock(clock, { skewMs: 3_600_000 });
    await acquire(table({ clock: skewed, client: new LeaseClient(server, clock) }), 'one');
    const two = table();
    assert.equal(await acquire(two, 'two'), undefined);
    await clock.advance(durationMs);
    assert.equal((await acquire(two, 'two'))?.holder, 'two');
  });

  test('is renewed by its holder alone, and lost to a higher epoch', async () => {
    const { clock, table, soon, acquire } = setUp();
    const one = table();
    await acquire(one, 'one');
    assert.equal((await soon(one.renew('leader', 'one', 1, durationMs)))?.epoch, 1);
    const two = table();
    await acquire(two, 'two');
    await clock.advance(durationMs);
    await acquire(two, 'two');
    assert.equal(await soon(one.renew('leader', 'one', 1, durationMs)), undefined);
  });

  test('that somebody deleted is lost, and the next epoch is new all the same', async () => {
    const { server, table, soon, acquire } = setUp();
    const one = table();
    await acquire(one, 'one');
    server.lease = undefined;
    assert.equal(await soon(one.renew('leader', 'one', 1, durationMs)), undefined);
    assert.equal((await acquire(one, 'one'))?.epoch, 2);
  });

  test('that was released is free at once, and keeps its epoch', async () => {
    const { server, table, soon, acquire } = setUp();
    const one = table();
    await acquire(one, 'one');
    await soon(one.release('leader', 'other', 1));
    assert.equal(server.lease?.spec?.['holderIdentity'], 'one');
    await soon(one.release('leader', 'one', 1));
    assert.equal((await acquire(table(), 'two'))?.epoch, 2);
  });

  test('ends for its holder when the floor reaches its epoch, and begins again above it', async () => {
    const { table, soon, acquire } = setUp();
    const one = table();
    await acquire(one, 'one');
    await soon(table().raiseFloor('leader', 7));
    assert.equal(await soon(one.renew('leader', 'one', 1, durationMs)), undefined);
    assert.equal((await acquire(one, 'one'))?.epoch, 8);
    await soon(table().raiseFloor('leader', 3));
    assert.equal((await soon(one.renew('leader', 'one', 8, durationMs)))?.epoch, 8);
  });

  test('is led by a process whose search for the next epoch takes longer than the Lease lasts', async () => {
    const { clock, table } = setUp();
    const slow = table({
      nextEpoch: async (seen) => {
        await sleep(clock, 2 * durationMs);
        return seen + 1;
      },
    });
    const log = createLog({ level: 'error', format: 'json', clock, sink: { write() {} } });
    const random = new SeededRandom('slow');
    const terms: number[] = [];
    const hold = holdLease(
      { leases: slow, name: 'leader', holder: 'one', durationMs, clock, random, log },
      async ({ epoch, signal }) => {
        terms.push(epoch);
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      },
    );
    await clock.advance(10 * durationMs);
    assert.deepEqual(terms, [1]);
    const stopped = hold.stop();
    await clock.advance(durationMs);
    await stopped;
  });

  test('goes to one of two who take it at the same moment', async () => {
    const { clock, table, soon, acquire } = setUp();
    await acquire(table(), 'dead');
    const [two, three] = [table(), table()];
    await acquire(two, 'two');
    await acquire(three, 'three');
    await clock.advance(durationMs);
    const won = await soon(
      Promise.all([
        two.acquire('leader', 'two', durationMs),
        three.acquire('leader', 'three', durationMs),
      ]),
    );
    assert.equal(won.filter((state) => state !== undefined).length, 1);
  });
});

describe('an API server that lies about a Lease', () => {
  for (const [what, lie] of [
    ['holder', (lease: KubeLease) => ({ ...lease, spec: { ...lease.spec, holderIdentity: 'x' } })],
    [
      'epoch',
      (lease: KubeLease) => ({
        ...lease,
        metadata: { ...lease.metadata, annotations: { [keys.epoch]: '1000' } },
      }),
    ],
    [
      'epoch, which it leaves out',
      ({ metadata: { name }, ...lease }: KubeLease) => ({ ...lease, metadata: { name } }),
    ],
  ] as const) {
    test(`and answers with another ${what} gives it to nobody`, async () => {
      const { clock, server, table } = setUp();
      const client = new LeaseClient(server, clock);
      const honest = client.request.bind(client);
      client.request = async (request) => {
        const response = await honest(request);
        if (request.method === 'GET') return response;
        const body = lie(JSON.parse(response.body.toString()) as KubeLease);
        return { ...response, body: Buffer.from(JSON.stringify(body)) };
      };
      const asked = table({ client }).acquire('leader', 'one', durationMs);
      const refused = assert.rejects(asked, {
        code: 'HANSA_UNREACHABLE',
        message: /another Lease/,
      });
      await clock.advance(100);
      await refused;
    });
  }
});

describe('a strange Lease', () => {
  const record = (spec: Record<string, unknown>, annotations: Record<string, string> = {}) =>
    leaseRecord(
      { apiVersion: 'v1', kind: 'Lease', metadata: { name: 'x', annotations }, spec },
      keys,
    );

  test('cannot keep others out for longer than ten minutes', () => {
    for (const leaseDurationSeconds of [1e12, 1e308, 600]) {
      assert.equal(record({ leaseDurationSeconds }).durationMs, 600_000);
    }
  });

  test('cannot make others ask without a pause', async () => {
    for (const leaseDurationSeconds of [-1, 0, 0.001, 'x', {}]) {
      assert.equal(record({ leaseDurationSeconds }).durationMs, 1000);
    }
    const { server, table, acquire } = setUp();
    await acquire(table(), 'one');
    const { lease } = server;
    assert.ok(lease);
    server.lease = { ...lease, spec: { ...lease.spec, leaseDurationSeconds: 0 } };
    const two = table();
    await acquire(two, 'two');
    assert.ok((two.askAgainMs('leader') ?? 0) > 0);
  });

  test('without a holder is free', () => {
    for (const holderIdentity of [null, undefined, '']) {
      assert.equal(record({ holderIdentity }).holder, '');
    }
  });

  test('has no epoch where the annotation is not a positive number', () => {
    for (const text of ['', '0', '-3', '1.5', 'x', '1'.repeat(16)]) {
      assert.equal(epochIn({ a: text }, 'a'), 0);
    }
    assert.equal(record({}, { 'x/epoch': '12', 'x/floor': '9' }).epoch, 12);
  });
});

test('at most one of several processes leads, epochs grow, and a dead leader is replaced (seeded)', async () => {
  for (let seed = 0; seed < 40; seed++) {
    const random = new SeededRandom(`lease ${seed}`);
    const { clock, server, table } = setUp();
    const log = createLog({ level: 'error', format: 'json', clock, sink: { write() {} } });
    const leading = new Set<string>();
    const terms: { readonly epoch: number; readonly holder: string }[] = [];
    const clients: LeaseClient[] = [];
    const holds = ['one', 'two', 'three'].map((holder): LeaseHold => {
      const client = new LeaseClient(server, clock, () => random.unit() * 200);
      clients.push(client);
      const own = new LocalClock(clock, { skewMs: (random.unit() - 0.5) * 7_200_000 });
      const leases = table({ client, clock: own });
      return holdLease(
        {
          leases,
          name: 'leader',
          holder,
          durationMs,
          clock: own,
          random: random.fork(holder),
          log,
        },
        async ({ epoch, signal }) => {
          assert.equal(leading.size, 0, `seed ${seed}`);
          leading.add(holder);
          terms.push({ epoch, holder });
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          leading.delete(holder);
        },
      );
    });
    for (let round = 0; round < 20; round++) {
      const client = clients[Math.floor(random.unit() * 3)];
      if (client !== undefined) client.isBroken = random.unit() < 0.5;
      if (random.unit() < 0.1) server.lease = undefined;
      await clock.advance(random.unit() * 20_000);
    }
    for (const client of clients) client.isBroken = false;
    await clock.advance(60_000);
    assert.equal(leading.size, 1, `seed ${seed}`);
    // A holder that lost and regains its own Lease keeps its epoch.
    for (const [index, { epoch, holder }] of terms.entries()) {
      const last = terms[index - 1];
      if (last === undefined || (last.epoch === epoch && last.holder === holder)) continue;
      assert.ok(epoch > last.epoch, `seed ${seed}`);
    }
    const stopped = Promise.all(holds.map((hold) => hold.stop()));
    await clock.advance(30_000);
    await stopped;
  }
});
