import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type AgentKnowledge, judgeAgent } from './agent-state.ts';

const now = Date.parse('2026-11-16T12:00:00Z');
const day = 86_400_000;
const joined: AgentKnowledge = {
  member: { name: 'crane-1', notAfterMs: now + 1_800_000 },
  signingProblem: undefined,
  vouching: { state: 'trusted' },
  connectedSinceMs: undefined,
  lastSeenMs: undefined,
  reattestUntilMs: now + 1_800_000 + 7 * day,
};
const judge = (change: Partial<AgentKnowledge>) => judgeAgent({ ...joined, ...change }, now);

suite('the state of an agent', () => {
  test('is Joined until it connects for the first time', () => {
    const { state, reason, changesAtMs } = judge({});
    assert.equal(state, 'Joined');
    assert.match(reason, /hansa agent run/);
    assert.equal(changesAtMs, joined.member.notAfterMs);
  });

  test('is Connected while it has a stream on which it is heard', () => {
    const at = { connectedSinceMs: now - day, lastSeenMs: now - 59_999 };
    const { state, changesAtMs } = judge(at);
    assert.deepEqual([state, changesAtMs], ['Connected', now + 1]);
    // Also before the first fact about it is written.
    assert.equal(judge({ connectedSinceMs: now }).state, 'Connected');
    assert.equal(judge({ ...at, lastSeenMs: now - 60_000 }).state, 'Disconnected');
  });

  test('is Disconnected without a stream, and tells when it was last seen', () => {
    const { state, reason } = judge({ lastSeenMs: now - 90_000 });
    assert.equal(state, 'Disconnected');
    assert.match(reason, /2026-11-16T11:58:30Z/);
  });

  test('is Expired with its SVID, and says until when it can come back', () => {
    const member = { name: 'crane-1', notAfterMs: now };
    const { state, reason, changesAtMs } = judge({ member, lastSeenMs: now - 1 });
    assert.equal(state, 'Expired');
    assert.match(reason, /expired at 2026-11-16T12:00:00Z\. .* until 2026-11-23T12:30:00Z/);
    assert.equal(changesAtMs, joined.reattestUntilMs);
    const late = judge({ member, reattestUntilMs: now });
    assert.equal(late.state, 'Expired');
    assert.match(late.reason, /hansa agent forget crane-1/);
    assert.equal(late.changesAtMs, undefined);
  });

  test('is Suspended while its voucher is not trusted, whether it is connected or not', () => {
    const vouching = { state: 'paused', why: 'bruges.example is suspended' } as const;
    for (const connectedSinceMs of [undefined, now]) {
      const { state, reason } = judge({ vouching, connectedSinceMs });
      assert.equal(state, 'Suspended');
      assert.match(reason, /vouched for this agent: bruges\.example is suspended\.$/);
    }
  });

  test('has a reason that fits into the status', () => {
    assert.equal(judge({ signingProblem: 'x'.repeat(5000) }).reason.length, 1024);
  });

  test('is Conflicted before all else, in a sentence', () => {
    const { state, reason } = judge({
      signingProblem: 'two processes use it. Run hansa agent reinstate crane-1',
      vouching: { state: 'revoked', why: 'x' },
      connectedSinceMs: now,
    });
    assert.equal(state, 'Conflicted');
    assert.equal(reason, 'Two processes use it. Run hansa agent reinstate crane-1.');
  });
});
