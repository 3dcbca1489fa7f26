import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Json } from '../../src/api/object.ts';
import { HansaError, hasCode } from '../../src/core/errors/error.ts';
import type { NetworkFaults } from './network.ts';
import { Simulation } from './simulation.ts';
import type { MessageStream } from './node-transport.ts';

const reliable: Partial<NetworkFaults> = { loss: 0, duplication: 0 };

/** A server that echoes, and a client. */
function pair(faults: Partial<NetworkFaults> = reliable, seed = 'network') {
  const simulation = new Simulation(seed, faults);
  const handled: string[] = [];
  const server = simulation.node('server', ({ transport }) =>
    transport.serve({
      request: async (from, path, body) => {
        handled.push(`${from} ${path}`);
        if (path === 'fail') throw new HansaError('HANSA_CONFLICT', 'changed');
        return body;
      },
      stream: (_from, _path, stream) => {
        void (async () => {
          for (;;) {
            const message = await stream.receive().catch(() => undefined);
            if (message === undefined) break;
            stream.send(message);
          }
          stream.close();
        })();
      },
    }),
  );
  const client = simulation.node('client', () => undefined);
  const request = (path: string, body: Json = null): { result?: Json; error?: unknown } => {
    const answer: { result?: Json; error?: unknown } = {};
    client.process?.transport.request('server', path, body).then(
      (result) => {
        answer.result = result;
        return undefined;
      },
      (error: unknown) => {
        answer.error = error;
      },
    );
    return answer;
  };
  return { simulation, server, client, handled, request };
}

describe('the simulated network', () => {
  test('answers a request after a delay, with a copy of the body', async () => {
    const { simulation, request } = pair();
    const body = { a: [1] };
    const answer = request('echo', body);
    assert.equal(answer.result, undefined);
    await simulation.run(100);
    assert.deepEqual(answer.result, body);
    assert.notEqual(answer.result, body);
  });

  test('carries the code of an error', async () => {
    const { simulation, request } = pair();
    const answer = request('fail');
    await simulation.run(100);
    assert.ok(hasCode(answer.error, 'HANSA_CONFLICT'));
  });

  test('loses messages, so that the caller cannot know what happened', async () => {
    const { simulation, request, handled } = pair({ loss: 0.3, duplication: 0 });
    const answers = Array.from({ length: 100 }, () => request('echo', 1));
    await simulation.run(2000);
    const lost = answers.filter(({ error }) => hasCode(error, 'HANSA_UNREACHABLE')).length;
    assert.ok(lost > 25 && lost < 75, String(lost));
    assert.ok(handled.length > 100 - lost, 'some were handled without an answer');
  });

  test('doubles messages', async () => {
    const { simulation, request, handled } = pair({ loss: 0, duplication: 0.5 });
    const answer = Array.from({ length: 40 }, () => request('echo', 1));
    await simulation.run(200);
    assert.ok(handled.length > 45);
    assert.ok(answer.every(({ result }) => result === 1));
  });

  test('lets messages overtake one another', async () => {
    const { simulation, request, handled } = pair();
    for (let i = 0; i < 20; i++) request(String(i));
    await simulation.run(200);
    assert.notDeepEqual(
      handled,
      Array.from({ length: 20 }, (_, i) => `client ${i}`),
    );
    assert.equal(handled.length, 20);
  });

  test('does not cross a partition until it heals', async () => {
    const { simulation, request } = pair();
    simulation.network.partition(['client'], ['server']);
    const during = request('echo', 1);
    await simulation.run(1500);
    assert.ok(hasCode(during.error, 'HANSA_UNREACHABLE'));
    simulation.network.heal();
    const after = request('echo', 2);
    await simulation.run(100);
    assert.equal(after.result, 2);
  });

  test('is carried out and not answered while the way back is cut', async () => {
    const { simulation, handled, request } = pair();
    simulation.network.cut('server', 'client');
    const answer = request('echo');
    await simulation.run(2000);
    assert.deepEqual(handled, ['client echo']);
    assert.ok(hasCode(answer.error, 'HANSA_UNREACHABLE'));
    simulation.network.cut('client', 'server');
    request('echo');
    await simulation.run(2000);
    assert.equal(handled.length, 1);
    simulation.network.heal();
    request('echo');
    await simulation.run(2000);
    assert.equal(handled.length, 2);
  });

  test('does not reach a node that crashed, and reaches its next life', async () => {
    const { simulation, request, server } = pair();
    server.crash();
    const during = request('echo', 1);
    await simulation.run(1500);
    assert.ok(hasCode(during.error, 'HANSA_UNREACHABLE'));
    server.start();
    const after = request('echo', 2);
    await simulation.run(100);
    assert.equal(after.result, 2);
  });

  test('tells a client that crashed nothing', async () => {
    const { simulation, request, client } = pair();
    const answer = request('echo', 1);
    client.crash();
    client.start();
    await simulation.run(2000);
    assert.deepEqual(answer, {});
  });

  test('makes a paused node answer when it goes on', async () => {
    const { simulation, request, server } = pair();
    server.pause(500);
    const answer = request('echo', 1);
    await simulation.run(400);
    assert.deepEqual(answer, {});
    await simulation.run(300);
    assert.equal(answer.result, 1);
  });
});

describe('a stream of the simulated network', () => {
  async function streamOf(parts: ReturnType<typeof pair>): Promise<MessageStream> {
    let opened: MessageStream | undefined;
    void parts.client.process?.transport.open('server', 'echo').then((stream) => {
      opened = stream;
      return undefined;
    });
    await parts.simulation.run(200);
    assert.ok(opened !== undefined);
    return opened;
  }

  test('keeps the order, whatever the delays, and ends when it is closed', async () => {
    const parts = pair();
    const stream = await streamOf(parts);
    for (let i = 0; i < 20; i++) stream.send(i);
    stream.close();
    const seen: (Json | undefined)[] = [];
    for (let i = 0; i <= 20; i++) {
      void stream.receive().then((message) => seen.push(message));
    }
    await parts.simulation.run(500);
    assert.deepEqual(seen, [...Array.from({ length: 20 }, (_, i) => i), undefined]);
  });

  for (const [fault, act] of [
    ['the peer crashes', (parts: ReturnType<typeof pair>) => parts.server.crash()],
    [
      'a partition lasts',
      (parts: ReturnType<typeof pair>) =>
        parts.simulation.network.partition(['client'], ['server']),
    ],
  ] as const) {
    test(`breaks when ${fault}`, async () => {
      const parts = pair();
      const stream = await streamOf(parts);
      act(parts);
      stream.send('anyone?');
      let broken: unknown;
      stream.receive().catch((error: unknown) => {
        broken = error;
      });
      await parts.simulation.run(5000);
      assert.ok(hasCode(broken, 'HANSA_UNREACHABLE'));
    });
  }

  test('cannot be opened to a node that is away', async () => {
    const parts = pair();
    parts.server.crash();
    let failed: unknown;
    parts.client.process?.transport.open('server', 'echo').catch((error: unknown) => {
      failed = error;
    });
    await parts.simulation.run(2000);
    assert.ok(hasCode(failed, 'HANSA_UNREACHABLE'));
  });
});
