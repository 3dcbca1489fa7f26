import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { create, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { FromAgentSchema } from '../../../proto/gen/agent_pb.ts';
import { HansaError } from '../errors/error.ts';
import { HeldState } from './held-state.ts';
import { maxFromAgentBytes, maxHelloItems } from './limits.ts';
import { held, scene } from './test-link.ts';
import { TestSite, wireVersion } from './test-site.ts';

suite('the link of an agent', () => {
  test('says hello, takes the state and acknowledges it', async () => {
    const site = new TestSite();
    site.set('a', '1');
    const { clock, state, link, stop } = scene({ site });
    await clock.advance(0);
    assert.equal(site.hellos[0]?.version, '1.2.3');
    assert.equal(site.hellos[0]?.host, 'crane');
    assert.equal(site.hellos[0]?.session.byteLength, 16);
    assert.equal(site.hellos[0]?.held, undefined);
    const ack = site.open?.sent.find((one) => one.case === 'acknowledge');
    assert.ok(ack?.case === 'acknowledge');
    assert.equal(ack.value.refused, '');
    assert.equal(ack.value.version?.revision, BigInt(site.revision));
    assert.deepEqual(Buffer.from(ack.value.version.hash), site.hash);
    assert.equal(held(state), site.hash.toString('hex'));
    assert.equal(link.status.connected, true);
    await stop();
  });

  test('gets the next state while a slow disk still writes the one before', async () => {
    const never = new Promise<void>(() => undefined);
    let writes = 0;
    const { clock, site, state, stop } = scene({
      keep: () => {
        writes++;
        return never;
      },
    });
    site.set('web', '1');
    await clock.advance(0);
    site.unset('web');
    site.push();
    await clock.advance(0);
    assert.equal(state.size, 0);
    assert.equal(held(state), site.hash.toString('hex'));
    assert.equal(writes, 2);
    await stop();
  });

  test('acknowledges a state after it was applied, not before', async () => {
    const applying = Promise.withResolvers<void>();
    const { clock, site, stop } = scene({ apply: () => applying.promise });
    await clock.advance(0);
    const acknowledged = () => site.open?.sent.filter((one) => one.case === 'acknowledge').length;
    assert.equal(acknowledged(), 0);
    applying.resolve();
    await clock.advance(0);
    assert.equal(acknowledged(), 1);
    await stop();
  });

  test('follows changes, in one message or in several', async () => {
    const { clock, site, state, applied, stop } = scene();
    await clock.advance(0);
    for (const name of ['a', 'b', 'c', 'd']) site.set(name, name);
    site.push(3);
    await clock.advance(0);
    assert.equal(held(state), site.hash.toString('hex'));
    assert.equal(applied.length, 2);
    site.unset('b');
    site.push();
    await clock.advance(0);
    assert.equal(held(state), site.hash.toString('hex'));
    assert.deepEqual(applied[2]?.put, []);
    assert.deepEqual(
      applied[2]?.delete.map(({ name }) => name),
      ['b'],
    );
    await stop();
  });

  test('resumes after a broken stream with the same session, and gets only what changed', async () => {
    const { clock, site, state, applied, stop } = scene();
    site.set('a', '1');
    await clock.advance(0);
    site.cut();
    site.set('b', '2');
    await clock.advance(60_000);
    assert.deepEqual(site.hellos[1]?.session, site.hellos[0]?.session);
    assert.equal(site.hellos[1]?.items.length, 1);
    assert.deepEqual(
      applied.at(-1)?.put.map(({ name }) => name),
      ['b'],
    );
    assert.equal(held(state), site.hash.toString('hex'));
    await stop();
  });

  for (const [what, count, length] of [
    ['with long names', maxHelloItems, 180],
    ['that are many', maxHelloItems + 1, 6],
  ] as const) {
    test(`asks for a whole state where it holds items ${what}, which do not fit in a hello`, async () => {
      const site = new TestSite();
      for (let at = 0; at < count; at++) site.set(String(at).padStart(length, 'n'), '');
      const { clock, state, link, stop } = scene({ site });
      await clock.advance(0);
      site.cut();
      const sizes: number[] = [];
      site.intercept = (message) => {
        if (message.case !== 'hello') return false;
        sizes.push(toBinary(FromAgentSchema, create(FromAgentSchema, { message })).byteLength);
        return false;
      };
      await clock.advance(5_000);
      assert.ok((sizes[0] ?? Infinity) <= maxFromAgentBytes, `a hello of ${sizes[0]} bytes`);
      assert.equal(site.hellos[1]?.held, undefined);
      assert.equal(link.status.connected, true);
      assert.equal(held(state), site.hash.toString('hex'));
      await stop();
    });
  }

  test('keeps the items of sections that it does not know, so that hashes agree', async () => {
    const { clock, site, state, stop } = scene();
    site.set('a', '1', 'overlay');
    await clock.advance(0);
    site.set('b', '1');
    site.push();
    await clock.advance(0);
    assert.equal(held(state), site.hash.toString('hex'));
    assert.deepEqual(site.refusals, []);
    await stop();
  });

  test('ignores a message that only newer agents know', async () => {
    const { clock, site, state, stop } = scene();
    await clock.advance(0);
    // Field 99, length-delimited, empty.
    site.open?.sayBytes(Buffer.from('9a0600', 'hex'));
    site.set('a', '1');
    site.push();
    await clock.advance(0);
    assert.equal(held(state), site.hash.toString('hex'));
    assert.equal(site.streams.length, 1);
    await stop();
  });

  test('any order of changes, breaks, lost epochs and refusals ends with the state of the site', async () => {
    const action = fc.oneof(
      fc.record({
        do: fc.constant('set' as const),
        name: fc.constantFrom('a', 'b', 'c'),
        value: fc.string(),
      }),
      fc.record({ do: fc.constant('unset' as const), name: fc.constantFrom('a', 'b', 'c') }),
      fc.record({ do: fc.constant('push' as const), parts: fc.integer({ min: 1, max: 3 }) }),
      fc.record({
        do: fc.constantFrom('cut' as const, 'wait' as const, 'epoch' as const, 'renew' as const),
      }),
      fc.record({
        do: fc.constantFrom('garble' as const, 'stale' as const, 'away' as const, 'back' as const),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
        const { clock, site, state, link, stop } = scene();
        let newest = 0;
        for (const step of actions) {
          if (step.do === 'set') site.set(step.name, step.value);
          if (step.do === 'unset') site.unset(step.name);
          if (step.do === 'push') site.push(step.parts);
          if (step.do === 'cut') site.cut();
          if (step.do === 'wait') await clock.advance(700);
          if (step.do === 'epoch') site.epoch++;
          if (step.do === 'renew') link.reconnect();
          if (step.do === 'garble') site.open?.sayBytes(Buffer.from('ffff', 'hex'));
          if (step.do === 'away') site.away = new HansaError('HANSA_UNREACHABLE', 'It is away.');
          if (step.do === 'back') site.away = undefined;
          if (step.do === 'stale') {
            // A replica that was the leader once.
            site.open?.say({
              case: 'state',
              value: { version: wireVersion({ ...site.version, revision: 0, epoch: 0 }) },
            });
          }
          await clock.advance(0);
          const now = state.floor?.revision ?? 0;
          assert.ok(now >= newest, 'the agent went back');
          newest = now;
        }
        site.away = undefined;
        site.cut();
        await clock.advance(120_000);
        assert.equal(held(state), site.hash.toString('hex'));
        assert.equal(link.status.connected, true);
        await stop();
      }),
      { numRuns: 150, endOnFailure: true },
    );
  });
});

suite('a state is refused, and the one before is kept,', () => {
  const refused = async (
    change: (site: TestSite) => Parameters<NonNullable<TestSite['open']>['say']>[0],
    why: RegExp,
  ): Promise<void> => {
    const { clock, site, state, stop } = scene();
    site.set('a', '1');
    site.epoch = 5;
    await clock.advance(0);
    const before = held(state);
    site.open?.say(change(site));
    await clock.advance(0);
    assert.match(site.refusals[0] ?? '', why);
    assert.equal(held(state), before);
    await stop();
  };

  test('if it has an older epoch', () =>
    refused(
      (site) => ({ case: 'state', value: { version: wireVersion({ ...site.version, epoch: 4 }) } }),
      /has the epoch 4, but this agent has accepted the epoch 5/,
    ));

  test('if it has an older epoch and comes from another database', () =>
    refused(
      (site) => ({
        case: 'state',
        value: { version: wireVersion({ ...site.version, incarnation: 'two', epoch: 4 }) },
      }),
      /epoch 4/,
    ));

  test('if it has an older revision', () =>
    refused(
      (site) => ({
        case: 'state',
        value: { version: wireVersion({ ...site.version, revision: 1 }) },
      }),
      /has the revision 1, but this agent has accepted the revision 2/,
    ));

  test('if its changes are for another state', () =>
    refused(
      (site) => ({
        case: 'state',
        value: { version: wireVersion(site.version), base: Buffer.alloc(32, 1) },
      }),
      /for another state/,
    ));

  test('if its hash is not that of its items', () =>
    refused(
      (site) => ({
        case: 'state',
        value: { version: wireVersion({ ...site.version, hash: Buffer.alloc(32, 1) }) },
      }),
      /hash of the resulting state differs/,
    ));

  test('if a part of the agent cannot use an item', async () => {
    const { clock, site, state, stop } = scene({
      problemOf: (items) =>
        items.some(({ value }) => value.includes('{')) ? 'no JSON' : undefined,
    });
    site.set('a', '1');
    await clock.advance(0);
    const before = held(state);
    site.set('b', '{');
    site.push();
    await clock.advance(0);
    assert.equal(site.refusals[0], 'no JSON');
    assert.equal(held(state), before);
    await stop();
  });

  test('also after a restart of the agent', async () => {
    const state = new HeldState({ floor: { incarnation: 'one', revision: 50, epoch: 3 } });
    const { clock, site, link, stop } = scene({ state });
    await clock.advance(0);
    assert.match(site.refusals[0] ?? '', /epoch 1/);
    site.epoch = 3;
    site.cut();
    await clock.advance(5_000);
    assert.match(site.refusals.at(-1) ?? '', /revision 1/);
    assert.equal(link.status.connected, false);
    site.revision = 50;
    site.cut();
    await clock.advance(60_000);
    assert.equal(link.status.connected, true);
    await stop();
  });

  test('and after three refusals the agent waits before it connects again', async () => {
    const state = new HeldState({ floor: { incarnation: 'one', revision: 50, epoch: 3 } });
    const { clock, site, link, stop } = scene({ state });
    await clock.advance(0);
    assert.equal(site.refusals.length, 3);
    assert.equal(site.streams.length, 1);
    assert.equal(site.open, undefined);
    assert.match(link.status.lastError ?? '', /refused its states/);
    // Backoff grows, so there are few attempts.
    await clock.advance(60_000);
    assert.ok(site.streams.length < 15, `${site.streams.length} attempts`);
    await stop();
  });
});

suite('hostile messages end the stream, and the agent connects again:', () => {
  const version = (site: TestSite) => wireVersion(site.version);
  const messages = new Map<
    string,
    (site: TestSite) => Parameters<NonNullable<TestSite['open']>['say']>[0]
  >([
    ['a state without a version', () => ({ case: 'state', value: {} })],
    [
      'a hash of 31 bytes',
      (site) => ({
        case: 'state',
        value: { version: { ...version(site), hash: Buffer.alloc(31) } },
      }),
    ],
    [
      'a base of one byte',
      (site) => ({ case: 'state', value: { version: version(site), base: Buffer.alloc(1) } }),
    ],
    [
      'a revision beyond 2^53',
      (site) => ({ case: 'state', value: { version: { ...version(site), revision: 2n ** 60n } } }),
    ],
    [
      'an item without a name',
      (site) => ({ case: 'state', value: { version: version(site), put: [{}] } }),
    ],
    [
      'an item with a NUL in its name',
      (site) => ({
        case: 'state',
        value: {
          version: version(site),
          put: [{ name: { section: 'a', collection: 'b', name: 'c\0d' } }],
        },
      }),
    ],
    ['a nonce of 65 bytes', () => ({ case: 'ping', value: { nonce: Buffer.alloc(65) } })],
  ]);
  for (const [name, make] of messages) {
    test(name, async () => {
      const { clock, site, state, link, stop } = scene();
      site.set('a', '1');
      await clock.advance(0);
      const before = held(state);
      site.open?.say(make(site));
      await clock.advance(0);
      assert.match(link.status.lastError ?? '', /The site sent/);
      assert.equal(held(state), before);
      await clock.advance(60_000);
      assert.equal(link.status.connected, true);
      await stop();
    });
  }

  test('a step in which another one begins', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const at = version(site);
    site.open?.say({ case: 'state', value: { version: at, more: true } });
    site.open?.say({ case: 'state', value: { version: { ...at, revision: at.revision + 1n } } });
    await clock.advance(0);
    assert.match(link.status.lastError ?? '', /two states at once/);
    await stop();
  });

  test('a state that never ends', async () => {
    const { clock, site, link, stop } = scene();
    await clock.advance(0);
    const item = {
      name: { section: 'a', collection: 'b', name: 'c' },
      value: Buffer.alloc(1024 ** 2),
    };
    const part = { version: version(site), put: [item, item, item], more: true };
    for (let at = 0; at < 22; at++) site.open?.say({ case: 'state', value: part });
    await clock.advance(0);
    assert.match(link.status.lastError ?? '', /more than 64 MiB/);
    await stop();
  });
});
