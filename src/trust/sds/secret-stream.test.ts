import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { DeltaDiscoveryRequestSchema, DiscoveryRequestSchema } from '../../../proto/gen/sds_pb.ts';
import { defaultLimits } from '../workload/socket/workload-connections.ts';
import { Delta, fetched, maxNameCharacters, maxNames, StateOfTheWorld } from './secret-stream.ts';
import { bundles, readDelta, readState, secrets, twoSvids } from './test-secrets.ts';
import { secretType, type WorkloadSecrets } from './workload-secrets.ts';

const ask = (init: MessageInitShape<typeof DiscoveryRequestSchema>) =>
  create(DiscoveryRequestSchema, init);
const askDelta = (init: MessageInitShape<typeof DeltaDiscoveryRequestSchema>) =>
  create(DeltaDiscoveryRequestSchema, init);

const svids = await twoSvids();
const plain = await secrets({ svids });
const renewed = await secrets();
const peered = await secrets({
  svids,
  federated: [bundles.bruges],
  peers: { 'bruges.example': ['spiffe://bruges.example/web'] },
});
const bruges = 'spiffe://bruges.example';
const names = (bytes: Uint8Array | undefined) => readState(bytes)?.secrets.map(({ name }) => name);

describe('a stream of states', () => {
  test('answers the first request, and again when something of it changed', () => {
    const stream = new StateOfTheWorld();
    stream.update(plain);
    assert.equal(stream.next(), undefined, 'before anything was asked for');
    stream.request(ask({ resourceNames: ['default', 'ROOTCA'], typeUrl: secretType }));
    const first = readState(stream.next());
    assert.deepEqual(
      first?.secrets.map(({ name }) => name),
      ['default', 'ROOTCA'],
    );
    assert.equal(first?.nonce, '1');
    assert.equal(stream.next(), undefined, 'nothing is told twice');
    const { versionInfo } = first;
    const resourceNames = ['default', 'ROOTCA'];
    stream.request(ask({ resourceNames, versionInfo, responseNonce: '1' }));
    assert.equal(stream.next(), undefined, 'an acknowledgement asks for nothing');
    stream.update(peered);
    assert.equal(stream.next(), undefined, 'what changed was not asked for');
    stream.update(renewed);
    const second = readState(stream.next());
    assert.equal(second?.nonce, '2');
    assert.notEqual(second.versionInfo, versionInfo);
  });

  test('waits for a state where the request comes first', () => {
    const stream = new StateOfTheWorld();
    stream.request(ask({ resourceNames: ['default'] }));
    assert.equal(stream.next(), undefined);
    stream.update(plain);
    assert.deepEqual(names(stream.next()), ['default']);
  });

  test('follows a subscription that changes, and leaves out what is unknown', () => {
    const stream = new StateOfTheWorld();
    stream.update(plain);
    stream.request(ask({ resourceNames: ['nonsense'] }));
    assert.equal(stream.next(), undefined, 'an empty response would be a fault to an Envoy');
    assert.deepEqual(stream.missing, ['nonsense']);
    stream.request(ask({ resourceNames: ['nonsense', 'default', 'default', ''] }));
    assert.deepEqual(names(stream.next()), ['default']);
    stream.request(ask({ resourceNames: ['default', 'ROOTCA'], responseNonce: '1' }));
    assert.deepEqual(names(stream.next()), ['default', 'ROOTCA']);
  });

  test('tells everything to whoever names nothing', () => {
    const stream = new StateOfTheWorld();
    stream.update(peered);
    stream.request(ask({}));
    assert.deepEqual(names(stream.next()), [
      'spiffe://lubeck.example',
      bruges,
      'spiffe://lubeck.example/web',
      'spiffe://lubeck.example/batch',
    ]);
  });

  test('ignores the answer to an older response, and the names in it', () => {
    const stream = new StateOfTheWorld();
    stream.update(plain);
    stream.request(ask({ resourceNames: ['default'] }));
    stream.next();
    stream.update(renewed);
    stream.next();
    for (const responseNonce of ['1', '', 'x', '3']) {
      stream.request(ask({ resourceNames: ['ROOTCA'], responseNonce }));
      assert.equal(stream.next(), undefined);
    }
    stream.request(ask({ resourceNames: ['ROOTCA'], responseNonce: '2' }));
    assert.deepEqual(names(stream.next()), ['ROOTCA']);
  });

  test('tells of a rejection, does not repeat what was rejected, and goes on with the next change', () => {
    const stream = new StateOfTheWorld();
    stream.update(plain);
    const resourceNames = ['default'];
    stream.request(ask({ resourceNames }));
    stream.next();
    const errorDetail = { code: 3, message: 'bad key '.repeat(1000) };
    const rejected = stream.request(ask({ resourceNames, responseNonce: '1', errorDetail }));
    assert.match(rejected ?? '', /^bad key/);
    assert.ok((rejected ?? '').length <= 500);
    assert.equal(stream.next(), undefined);
    stream.update(renewed);
    assert.deepEqual(names(stream.next()), ['default']);
  });

  test('forgets what an Envoy asks for no more, however many names it goes through', () => {
    const stream = new StateOfTheWorld();
    stream.update(peered);
    stream.request(ask({ resourceNames: [bruges] }));
    stream.next();
    stream.request(ask({ resourceNames: ['default'], responseNonce: '1' }));
    stream.next();
    stream.update(plain);
    stream.request(ask({ resourceNames: [bruges, 'default'], responseNonce: '2' }));
    assert.equal(stream.next(), undefined);
    assert.deepEqual(stream.missing, [bruges]);
  });

  test('closes the context of a trust domain that an Envoy has and shall have no more', () => {
    const nobody = ['exact spiffe://nobody.invalid'];
    const stream = new StateOfTheWorld();
    stream.update(peered);
    stream.request(ask({ resourceNames: [bruges] }));
    stream.next();
    stream.update(plain);
    assert.deepEqual(readState(stream.next())?.secrets[0]?.['matchers'], nobody);
    // One that comes back after a restart of the site tells so by a version.
    const again = new StateOfTheWorld();
    again.update(plain);
    again.request(ask({ resourceNames: [bruges], versionInfo: 'abc' }));
    assert.deepEqual(readState(again.next())?.secrets[0]?.['matchers'], nobody);
    const stranger = new StateOfTheWorld();
    stranger.update(plain);
    stranger.request(ask({ resourceNames: [bruges] }));
    assert.equal(stranger.next(), undefined);
  });

  test('refuses other types and more names than anybody needs', () => {
    const stream = new StateOfTheWorld();
    const other = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
    assert.throws(() => stream.request(ask({ typeUrl: other })), {
      code: 'HANSA_BAD_REQUEST',
      message: /Cluster: this service supports only .*Secret/,
    });
    const many = Array.from({ length: maxNames + 1 }, (_, at) => `name-${at}`);
    assert.throws(() => stream.request(ask({ resourceNames: many })), {
      code: 'HANSA_BAD_REQUEST',
      message: /1025 secrets on one stream: the limit is 1024/,
    });
  });
});

describe('a single question', () => {
  test('is answered with what there is, and without a nonce', () => {
    const answer = readState(fetched(ask({ resourceNames: ['default', 'nonsense'] }), plain));
    assert.deepEqual(
      answer?.secrets.map(({ name }) => name),
      ['default'],
    );
    assert.equal(answer?.nonce, '');
    assert.notEqual(answer.versionInfo, '');
    assert.throws(() => fetched(ask({ typeUrl: 'x' }), plain), { code: 'HANSA_BAD_REQUEST' });
  });
});

describe('a stream of changes', () => {
  test('tells what is new, what changed, and what is gone', () => {
    const stream = new Delta();
    stream.update(peered);
    stream.request(askDelta({ resourceNamesSubscribe: ['default', bruges, 'nonsense'] }));
    assert.deepEqual(readDelta(stream.next())?.changed, ['default', bruges]);
    assert.deepEqual(stream.missing, ['nonsense']);
    stream.request(askDelta({ responseNonce: '1' }));
    assert.equal(stream.next(), undefined);
    stream.update(renewed);
    const second = readDelta(stream.next());
    assert.deepEqual(second?.changed, ['default', bruges]);
    assert.deepEqual(second?.secrets[1]?.['matchers'], ['exact spiffe://nobody.invalid']);
    stream.request(askDelta({ resourceNamesUnsubscribe: ['default'], responseNonce: '2' }));
    stream.update(plain);
    assert.equal(stream.next(), undefined, 'what nobody subscribes to is not told of');
    stream.request(askDelta({ resourceNamesSubscribe: ['default'], responseNonce: '2' }));
    assert.deepEqual(readDelta(stream.next())?.changed, ['default']);
  });

  test('tells whoever comes back only what he does not have', () => {
    const first = new Delta();
    first.update(plain);
    first.request(askDelta({ resourceNamesSubscribe: ['default', 'ROOTCA'] }));
    const { versions } = readDelta(first.next()) ?? { versions: {} };
    const again = new Delta();
    again.update(renewed);
    again.request(
      askDelta({
        resourceNamesSubscribe: ['default', 'ROOTCA'],
        initialResourceVersions: versions,
      }),
    );
    assert.deepEqual(readDelta(again.next())?.changed, ['default']);
  });

  test('keeps no more characters of names than anybody needs, in one request or in several', () => {
    const long = 'n'.repeat(maxNameCharacters / 2);
    const stream = new Delta();
    stream.request(askDelta({ resourceNamesSubscribe: [`${long}1`] }));
    assert.throws(() => stream.request(askDelta({ resourceNamesSubscribe: [`${long}2`] })), {
      code: 'HANSA_BAD_REQUEST',
    });
    const tooLong = 'n'.repeat(maxNameCharacters + 1);
    for (const init of [
      { initialResourceVersions: { [tooLong]: 'v' } },
      { resourceNamesUnsubscribe: [tooLong] },
    ]) {
      assert.throws(() => new Delta().request(askDelta(init)), { code: 'HANSA_BAD_REQUEST' });
    }
    assert.throws(() => new StateOfTheWorld().request(ask({ resourceNames: [tooLong] })), {
      code: 'HANSA_BAD_REQUEST',
    });
  });

  test('with a wildcard tells everything, and what is removed', () => {
    const stream = new Delta();
    stream.update(peered);
    stream.request(askDelta({}));
    assert.ok(readDelta(stream.next())?.changed.includes(bruges));
    stream.update(plain);
    assert.deepEqual(readDelta(stream.next())?.removed, [bruges]);
  });

  test('refuses other types and more names than anybody needs, also in several steps', () => {
    const stream = new Delta();
    assert.throws(() => stream.request(askDelta({ typeUrl: 'x' })), { code: 'HANSA_BAD_REQUEST' });
    const some = (from: string) => Array.from({ length: 600 }, (_, at) => `${from}-${at}`);
    stream.request(askDelta({ resourceNamesSubscribe: some('a') }));
    assert.throws(() => stream.request(askDelta({ resourceNamesSubscribe: some('b') })), {
      code: 'HANSA_BAD_REQUEST',
    });
  });

  test('and a stream of states leave an Envoy with the same secrets, whatever happens between', () => {
    const name = fc.constantFrom<string>('default', 'ROOTCA', 'ALL', bruges, 'nonsense');
    const step = fc.oneof(
      fc.record({ subscribe: fc.uniqueArray(name, { minLength: 1 }) }),
      fc.record({ state: fc.constantFrom(plain, renewed, peered) }),
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        const delta = new Delta();
        const states = new StateOfTheWorld();
        const held = new Map<string, string>();
        let wanted: readonly string[] | undefined;
        let nonce = '';
        let latest: WorkloadSecrets | undefined;
        for (const one of steps) {
          if ('state' in one) {
            latest = one.state;
            delta.update(latest);
            states.update(latest);
          } else {
            const gone = (wanted ?? []).filter((old) => !one.subscribe.includes(old));
            const fresh = one.subscribe.filter((now) => !(wanted ?? []).includes(now));
            delta.request(
              askDelta({ resourceNamesSubscribe: fresh, resourceNamesUnsubscribe: gone }),
            );
            for (const old of gone) held.delete(old);
            wanted = one.subscribe;
            states.request(ask({ resourceNames: [...wanted], responseNonce: nonce }));
          }
          const change = readDelta(delta.next());
          for (const [changed, version] of Object.entries(change?.versions ?? {})) {
            held.set(changed, version);
          }
          for (const removed of change?.removed ?? []) held.delete(removed);
          nonce = readState(states.next())?.nonce ?? nonce;
          assert.equal(delta.next(), undefined);
          assert.equal(states.next(), undefined);
          for (const now of wanted ?? []) {
            const secret = latest?.get(now);
            if (secret !== undefined) assert.equal(held.get(now), secret.version);
          }
        }
      }),
    );
  });
});

test('all streams of one user together keep no more names than a site can hold', () => {
  assert.ok(maxNameCharacters * defaultLimits.streamsPerUser <= 64 * 1024 * 1024);
  // A thousand trust domains with names of usual length can be asked for by name.
  assert.ok(maxNames * 'spiffe://hamburg.example'.length <= maxNameCharacters);
});
