// Tests when a connection to an API server may carry the next request.

import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { suite, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';
import { KubeConnection } from './kube-connection.ts';

const response = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');

/** A connection whose socket reports the end of a write only when the test says so. */
function connect() {
  let written: (() => void) | undefined;
  const socket = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => {
      written = () => done();
    },
  });
  const unused = { ref: () => undefined, unref: () => undefined };
  let freed = 0;
  const connection = new KubeConnection(
    Object.assign(socket, unused) as unknown as TLSSocket,
    0,
    () => {
      freed++;
    },
  );
  let ended = 0;
  connection.send(Buffer.from('GET / HTTP/1.1\r\n\r\n'), {
    onHead: () => undefined,
    onData: () => undefined,
    onEnd: () => {
      ended++;
    },
    onBroken: () => assert.fail('it broke'),
  });
  return {
    connection,
    reportWrite: () => written?.(),
    receive: (bytes: Buffer) => socket.emit('data', bytes),
    freed: () => freed,
    ended: () => ended,
  };
}

suite('a connection', () => {
  test('is free after its response', async () => {
    const { connection, reportWrite, receive, freed, ended } = connect();
    reportWrite();
    receive(response);
    assert.equal(ended(), 1);
    await yieldToEventLoop();
    assert.equal(freed(), 1);
    assert.equal(connection.isOpen, true);
  });

  test('is free where the response comes before Node reports the end of the write', async () => {
    const { connection, reportWrite, receive, freed, ended } = connect();
    receive(response);
    assert.equal(ended(), 1);
    assert.equal(freed(), 0);
    reportWrite();
    await yieldToEventLoop();
    assert.equal(freed(), 1);
    assert.equal(connection.isOpen, true);
  });

  test('ends where the server answered and did not read the request', async () => {
    const { connection, receive, freed, ended } = connect();
    receive(response);
    assert.equal(ended(), 1);
    await yieldToEventLoop();
    await yieldToEventLoop();
    assert.equal(freed(), 0);
    assert.equal(connection.isOpen, false);
  });

  test('ends where bytes follow the response before the end of the write', async () => {
    const { connection, reportWrite, receive } = connect();
    receive(response);
    receive(Buffer.from('HTTP/1.1 200 OK\r\n'));
    reportWrite();
    await yieldToEventLoop();
    await yieldToEventLoop();
    assert.equal(connection.isOpen, false);
  });
});
