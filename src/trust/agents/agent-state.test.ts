import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type AgentKnowledge, judgeAgent } from './agent-state.ts';

const now = Date.parse('2026-11-16T12:00:00Z');
const day = 86_400_000;
const joined: AgentKnowledge = {
  member: { name: 'crane-1', notAfterMs: now + 1_800_000 },
  signingProblem: undefined,
  vouching: { state: 'trusted' },
  connectedUntilMs: undefined,
  hasConnected: false,
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

  test('is Connected while it has a stream at a replica that lives', () => {
    const { state, reason, changesAtMs } = judge({ connectedUntilMs: now + 1 });
    assert.deepEqual([state, changesAtMs], ['Connected', now + 1]);
    // A time would cost a commit for each new stream.
    assert.equal(reason, 'It is connected.');
    assert.equal(judge({ connectedUntilMs: now, hasConnected: true }).state, 'Disconnected');
  });

  test('is Disconnected without a stream if it has been connected before', () => {
    const { state, reason } = judge({ hasConnected: true });
    assert.equal(state, 'Disconnected');
    assert.match(reason, /hansa agent run runs on its machine/);
  });

  test('is Expired with its SVID, and says until when it can come back', () => {
    const member = { name: 'crane-1', notAfterMs: now };
    const { state, reason, changesAtMs } = judge({ member, hasConnected: true });
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
    for (const connectedUntilMs of [undefined, now + 1]) {
      const { state, reason } = judge({ vouching, connectedUntilMs });
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
      connectedUntilMs: now + 1,
    });
    assert.equal(state, 'Conflicted');
    assert.equal(reason, 'Two processes use it. Run hansa agent reinstate crane-1.');
  });
});
