import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { systemClock } from '../../core/clock/system.ts';
import { judgePeer, peerCheck } from './peer.ts';

const peer = (state: string, more: object = {}) =>
  ({ name: 'bruges.example', state, role: 'inviter', ...more }) as Parameters<typeof judgePeer>[0];

suite('what doctor says of a peer', () => {
  test('is fine where it is active', () => {
    assert.deepEqual(judgePeer(peer('active', { since: '2026-01-01T00:00:00Z' })), {
      check: 'peer',
      level: 'ok',
      text: 'active since 2026-01-01T00:00:00Z',
    });
  });

  test('names the reason of every other state, and what to do', () => {
    const found = judgePeer(peer('suspended', { reason: 'an operator asked for it' }));
    assert.equal(found.level, 'warning');
    assert.equal(found.text, 'suspended: an operator asked for it');
    assert.equal(found.remedy, 'To trust it again: hansa peer resume bruges.example.');
  });

  test('does not advise to run the same command again', () => {
    const found = judgePeer(peer('degraded', { cause: 'Unreachable', reason: 'no answer' }));
    assert.equal(found.remedy, undefined);
  });

  test('is nothing where the site has no such peer', async () => {
    const client = {
      request: async () => ({ status: 200, body: { peers: [peer('active')] } }),
    } as unknown as SiteClient;
    const visit = { client, clock: systemClock };
    assert.equal(await peerCheck.run(visit, 'reval.example'), undefined);
    assert.equal((await peerCheck.run(visit, 'bruges.example'))?.length, 1);
  });
});
