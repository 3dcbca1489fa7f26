// For random histories: no token is accepted later than the lag after its last positive check began, nor after
// its expiry.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sleep } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { reviewScene } from './test-scene.ts';
import {
  acceptingStatus,
  issuer,
  jsonResponse,
  keySet,
  serviceAccountToken,
  tokenReview,
} from './test-tokens.ts';

/** kube-apiserver accepts a token for this long after its expiry. */
const leewayMs = 60_000;

const audienceLists = [[], ['a'], ['b', 'a'], ['a', 'b']];
const tokens = fc.integer({ min: 0, max: 2 });

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      token: tokens,
      audiences: fc.constantFrom(...audienceLists),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 12_000 })),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('revoke' as const),
      token: tokens,
      isRevoked: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('server' as const),
      is: fc.oneof(
        fc.constant('up'),
        fc.constantFrom('down', 'refusing', 'failing', 'throttling', 'lying'),
      ),
      latencyMs: fc.constantFrom(0, 1, 700, 4_900, 6_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('keys' as const),
      version: fc.constantFrom('v1', 'v2'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('jump' as const),
      ms: fc.integer({ min: -20_000, max: 20_000 }),
    }),
  },
);

const settings = fc.record({
  mode: fc.constantFrom('hybrid' as const, 'tokenreview' as const),
  maxRevocationLagMs: fc.constantFrom(0, 1_000, 10_000),
  onUnreachable: fc.constantFrom('unavailable' as const, 'allowUntilLag' as const),
});

test('no token is accepted later than the lag after its last positive check began', async () => {
  let acceptances = 0;
  await fc.assert(
    fc.asyncProperty(
      settings,
      fc.array(step, { minLength: 5, maxLength: 60 }),
      async (chosen, steps) => {
        const scene = reviewScene(chosen);
        const { clock, server, reviewer, keys } = scene;
        // One of them expires during the history.
        const known = [3600, 3600, 20].map((lifetimeSeconds, i) => ({
          text: serviceAccountToken(clock.now(), {
            name: `app${i}`,
            audiences: [issuer, 'a', 'b'],
            lifetimeSeconds,
          }),
          expiresAtMs: Math.floor(clock.now() / 1000) * 1000 + lifetimeSeconds * 1000,
        }));
        /** When the last positive check of a question began. */
        const lastPositive = new Map<string, number>();
        // In mode hybrid, a check within the lag counts for all audiences.
        const isShared = chosen.mode === 'hybrid' && chosen.maxRevocationLagMs > 0;
        const mayShare = isShared || chosen.onUnreachable === 'allowUntilLag';
        const keyOf = (token: string, audiences: readonly string[] = []): string =>
          JSON.stringify([token, mayShare ? [] : audiences.toSorted()]);
        let [is, latencyMs] = ['up', 700];
        server.behave = async (spec, { timeoutMs = 0 }) => {
          // As the request arrives: the worst case for revocation.
          const [now, state, took] = [clock.monotonic(), is, latencyMs];
          const isRevoked = server.revoked.has(spec.token);
          const answer = server.answer(spec);
          await sleep(clock, Math.min(took, timeoutMs));
          if (state === 'down' || took > timeoutMs)
            throw new HansaError('HANSA_UNREACHABLE', 'down');
          if (state === 'refusing') return jsonResponse(401, {});
          if (state === 'failing') return jsonResponse(500, {});
          if (state === 'throttling') return jsonResponse(429, {}, { 'retry-after': '2' });
          if (state === 'lying') {
            const status = acceptingStatus(spec);
            const user = { ...status.user, groups: [...status.user.groups, 'system:masters'] };
            return jsonResponse(201, tokenReview(spec, { ...status, user }));
          }
          const key = keyOf(spec.token, spec.audiences);
          if (!isRevoked) lastPositive.set(key, Math.max(now, lastPositive.get(key) ?? now));
          return answer;
        };
        const open: Promise<void>[] = [];
        const ask = async (token: (typeof known)[number], audiences: readonly string[]) => {
          const [askedAt, wallMs] = [clock.monotonic(), clock.now()];
          const verdict = await Promise.resolve(
            reviewer.review(scene.cluster, { token: token.text, audiences }),
          ).catch((error: unknown) => {
            assert.ok(
              error instanceof HansaError && error.code === 'HANSA_UNAVAILABLE',
              String(error),
            );
            return undefined;
          });
          if (verdict?.authenticated !== true) return;
          acceptances++;
          const { mode, onUnreachable, maxRevocationLagMs } = chosen;
          const lagMs =
            mode === 'hybrid' || onUnreachable === 'allowUntilLag' ? maxRevocationLagMs : 0;
          const last = lastPositive.get(keyOf(token.text, audiences)) ?? Number.NEGATIVE_INFINITY;
          assert.ok(last >= askedAt - lagMs, `asked at ${askedAt}, last checked at ${last}`);
          assert.ok(wallMs <= token.expiresAtMs + leewayMs);
        };
        for (const each of steps) {
          if (each.do === 'ask') {
            open.push(ask(known[each.token] as (typeof known)[number], each.audiences));
          } else if (each.do === 'wait') await clock.advance(each.ms);
          else if (each.do === 'server') [is, latencyMs] = [each.is, each.latencyMs];
          else if (each.do === 'keys') keys.current = keySet(clock.now(), undefined, each.version);
          else if (each.do === 'jump') clock.jumpWall(each.ms);
          else {
            const { text } = known[each.token] as (typeof known)[number];
            if (each.isRevoked) server.revoked.add(text);
            else server.revoked.delete(text);
          }
        }
        await clock.runUntilIdle();
        await Promise.all(open);
      },
    ),
    { numRuns: 300 },
  );
  assert.ok(acceptances > 300, `only ${acceptances} acceptances`);
});
