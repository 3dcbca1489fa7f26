import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { isFinal, refusalOf } from './remote-error.ts';
import { peeringError } from '../errors.ts';

function answered(status: number, body: unknown) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return refusalOf('lubeck.example', { status, headers: {}, body: Buffer.from(text) });
}

suite('what another site refuses', () => {
  test('keeps its code, and its words with its name', () => {
    const error = answered(409, { reason: 'InvitationRedeemed', message: 'It was redeemed.' });
    assert.equal(error?.code, 'HANSA_INVITATION_REDEEMED');
    assert.equal(error?.message, 'lubeck.example says: It was redeemed.');
    assert.equal(answered(200, ''), undefined);
    assert.equal(answered(204, ''), undefined);
  });

  test('is a site that cannot answer where the code is not one that it may give', () => {
    for (const body of ['<html>', '', 'null', '[]', { reason: 'NotFound', message: 'x' }]) {
      assert.equal(answered(500, body)?.code, 'HANSA_PEER_UNREACHABLE');
    }
    assert.match(answered(502, '')?.message ?? '', /HTTP status 502 and no explanation/);
  });

  test('is a site that cannot answer where its reason is a name that every object has', () => {
    for (const reason of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
      const error = answered(403, { reason, message: 'x' });
      assert.equal(error?.code, 'HANSA_PEER_UNREACHABLE', reason);
    }
  });

  test('is not read where it is nested deeply', () => {
    const deep = `${'['.repeat(600)}${']'.repeat(600)}`;
    const error = answered(403, `{"reason":"PeerRefused","message":"x","details":${deep}}`);
    assert.equal(error?.code, 'HANSA_PEER_UNREACHABLE');
  });

  test('cannot steer a terminal, nor fill a page', () => {
    const message = `\u001b[2J\n${'x'.repeat(5000)}`;
    const shown = answered(403, { reason: 'PeerRefused', message })?.message ?? '';
    // oxlint-disable-next-line no-control-regex -- none may be left
    assert.doesNotMatch(shown, /[\u0000-\u001f]/);
    assert.match(shown, /^lubeck\.example says: \\u001b\[2J\\nx+…$/);
    assert.ok(shown.length <= 550);
  });

  test('ends a handshake only where it is about the invitation', () => {
    assert.ok(isFinal(peeringError('HANSA_INVITATION_REFUSED', '')));
    assert.ok(!isFinal(peeringError('HANSA_PEER_UNREACHABLE', '')));
    assert.ok(!isFinal(new HansaError('HANSA_PEER_UNTRUSTED', '')));
    assert.ok(!isFinal(new Error('other')));
  });
});
