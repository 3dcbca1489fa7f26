import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { suite, test } from 'node:test';
import { systemClock } from '../../clock/system.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import { dial, isLate } from './dial.ts';

const near = '192.0.2.1';
const far = '2001:db8::1';

class FakeSocket extends EventEmitter {
  isDestroyed = false;
  destroy(): void {
    this.isDestroyed = true;
  }
}

function scene(addresses: readonly string[] | Promise<readonly string[]>) {
  const clock = new VirtualClock();
  const sockets = new Map<string, FakeSocket>();
  const call = (options: Partial<Parameters<typeof dial>[0]> = {}) => {
    const parts = {
      lookUp: async () => addresses,
      open: (address: string) => {
        const socket = new FakeSocket();
        sockets.set(address, socket);
        return socket as unknown as Socket;
      },
    };
    const whole = { host: 'bruges.example', port: 8443, clock, timeoutMs: 5000, ...options };
    const outcome: { socket?: unknown; error?: unknown } = {};
    const done = dial(whole, parts).then(
      (socket) => Object.assign(outcome, { socket }),
      (error: unknown) => Object.assign(outcome, { error }),
    );
    return { outcome, done };
  };
  const fail = (address: string, code: string) =>
    sockets.get(address)?.emit('error', Object.assign(new Error(code), { code }));
  const tried = () => [...sockets.keys()];
  return { clock, sockets, call, fail, tried };
}

suite('a connection to a name with several addresses', () => {
  test('is made to one that takes longer than the next one waits', async () => {
    const { clock, sockets, call, tried } = scene([far, near]);
    const { outcome, done } = call();
    await clock.advance(0);
    assert.deepEqual(tried(), [far]);
    await clock.advance(250);
    assert.deepEqual(tried(), [far, near]);
    await clock.advance(2000);
    // Both go on: the first was not given up for the second.
    assert.deepEqual(
      [sockets.get(far)?.isDestroyed, sockets.get(near)?.isDestroyed],
      [false, false],
    );
    sockets.get(far)?.emit('connect');
    await done;
    assert.equal(outcome.socket, sockets.get(far));
    assert.equal(sockets.get(near)?.isDestroyed, true);
    assert.equal(sockets.get(far)?.isDestroyed, false);
  });

  test('tries the next one at once where one fails', async () => {
    const { clock, sockets, call, fail, tried } = scene([far, near]);
    const { outcome, done } = call();
    await clock.advance(0);
    fail(far, 'ENETUNREACH');
    assert.deepEqual(tried(), [far, near]);
    sockets.get(near)?.emit('connect');
    await done;
    assert.equal(outcome.socket, sockets.get(near));
  });

  test('fails with what says most about the site', async () => {
    const { clock, call, fail } = scene([far, near]);
    const { outcome, done } = call();
    await clock.advance(250);
    fail(near, 'ECONNREFUSED');
    fail(far, 'ENETUNREACH');
    await done;
    assert.equal((outcome.error as NodeJS.ErrnoException).code, 'ECONNREFUSED');
  });

  test('ends in time, and leaves no attempt behind', async () => {
    const { clock, sockets, call } = scene([far, near]);
    const { outcome, done } = call({ timeoutMs: 1000 });
    await clock.advance(1000);
    await done;
    assert.ok(isLate(outcome.error));
    assert.ok([...sockets.values()].every(({ isDestroyed }) => isDestroyed));
    // What a dead socket still says breaks nothing.
    sockets.get(far)?.emit('error', new Error('late'));
  });

  test('ends with its signal, also during the lookup', async () => {
    const { clock, sockets, call } = scene(new Promise(() => undefined));
    const stop = new AbortController();
    const { outcome, done } = call({ signal: stop.signal });
    await clock.advance(0);
    stop.abort(new Error('stopped'));
    await done;
    assert.match(String(outcome.error), /stopped/);
    assert.equal(sockets.size, 0);
    const gone = call({ signal: stop.signal });
    await gone.done;
    assert.match(String(gone.outcome.error), /stopped/);
  });

  test('goes to none of them where one may not be called', async () => {
    const { sockets, call } = scene([near, '127.0.0.1']);
    const { outcome, done } = call({
      checkAddress: (address) => {
        if (address === '127.0.0.1') throw new Error('not allowed');
      },
    });
    await done;
    assert.match(String(outcome.error), /not allowed/);
    assert.equal(sockets.size, 0);
  });

  test('tries no more than sixteen', async () => {
    const many = Array.from({ length: 100 }, (_, at) => `192.0.2.${at}`);
    const { clock, sockets, call } = scene(many);
    const { done } = call({ timeoutMs: 60_000 });
    await clock.advance(60_000);
    await done;
    assert.equal(sockets.size, 16);
  });
});

suite('a connection to an address', () => {
  test('needs no lookup', async () => {
    const { clock, call, tried } = scene(new Promise(() => undefined));
    const { done } = call({ host: '::1' });
    await clock.advance(5000);
    await done;
    assert.deepEqual(tried(), ['::1']);
  });

  test('is made by name and by number to a server of this machine', async (t) => {
    const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    for (const host of ['127.0.0.1', 'localhost']) {
      const socket = await dial({ host, port, clock: systemClock, timeoutMs: 10_000 });
      assert.equal(socket.remoteAddress, '127.0.0.1');
      socket.destroy();
    }
  });
});
