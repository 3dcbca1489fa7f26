import assert from 'node:assert/strict';
import crypto, { generateKeyPairSync } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { after, before, suite, test } from 'node:test';
import { forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import type { SourceRates } from '../../core/limits/source-budget.ts';
import {
  attemptJoin,
  type Attempt,
  ciToken,
  initMessage,
  joinSite,
  RawCall,
  svidOf,
  type TestJoinSite,
} from './test-join-site.ts';

const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'secp521r1' });
const algorithm = 'ecdsa-sha512' as const;
const stranger = forgeRoot('novgorod.example', { key, algorithm });
/** The most expensive chain that a stranger can present. */
const expensive: Attempt = svidOf(
  forgeLeaf(stranger, 'spiffe://novgorod.example/ci/x', { key, algorithm }),
);

/** So slow that no token is added during a test. */
const rates: SourceRates = {
  source: { burst: 10, perSecond: 0.001 },
  network: { burst: 100, perSecond: 0.001 },
};

suite('strangers who join with expensive certificates', () => {
  let site: TestJoinSite;

  before(async () => {
    site = await joinSite({ refusalRates: rates });
    await site.createToken('ci-runners', ciToken);
  });
  after(() => site.stop());

  test('have no signature checked on the main thread', async (t) => {
    const { verify } = crypto;
    let [onMain, inPool] = [0, 0];
    t.mock.method(crypto, 'verify', (...args: Parameters<typeof verify>) => {
      if (args.length === 5) inPool++;
      else onMain++;
      return Reflect.apply(verify, crypto, args);
    });
    syncBuiltinESMExports();
    t.after(() => {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    });
    const session = await site.dial();
    onMain = 0;
    for (const wish of [{}, { token: 'unknown' }]) {
      const outcome = await attemptJoin(session, { ...expensive, wish });
      assert.equal('status' in outcome && outcome.status, '7');
    }
    assert.equal(onMain, 0);
    assert.equal(inPool, 10);
  });

  test('are told to wait after a while, before anything is read or checked', async () => {
    const session = await site.dial('127.0.0.2');
    for (let at = 0; at < rates.source.burst; at++) await attemptJoin(session, expensive);
    site.checks.length = 0;
    const call = new RawCall(session);
    call.send(initMessage(expensive, Buffer.alloc(32, 1)));
    assert.equal(await call.read(), undefined);
    assert.equal(call.status, '8');
    assert.deepEqual(site.checks, []);
    // A client from another address can join.
    assert.ok('joined' in (await attemptJoin(await site.dial('127.0.0.3'))));
    // The limited address can join again after some time.
    site.clock.monotonicOffsetMs += 1_000_000;
    assert.ok('joined' in (await attemptJoin(session)));
  });

  test('do not count those who prove themselves', async () => {
    const session = await site.dial('127.0.0.4');
    for (let at = 0; at < rates.source.burst + 5; at++) {
      assert.ok('joined' in (await attemptJoin(session)));
    }
  });
});
