// Tests of one stream: pings, signing requests, and messages that break the protocol or a limit.

import { create } from '@bufbuild/protobuf';
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  type SignRequest,
  type SignResponse,
  SignResponseSchema,
  X509ResultSchema,
} from '../../../proto/gen/agent_pb.ts';
import { HansaError } from '../errors/error.ts';
import type { SignForAgent } from './agent-signer.ts';
import {
  agentExporterBytes,
  agentExporterLabel,
  connectBurst,
  maxLaterMessageBytes,
  maxSignBatch,
  maxUnansweredSignRequests,
  messageBurst,
} from './limits.ts';
import { quiet, TestAgent } from './test-agent.ts';
import { put, testReplica, type TestReplica } from './test-channel.ts';

async function connected(replica: TestReplica) {
  const agent = new TestAgent();
  const ended = replica.serve(agent);
  agent.hello();
  await quiet();
  return { agent, ended };
}

const ask = (agent: TestAgent, id: number, entries = 1): void =>
  agent.say({
    case: 'sign',
    value: { id: BigInt(id), x509: Array.from({ length: entries }, () => ({ entry: 'uid' })) },
  });

/** Answers when the test says so. */
function slowSigner() {
  const asked: { request: SignRequest; answer: () => void; fail: (error: Error) => void }[] = [];
  const sign: SignForAgent = (_agent, request) =>
    new Promise<SignResponse>((resolve, reject) => {
      const x509 = request.x509.map(() => create(X509ResultSchema, { authority: 'a' }));
      asked.push({
        request,
        answer: () => resolve(create(SignResponseSchema, { id: request.id, x509 })),
        fail: reject,
      });
    });
  return { asked, sign };
}

suite('a message that breaks the protocol ends the stream', () => {
  const version = { incarnation: 'i', revision: 1n, epoch: 1n, hash: Buffer.alloc(32) };
  for (const [what, message] of [
    ['an acknowledgement', { case: 'acknowledge', value: { version } }],
    ['a ping', { case: 'ping', value: {} }],
    ['a report', { case: 'report', value: {} }],
    ['a signing request', { case: 'sign', value: {} }],
  ] as const) {
    test(`${what} before the hello`, async () => {
      const replica = await testReplica();
      const agent = new TestAgent();
      const ended = replica.serve(agent);
      agent.say(message);
      const { code, message: text } = await ended;
      assert.equal(code, 'HANSA_BAD_REQUEST');
      assert.match(text, /first message is not a hello/);
    });
  }

  test('the end of the stream before the hello', async () => {
    const replica = await testReplica();
    const agent = new TestAgent();
    const ended = replica.serve(agent);
    agent.close();
    assert.equal((await ended).code, 'HANSA_BAD_REQUEST');
  });

  for (const [what, say] of [
    ['a second hello', (agent) => agent.hello()],
    ['a pong without a ping', (agent) => agent.say({ case: 'pong', value: {} })],
    [
      'an acknowledgement without a state',
      (agent) => agent.say({ case: 'acknowledge', value: { version } }),
    ],
    [
      'an acknowledgement without a version',
      (agent) => agent.say({ case: 'acknowledge', value: {} }),
    ],
    ['bytes that are no message', (agent) => agent.sayBytes(Buffer.from([0xff, 0xff, 0xff]))],
    [
      'a nonce that is too long',
      (agent) => agent.say({ case: 'ping', value: { nonce: Buffer.alloc(65) } }),
    ],
    [
      'a report with thousands of problems',
      (agent) =>
        agent.say({ case: 'report', value: { problems: Array.from({ length: 5000 }, () => '') } }),
    ],
  ] as readonly (readonly [string, (agent: TestAgent) => void])[]) {
    test(what, async () => {
      const replica = await testReplica();
      const { agent, ended } = await connected(replica);
      say(agent);
      const { code, message } = await ended;
      assert.equal(code, 'HANSA_BAD_REQUEST');
      assert.match(message, /^The agent broke the protocol: /);
      const [denial] = replica.audit.denials;
      assert.equal(denial?.name, 'crane');
      assert.equal(denial.reason, message);
    });
  }

  test('an acknowledgement of another state', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    agent.acknowledges = false;
    await put(replica.store, 'crane', 'a', '1');
    await quiet();
    agent.acknowledge(agent.states[0]?.version);
    assert.equal((await ended).code, 'HANSA_BAD_REQUEST');
  });

  test('an acknowledgement before the last message of a state', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    agent.pause();
    const value = 'x'.repeat(600 * 1024);
    for (const name of ['a', 'b']) await put(replica.store, 'crane', name, value);
    await quiet();
    const state = agent.states.at(-1);
    assert.equal(state?.more, true);
    agent.acknowledge(state?.version);
    assert.equal((await ended).code, 'HANSA_BAD_REQUEST');
  });
});

suite('a message that exceeds a limit ends the stream', () => {
  test('a large one after the hello', async () => {
    const { agent, ended } = await connected(await testReplica());
    const publicKey = Buffer.alloc(maxLaterMessageBytes);
    agent.say({ case: 'sign', value: { x509: [{ publicKey }] } });
    assert.equal((await ended).code, 'HANSA_TOO_LARGE');
  });

  test('a batch that is too large', async () => {
    const { agent, ended } = await connected(await testReplica());
    ask(agent, 1, maxSignBatch + 1);
    assert.match((await ended).code, /HANSA_(?:TOO_LARGE|BAD_REQUEST)/);
  });

  test('a flood of messages', async () => {
    const { agent, ended } = await connected(await testReplica());
    for (let at = 0; at <= messageBurst; at++) agent.say({ case: 'ping', value: {} });
    assert.equal((await ended).code, 'HANSA_TOO_MANY_REQUESTS');
  });

  test('a flood of messages, before the one that is too many is decoded', async () => {
    const { agent, ended } = await connected(await testReplica());
    for (let at = 0; at < messageBurst; at++) agent.say({ case: 'ping', value: {} });
    const broken = Buffer.from([(3 << 3) | 2, 0x7f]);
    agent.sayBytes(broken);
    assert.equal((await ended).code, 'HANSA_TOO_MANY_REQUESTS');
  });

  test('a large second hello, before it is decoded', async () => {
    const { agent, ended } = await connected(await testReplica());
    agent.sayBytes(Buffer.alloc(maxLaterMessageBytes * 2, (1 << 3) | 2));
    assert.match((await ended).message, /a second hello/);
  });

  test('a flood of streams', async () => {
    const replica = await testReplica();
    const ends = async (): Promise<string> => {
      const agent = new TestAgent();
      const ended = replica.serve(agent);
      agent.hello();
      agent.close();
      return (await ended).code;
    };
    for (let at = 0; at < connectBurst; at++) assert.equal(await ends(), 'OK');
    assert.equal(await ends(), 'HANSA_TOO_MANY_REQUESTS');
    await replica.clock.advance(1000);
    assert.equal(await ends(), 'OK');
  });

  test('a flood of messages that the site does not know', async () => {
    const { agent, ended } = await connected(await testReplica());
    for (let at = 0; at <= messageBurst; at++) agent.sayBytes(Buffer.from([0x7a, 0x00]));
    assert.equal((await ended).code, 'HANSA_TOO_MANY_REQUESTS');
  });

  test('a message that only newer sites know is ignored', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    agent.sayBytes(Buffer.from([0x7a, 0x00]));
    await put(replica.store, 'crane', 'a', '1');
    await quiet();
    assert.deepEqual(agent.memory.names, ['a']);
  });

  test('many messages over a long time are no flood', async () => {
    const { clock, ...replica } = await testReplica();
    const { agent } = await connected({ clock, ...replica });
    for (let second = 0; second < 20; second++) {
      for (let at = 0; at < 50; at++) agent.say({ case: 'ping', value: {} });
      await clock.advance(1000);
    }
    await put(replica.store, 'crane', 'a', '1');
    await quiet();
    assert.deepEqual(agent.memory.names, ['a']);
  });

  test('too many unanswered signing requests', async () => {
    const { sign } = slowSigner();
    const { agent, ended } = await connected(await testReplica({ sign }));
    for (let at = 0; at <= maxUnansweredSignRequests; at++) ask(agent, at);
    assert.equal((await ended).code, 'HANSA_TOO_MANY_REQUESTS');
  });

  test('answers that the agent does not read count as unanswered', async () => {
    const { asked, sign } = slowSigner();
    const { agent, ended } = await connected(await testReplica({ sign }));
    agent.pause();
    for (let at = 0; at < maxUnansweredSignRequests; at++) ask(agent, at);
    await quiet();
    for (const { answer } of asked) answer();
    await quiet();
    ask(agent, 100);
    assert.equal((await ended).code, 'HANSA_TOO_MANY_REQUESTS');
  });
});

suite('pings', () => {
  test('of the agent are answered with their nonce', async () => {
    const { agent } = await connected(await testReplica());
    agent.say({ case: 'ping', value: { nonce: Buffer.from('one') } });
    await quiet();
    assert.deepEqual(agent.pongs, [Buffer.from('one')]);
  });

  test('keep a silent agent connected', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    await replica.clock.advance(3_600_000);
    await put(replica.store, 'crane', 'a', '1');
    await quiet();
    assert.deepEqual(agent.memory.names, ['a']);
  });

  test('that stay unanswered end the stream', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    agent.answersPings = false;
    await replica.clock.advance(30_001);
    assert.deepEqual(await ended, {
      code: 'HANSA_TIMEOUT',
      message: 'The agent did not answer a ping within 10 seconds.',
    });
    assert.deepEqual(replica.reports, ['lost']);
  });

  test('are not sent while the agent speaks', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    agent.answersPings = false;
    for (let at = 0; at < 20; at++) {
      await replica.clock.advance(15_000);
      agent.say({ case: 'report', value: {} });
      await quiet();
    }
    assert.equal(replica.reports.length, 20);
  });

  test('keep an agent connected that receives a large state slowly', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    agent.pause();
    for (const name of ['a', 'b', 'c']) {
      await put(replica.store, 'crane', name, 'x'.repeat(600 * 1024));
    }
    for (let at = 0; at < 3; at++) {
      await replica.clock.advance(34_000);
      agent.resume();
      agent.pause();
      await quiet();
    }
    agent.resume();
    await quiet();
    assert.deepEqual(agent.memory.names, ['a', 'b', 'c']);
    agent.close();
    assert.equal((await ended).code, 'OK');
  });

  test('do not stand in for acknowledgements', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    agent.acknowledges = false;
    await put(replica.store, 'crane', 'a', '1');
    await replica.clock.advance(31_000);
    assert.deepEqual(await ended, {
      code: 'HANSA_TIMEOUT',
      message: 'The agent did not acknowledge a state within 30 seconds.',
    });
  });
});

suite('signing requests', () => {
  test('are signed for the agent of the stream, with the exporter of its connection', async () => {
    const seen: unknown[] = [];
    const sign: SignForAgent = async (agent, { id }, exporter) => {
      seen.push(agent, exporter);
      return create(SignResponseSchema, { id });
    };
    const { agent } = await connected(await testReplica({ sign }));
    ask(agent, 7);
    await quiet();
    assert.deepEqual(seen, [
      { name: 'crane', address: '192.0.2.1', serialHex: '0a' },
      Buffer.alloc(agentExporterBytes, agentExporterLabel),
    ]);
    assert.equal(agent.responses[0]?.id, 7n);
  });

  test('may be answered in any order, and delay no state and no pong', async () => {
    const { asked, sign } = slowSigner();
    const replica = await testReplica({ sign });
    const { agent } = await connected(replica);
    ask(agent, 1);
    ask(agent, 2);
    agent.say({ case: 'ping', value: { nonce: Buffer.from('x') } });
    await put(replica.store, 'crane', 'a', '1');
    await quiet();
    assert.equal(agent.pongs.length, 1);
    assert.deepEqual(agent.memory.names, ['a']);
    asked[1]?.answer();
    await quiet();
    asked[0]?.answer();
    await quiet();
    assert.deepEqual(
      agent.responses.map(({ id }) => id),
      [2n, 1n],
    );
    assert.match(replica.metrics.expose(), /^hansa_agent_sign_requests_total 2$/m);
  });

  for (const [what, error, code, text] of [
    [
      'a reason',
      new HansaError('HANSA_FORBIDDEN', 'Not yours.'),
      'HANSA_FORBIDDEN',
      /^Not yours\.$/,
    ],
    ['a bug', new Error('a secret'), 'HANSA_INTERNAL', /^(?!.*secret)/],
  ] as const) {
    test(`that fail with ${what} are refused one by one, and the stream goes on`, async () => {
      const { asked, sign } = slowSigner();
      const { agent } = await connected(await testReplica({ sign }));
      ask(agent, 1, 2);
      await quiet();
      asked[0]?.fail(error);
      await quiet();
      const refusals = agent.responses[0]?.x509.map(({ refusal }) => refusal);
      assert.equal(refusals?.length, 2);
      for (const refusal of refusals ?? []) {
        assert.equal(refusal?.code, code);
        assert.match(refusal?.message ?? '', text);
      }
    });
  }

  test('are refused where the authority of the agent is revoked, also while the site signs', async () => {
    const { asked, sign } = slowSigner();
    const { agent } = await connected(await testReplica({ sign }));
    ask(agent, 1);
    await quiet();
    agent.isRevoked = true;
    ask(agent, 2);
    await quiet();
    assert.equal(asked.length, 1);
    asked[0]?.answer();
    await quiet();
    assert.deepEqual(
      agent.responses.map(({ x509 }) => [x509[0]?.authority, x509[0]?.refusal?.code]),
      [
        ['', 'HANSA_FORBIDDEN'],
        ['', 'HANSA_FORBIDDEN'],
      ],
    );
  });

  test('wait until the stream holds the claim of its session', async () => {
    const claim = Promise.withResolvers<() => void>();
    const { asked, sign } = slowSigner();
    const sessions = () => ({ claim: () => claim.promise });
    const { agent } = await connected(await testReplica({ sign, sessions }));
    ask(agent, 1);
    await quiet();
    assert.equal(asked.length, 0);
    assert.equal(agent.states.length, 0);
    claim.resolve(() => undefined);
    await quiet();
    assert.equal(asked.length, 1);
    assert.equal(agent.states.length, 1);
  });

  test('of a stream that ends during the claim are never signed, and the claim is released', async () => {
    const claim = Promise.withResolvers<() => void>();
    const { asked, sign } = slowSigner();
    let released = 0;
    const sessions = () => ({ claim: () => claim.promise });
    const { agent, ended } = await connected(await testReplica({ sign, sessions }));
    ask(agent, 1);
    await quiet();
    agent.abort();
    await ended;
    claim.resolve(() => released++);
    await quiet();
    assert.equal(asked.length, 0);
    assert.equal(released, 1);
  });
});

suite('a stream that has ended', () => {
  test('writes nothing more: no answer and no state', async () => {
    const { asked, sign } = slowSigner();
    const replica = await testReplica({ sign });
    const { agent, ended } = await connected(replica);
    ask(agent, 1);
    await quiet();
    agent.hello();
    assert.equal((await ended).code, 'HANSA_BAD_REQUEST');
    asked[0]?.answer();
    await put(replica.store, 'crane', 'a', '1');
    await replica.clock.advance(60_000);
    assert.equal(agent.lateWrites, 0);
    assert.equal(agent.responses.length, 0);
  });

  test('signs nothing more', async () => {
    const { asked, sign } = slowSigner();
    const { agent, ended } = await connected(await testReplica({ sign }));
    agent.hello();
    await ended;
    ask(agent, 1);
    await quiet();
    assert.equal(asked.length, 0);
  });

  test('writes nothing more after a slow agent reads again', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    agent.pause();
    for (const name of ['a', 'b', 'c']) {
      await put(replica.store, 'crane', name, 'x'.repeat(600 * 1024));
    }
    await quiet();
    agent.hello();
    assert.equal((await ended).code, 'HANSA_BAD_REQUEST');
    agent.resume();
    await quiet();
    assert.equal(agent.lateWrites, 0);
  });
});

suite('a report', () => {
  test('of a process that does not hold the claim counts for nothing', async () => {
    const sessions = () => ({ claim: () => new Promise<never>(() => undefined) });
    const replica = await testReplica({ sessions });
    const { agent } = await connected(replica);
    agent.say({ case: 'report', value: { workloads: 9 } });
    await quiet();
    assert.deepEqual(replica.reports, []);
  });

  test('is passed on, with long and unprintable texts cut', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    const problems = ['\u001b[2Jred', 'x'.repeat(1000)];
    agent.say({ case: 'report', value: { entries: 3, workloads: 2, problems } });
    await quiet();
    assert.deepEqual(replica.reports, [
      { entries: 3, workloads: 2, problems: [' [2Jred', 'x'.repeat(512)] },
    ]);
  });
});
