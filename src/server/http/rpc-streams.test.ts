// Tests of streams with authenticated callers: how long they last, and which limits they count against.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, suite, test } from 'node:test';
import { forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { encodeFrame } from '../../core/rpc/frames.ts';
import {
  agent,
  bruges,
  closeAll,
  minuteMs,
  much,
  open,
  otherAgent,
  otherPeer,
  peer,
  rpcs,
  scene,
} from './test-rpc-scene.ts';

after(closeAll);

suite('a stream of a known caller', () => {
  test('carries the identity of its caller', async () => {
    const { dial, granted } = await scene();
    assert.equal(await open(dial(peer), 'Peer').say('hello'), 'bruges.example hello');
    assert.equal(await open(dial(agent), 'Agent').first(), 'crane');
    assert.equal(
      await open(dial(peer), 'Public').first(),
      peer.certificate.extensions.subjectAlternativeName?.uris[0],
    );
    assert.equal(await open(dial(undefined), 'Public').first(), 'a stranger');
    granted.add('bruges.example');
    assert.equal(await open(dial(peer), 'Scope').first(), 'bruges.example');
  });

  for (const [what, who, method] of [
    ['a stranger calls a method for peers', undefined, 'Peer'],
    ['an agent calls a method for peers', agent, 'Peer'],
    ['a peer without a grant calls a method for a scope', peer, 'Scope'],
    ['a peer calls a method for agents', peer, 'Agent'],
    ['a stranger calls a method for agents', undefined, 'Agent'],
    [
      'a forged peer calls',
      forgeLeaf(forgeRoot('bruges.example'), 'spiffe://bruges.example/hansa/site'),
      'Peer',
    ],
  ] as const) {
    test(`is refused where ${what}`, async () => {
      const { dial } = await scene();
      const { ended } = open(dial(who), method);
      assert.equal((await ended).status, '7');
    });
  }

  test('lasts as long as its messages come, however long that is', async () => {
    const { dial, clock } = await scene();
    const { say } = open(dial(peer), 'Peer');
    for (let i = 0; i < 20; i++) {
      assert.equal(await say(String(i)), `bruges.example ${i}`);
      await clock.advance(4 * minuteMs);
    }
  });

  test('ends after the idle limit without a message', async () => {
    const { dial, clock } = await scene();
    const { say, ended } = open(dial(peer), 'Peer');
    await say('one');
    await clock.advance(5 * minuteMs + 1);
    assert.deepEqual(await ended, { status: '4', message: 'No message was sent for 300 seconds.' });
  });

  test('ends when the certificate of its caller expires', async () => {
    const { dial, clock } = await scene();
    const notAfterMs = clock.now() + 2 * minuteMs;
    const shortLived = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site', { notAfterMs });
    const { say, ended } = open(dial(shortLived), 'Peer');
    assert.equal(await say('one'), 'bruges.example one');
    await clock.advance(minuteMs);
    assert.equal(await say('two'), 'bruges.example two');
    // To the end of its last second, and not so far that the stream is closed after its status.
    await clock.advance(minuteMs + 1000);
    assert.equal((await ended).status, '7');
  });

  test('ends when the certificate of its caller expires, also where the clock was set back', async () => {
    const { dial, clock } = await scene();
    const notAfterMs = clock.now() + minuteMs;
    const shortLived = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site', { notAfterMs });
    const { say, ended } = open(dial(shortLived), 'Peer');
    await say('one');
    clock.jumpWall(-minuteMs);
    await clock.advance(minuteMs + 1000);
    await say('two');
    await clock.advance(minuteMs);
    assert.equal((await ended).status, '7');
  });

  test('ends soon after time alone has ended the trust in its caller', async () => {
    const { dial, clock, live } = await scene();
    const { say, ended } = open(dial(peer), 'Peer');
    await say('one');
    live.delete('bruges.example');
    await clock.advance(minuteMs);
    assert.equal((await ended).status, '7');
  });

  test('gives way to no stranger while it lasts, and counts as others do when it is over', async (t) => {
    const { dial, clock, strangers } = await scene({ strangersCount: true });
    const session = dial(peer);
    const standing = open(session, 'Peer');
    await standing.say('one');
    assert.equal(strangers.size, 0);
    await clock.advance(minuteMs);
    const crowd = dial(undefined);
    for (let at = 0; at < 5; at++) {
      crowd.request({ ':path': '/', ':method': 'POST' }).on('error', () => undefined);
    }
    while (strangers.size < 3) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(await standing.say('two'), 'bruges.example two');
    crowd.destroy();
    while (strangers.size > 0) await new Promise((resolve) => setImmediate(resolve));
    // A caller that does not read its answer keeps the stream of a call that is over.
    const counted = t.mock.method(strangers, 'admit');
    standing.stream.end();
    assert.equal((await standing.ended).status, '0');
    assert.equal(counted.mock.callCount(), 1);
  });

  test('is in the audit log where it is refused', async () => {
    const { dial, denials } = await scene();
    await open(dial(peer), 'Agent').ended;
    await open(dial(undefined), 'Agent').ended;
    assert.deepEqual(denials, [
      'spiffe://bruges.example/hansa/site HANSA_FORBIDDEN /test.Stream/Agent',
      'undefined HANSA_FORBIDDEN /test.Stream/Agent',
    ]);
  });

  test('ends when its peer is suspended or revoked, and no other stream does', async () => {
    const { dial, live, changed } = await scene();
    const gone = open(dial(peer), 'Peer');
    const stays = open(dial(otherPeer), 'Peer');
    await Promise.all([gone.say('one'), stays.say('one')]);
    live.delete('bruges.example');
    for (const listener of changed) listener();
    assert.deepEqual(await gone.ended, { status: '7', message: 'Refused: it is no peer.' });
    assert.equal(await stays.say('two'), 'reval.example two');
  });

  test('ends when its agent is forgotten, without a check of other agents', async () => {
    const { dial, forgotten, changedAgents, found } = await scene();
    const gone = open(dial(agent), 'AgentEcho');
    const stays = open(dial(otherAgent), 'AgentEcho');
    await Promise.all([gone.say('one'), stays.say('one')]);
    forgotten.add('crane');
    found.length = 0;
    for (const listener of changedAgents) listener(['crane', 'unknown']);
    assert.equal((await gone.ended).status, '7');
    assert.deepEqual(found, ['crane']);
    assert.equal(await stays.say('two'), 'hoist two');
  });

  test('ends for every agent that is no longer trusted after a change that concerns all', async () => {
    const { dial, forgotten, changedAgents } = await scene();
    const streams = [open(dial(agent), 'AgentEcho'), open(dial(otherAgent), 'AgentEcho')];
    await Promise.all(streams.map(({ say }) => say('one')));
    for (const name of ['crane', 'hoist']) forgotten.add(name);
    for (const listener of changedAgents) listener(undefined);
    for (const { ended } of streams) assert.equal((await ended).status, '7');
  });

  test('of an agent ends at once where its authority is revoked', async () => {
    const { dial, bundles, changedAgents } = await scene();
    const { say, ended } = open(dial(agent), 'AgentEcho');
    await say('one');
    bundles.set('lubeck.example', forgeRoot('lubeck.example'));
    for (const listener of changedAgents) listener(undefined);
    assert.equal((await ended).status, '7');
  });

  test('of an agent with a grace continues after its authority was revoked, and says so', async () => {
    const { dial, bundles, changedAgents, clock } = await scene();
    const session = dial(agent);
    const { say, ended } = open(session, 'AgentGrace');
    assert.equal(await say('x'), 'crane false');
    bundles.set('lubeck.example', forgeRoot('lubeck.example'));
    for (const listener of changedAgents) listener(undefined);
    assert.equal(await say('x'), 'crane true');
    // A new one gets no grace, also on the same connection.
    assert.equal((await open(session, 'AgentGrace').ended).status, '7');
    await clock.advance(9_999);
    assert.equal(await say('x'), 'crane true');
    await clock.advance(1);
    assert.equal((await ended).status, '7');
  });

  test('of an agent has no grace where the agent is forgotten, or its SVID expires', async () => {
    for (const end of ['forget', 'expire'] as const) {
      const { dial, bundles, changedAgents, clock, forgotten } = await scene();
      const { say, ended } = open(dial(agent), 'AgentGrace');
      await say('x');
      if (end === 'expire') clock.jumpWall(agent.certificate.notAfterMs - clock.now() - 5000);
      bundles.set('lubeck.example', forgeRoot('lubeck.example'));
      for (const listener of changedAgents) listener(undefined);
      assert.equal(await say('x'), 'crane true');
      if (end === 'expire') {
        clock.jumpWall(6000);
        for (const listener of changedAgents) listener(undefined);
      } else {
        forgotten.add('crane');
        for (const listener of changedAgents) listener(['crane']);
      }
      assert.equal((await ended).status, '7', end);
    }
  });

  test('of an agent counts against the limit of long streams, with a few places for one agent', async () => {
    const { dial } = await scene();
    const session = dial(agent);
    const own = Array.from({ length: 4 }, () => open(session, 'AgentEcho'));
    await Promise.all(own.map(({ say }) => say('x')));
    assert.equal((await open(dial(agent), 'AgentEcho').ended).status, '8');
    // 6 of all agents together; peers have places of their own.
    const others = Array.from({ length: 2 }, () => open(dial(otherAgent), 'AgentEcho'));
    await Promise.all(others.map(({ say }) => say('x')));
    assert.equal((await open(dial(otherAgent), 'AgentEcho').ended).status, '8');
    assert.equal(await open(dial(peer), 'Peer').say('x'), 'bruges.example x');
  });

  test('gets no message through after its trust is gone, also before the change is told', async () => {
    const { dial, bundles } = await scene();
    const { say, stream, ended } = open(dial(peer), 'Peer');
    await say('one');
    bundles.remove('bruges.example');
    stream.write(encodeFrame(Buffer.from('two')));
    assert.equal((await ended).status, '7');
  });

  test('counts against its own share: of one identity, in total, and against no request', async () => {
    const { dial, limits } = await scene();
    const session = dial(peer);
    const standing = Array.from({ length: 16 }, () => open(session, 'Peer'));
    await Promise.all(standing.map(({ say }) => say('x')));
    assert.equal((await open(dial(peer), 'Peer').ended).status, '8');
    assert.equal(limits.inFlight, 0);
    // 20 of all callers together.
    const others = Array.from({ length: 4 }, () => open(dial(otherPeer), 'Peer'));
    await Promise.all(others.map(({ say }) => say('x')));
    assert.equal((await open(dial(otherPeer), 'Peer').ended).status, '8');
    // Strangers have a share of their own.
    assert.equal(await open(dial(undefined), 'Public').first(), 'a stranger');
    standing[0]?.stream.end();
    assert.equal((await standing[0]?.ended)?.status, '0');
    assert.equal(await open(dial(peer), 'Peer').say('y'), 'bruges.example y');
  });

  test('whose caller does not read holds up no other, and ends', async () => {
    const { dial, clock } = await scene();
    const slow = open(dial(peer), 'Much');
    slow.stream.pause();
    await once(slow.stream, 'response');
    assert.equal(await open(dial(peer), 'Peer').say('hello'), 'bruges.example hello');
    while (!much.isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(minuteMs);
    }
    slow.stream.resume();
    assert.deepEqual(await slow.ended, {
      status: '4',
      message: 'The caller did not read its messages in time.',
    });
  });

  test('ends when the site stops, so that its caller goes elsewhere', async () => {
    const { dial, dispatcher } = await scene();
    const { say, ended } = open(dial(peer), 'Peer');
    await say('one');
    dispatcher.drain();
    assert.equal((await ended).status, '14');
  });
});

test('two methods of one path are refused: one would decide who may call the other', async () => {
  await assert.rejects(scene({ methods: [...rpcs, ...rpcs.slice(0, 1)] }), /the same path/);
});
