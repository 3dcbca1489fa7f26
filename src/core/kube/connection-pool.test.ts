import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { suite, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { settle, VirtualClock } from '../clock/virtual.ts';
import { hasCode } from '../errors/error.ts';
import { ConnectionPool, type Waiter } from './connection-pool.ts';
import type { KubeConnection } from './kube-connection.ts';

/** A socket that stays open until it is destroyed. */
class FakeSocket extends Duplex {
  ref(): void {}
  unref(): void {}
  override _read(): void {}
  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    done();
  }
}

function scene({ maxConnections = 2, maxWaiting = 10 } = {}) {
  const clock = new VirtualClock();
  const sockets: FakeSocket[] = [];
  const attempts: { done: () => void; fail: (error: Error) => void }[] = [];
  const pool = new ConnectionPool({
    where: 'app1.example:6443',
    open: () =>
      new Promise((resolve, reject) => {
        attempts.push({
          done: () => {
            const socket = new FakeSocket();
            sockets.push(socket);
            resolve(socket as unknown as TLSSocket);
          },
          fail: reject,
        });
      }),
    clock,
    maxConnections,
    maxWaiting,
  });
  const ask = (fresh = false) => {
    const asked: { connection?: KubeConnection; error?: unknown; waiter: Waiter } = {
      waiter: {
        onConnection: (connection) => {
          asked.connection = connection;
        },
        onFailure: (error) => {
          asked.error = error;
        },
      },
    };
    pool.take(asked.waiter, fresh);
    return asked;
  };
  /** Opens a connection that nothing waits for any more, so it is idle. */
  const openIdle = async (): Promise<void> => {
    const asked = ask(true);
    pool.leave(asked.waiter);
    attempts.at(-1)?.done();
    await settle();
  };
  return { clock, sockets, attempts, pool, ask, openIdle };
}

suite('a pool of connections', () => {
  test('opens one connection for each waiter, up to its limit', async () => {
    const { attempts, ask } = scene();
    const asked = [ask(), ask(), ask()];
    assert.equal(attempts.length, 2);
    attempts[0]?.done();
    attempts[1]?.done();
    await settle();
    assert.deepEqual(
      asked.map(({ connection }) => connection !== undefined),
      [true, true, false],
    );
  });

  test('opens another when one broke while others wait', async () => {
    const { attempts, sockets, ask } = scene({ maxConnections: 1 });
    ask();
    const second = ask();
    attempts[0]?.done();
    await settle();
    sockets[0]?.destroy();
    await settle();
    assert.equal(attempts.length, 2);
    attempts[1]?.done();
    await settle();
    assert.ok(second.connection);
  });

  test('fails one waiter for a failed attempt while another attempt can succeed', async () => {
    const { attempts, ask } = scene();
    const [first, second] = [ask(), ask()];
    const error = new Error('refused');
    attempts[0]?.fail(error);
    await settle();
    assert.equal(first.error, error);
    assert.equal(second.error, undefined);
    attempts[1]?.done();
    await settle();
    assert.ok(second.connection);
  });

  test('fails all waiters where no connection and no attempt is left', async () => {
    const { attempts, ask } = scene({ maxConnections: 1 });
    const asked = [ask(), ask(), ask()];
    attempts[0]?.fail(new Error('refused'));
    await settle();
    assert.ok(asked.every(({ error }) => error !== undefined));
    assert.equal(attempts.length, 1);
  });

  test('refuses a waiter more than its queue holds, and forgets one that left', () => {
    const { pool, ask } = scene({ maxConnections: 1, maxWaiting: 2 });
    const [first] = [ask(), ask()];
    assert.ok(hasCode(ask().error, 'HANSA_UNAVAILABLE'));
    pool.leave(first.waiter);
    assert.equal(ask().error, undefined);
  });

  test('hands out the connection that was used last', async () => {
    const { sockets, ask, openIdle } = scene();
    await openIdle();
    await openIdle();
    assert.equal(ask().connection?.socket, sockets[1]);
    assert.equal(ask().connection?.socket, sockets[0]);
  });

  test('hands out no connection that broke or got bytes while it was idle', async () => {
    const { sockets, attempts, ask, openIdle } = scene();
    await openIdle();
    await openIdle();
    (sockets[0] as FakeSocket).destroy();
    sockets[1]?.push('unasked');
    await settle();
    assert.equal(ask().connection, undefined);
    assert.ok(sockets[1]?.destroyed);
    await settle();
    assert.equal(attempts.length, 3);
  });

  test('opens a new one for a waiter that found an idle one broken', async () => {
    const { attempts, ask, openIdle } = scene();
    await openIdle();
    assert.equal(ask(true).connection, undefined);
    assert.equal(attempts.length, 2);
  });

  test('closes each connection after a minute without use', async () => {
    const { clock, sockets, openIdle } = scene();
    await openIdle();
    await clock.advance(30_000);
    await openIdle();
    await clock.advance(30_000);
    assert.deepEqual(
      sockets.map(({ destroyed }) => destroyed),
      [true, false],
    );
    await clock.advance(30_000);
    assert.ok(sockets[1]?.destroyed);
    assert.equal(clock.nextDueMs(), undefined);
  });

  test('keeps nothing when it is closed', async () => {
    const { clock, sockets, pool, openIdle } = scene();
    await openIdle();
    pool.close();
    assert.ok(sockets[0]?.destroyed);
    await settle();
    await openIdle();
    assert.ok(sockets[1]?.destroyed);
    assert.equal(clock.nextDueMs(), undefined);
  });
});
