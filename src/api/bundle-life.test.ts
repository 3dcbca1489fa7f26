import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { bundleLife, type FederationLike, sourceOf } from './bundle-life.ts';

const at = (seconds: number): string => new Date(seconds * 1000).toISOString();

const byEndpoint = (
  status: FederationLike['status'],
  staleAfterSeconds?: number,
): FederationLike => ({
  metadata: { creationTimestamp: at(1000) },
  spec: {
    bundleSource: { httpsSpiffe: {} },
    ...(staleAfterSeconds === undefined ? {} : { staleAfterSeconds }),
  },
  ...(status === undefined ? {} : { status }),
});

suite('the life of a bundle', () => {
  test('is an hour past its hint, unless told', () => {
    const life = bundleLife(byEndpoint({ syncedAt: at(2000), refreshHintSeconds: 600 }));
    assert.equal(life.dueAtMs, 2_600_000);
    assert.equal(life.staleAtMs, 6_200_000);
    assert.equal(life.expiredAtMs, undefined);
  });

  test('takes a hint only as far as it is good for both', () => {
    const due = (refreshHintSeconds: number) =>
      bundleLife(byEndpoint({ syncedAt: at(2000), refreshHintSeconds })).dueAtMs;
    assert.equal(due(1), 2_060_000);
    assert.equal(due(2_419_200), 5_600_000);
  });

  test('ends with the last of its authorities', () => {
    const status = {
      syncedAt: at(2000),
      authorities: [{ notAfter: at(2100) }, { notAfter: at(2200) }],
    };
    const life = bundleLife(byEndpoint(status));
    assert.equal(life.expiredAtMs, 2_201_000);
  });

  test('counts from when somebody said that the bundle is good', () => {
    const stale = (status: FederationLike['status']) =>
      bundleLife(byEndpoint(status, 100)).staleAtMs;
    assert.equal(stale(undefined), 1_400_000);
    assert.equal(stale({ bootstrappedAt: at(5000) }), 5_400_000);
    assert.equal(stale({ bootstrappedAt: at(5000), syncedAt: at(9000) }), 9_400_000);
    const live = bundleLife(byEndpoint({ syncedAt: at(9000) }, 100), at(10_000));
    assert.equal(live.staleAtMs, 10_400_000);
  });

  test('of a static one knows no staleness, only expiry', () => {
    const life = bundleLife({
      spec: { bundleSource: { static: { bundle: '{}' } } },
      status: { syncedAt: at(1), authorities: [{ notAfter: at(99) }] },
    });
    assert.deepEqual(life, { dueAtMs: undefined, staleAtMs: undefined, expiredAtMs: 100_000 });
  });

  test('of one without any moment has no end, and none of nonsense a wrong one', () => {
    const { staleAtMs, expiredAtMs } = bundleLife({ spec: { bundleSource: { httpsWeb: {} } } });
    assert.deepEqual([staleAtMs, expiredAtMs], [undefined, undefined]);
    assert.equal(bundleLife(byEndpoint({ syncedAt: 'yesterday' })).staleAtMs, undefined);
  });

  test('never ends before it is due, and later where it was confirmed later', () => {
    fc.assert(
      fc.property(
        fc.nat(1e9),
        fc.nat(1e6),
        fc.integer({ min: 0, max: 31_536_000 }),
        fc.nat(1e6),
        (synced, hint, stale, more) => {
          const lifeAt = (seconds: number) =>
            bundleLife(byEndpoint({ syncedAt: at(seconds), refreshHintSeconds: hint }, stale));
          const [first, later] = [lifeAt(synced), lifeAt(synced + more)];
          assert((first.dueAtMs ?? 0) > synced * 1000);
          assert((first.staleAtMs ?? 0) >= (first.dueAtMs ?? 0));
          assert.equal((later.staleAtMs ?? 0) - (first.staleAtMs ?? 0), more * 1000);
        },
      ),
    );
  });
});

test('a source is known by what is set', () => {
  const of = (bundleSource: NonNullable<FederationLike['spec']>['bundleSource']) =>
    sourceOf({ spec: { ...(bundleSource && { bundleSource }) } });
  assert.equal(of({ httpsSpiffe: {} }), 'https_spiffe');
  assert.equal(of({ httpsWeb: {} }), 'https_web');
  assert.equal(of({ static: {} }), 'static');
});
