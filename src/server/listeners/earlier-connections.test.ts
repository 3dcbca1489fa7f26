import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Server } from 'node:net';
import { test } from 'node:test';
import type { SiteCredential } from '../../core/identity/tls/site-credentials.ts';
import type { Request, Response } from '../http/exchange.ts';
import { EarlierConnections } from './earlier-connections.ts';

test('a connection that was opened under an earlier certificate ends after its next response', () => {
  let renew: (credential: SiteCredential) => void = () => undefined;
  const server = new EventEmitter();
  const ending = new EarlierConnections({
    onRenewal: (listener) => {
      renew = listener;
      return () => undefined;
    },
  });
  ending.follow(server as Server);
  const headersOf = (socket: object, httpVersionMajor = 1): string[] => {
    const headers: string[] = [];
    const response = { setHeader: (name: string, value: string) => headers.push(name, value) };
    const request = { socket, httpVersionMajor } as unknown as Request;
    ending.endAfter(request, response as unknown as Response);
    return headers;
  };
  const [before, later] = [{}, {}];
  server.emit('secureConnection', before);
  assert.deepEqual(headersOf(before), []);
  renew({} as SiteCredential);
  server.emit('secureConnection', later);
  assert.deepEqual(headersOf(before), ['connection', 'close']);
  assert.deepEqual(headersOf(before, 2), []);
  assert.deepEqual(headersOf(later), []);
});
