import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  type Conversation,
  encodeTranscript,
  joinTranscript,
  renewTranscript,
  type TranscriptField,
} from './transcript.ts';

const conversation: Conversation = {
  method: '/hansa.join.v1.JoinService/RegisterUsingSPIFFEMethod',
  trustDomain: 'lubeck.example',
  publicKey: Buffer.from('key'),
  credential: Buffer.alloc(32, 1),
  clientNonce: Buffer.alloc(32, 2),
  serverNonce: Buffer.alloc(32, 3),
  exporter: Buffer.alloc(32, 4),
};
const wish = { token: 'ci', role: 'agent', name: 'crane-1' };

suite('a transcript', () => {
  test('has the bytes of the documentation', () => {
    const part = (text: string): string => `${String.fromCharCode(0, 0, 0, text.length)}${text}`;
    const expected = [
      ' '.repeat(64),
      'hansa join v1\0',
      part('method'),
      part(conversation.method),
      part('trust-domain'),
      part('lubeck.example'),
      part('token'),
      part('ci'),
      part('role'),
      part('agent'),
      part('name'),
      part('crane-1'),
      part('public-key'),
      part('key'),
      part('credential'),
      part('\x01'.repeat(32)),
      part('client-nonce'),
      part('\x02'.repeat(32)),
      part('server-nonce'),
      part('\x03'.repeat(32)),
      part('tls-exporter'),
      part('\x04'.repeat(32)),
    ].join('');
    assert.equal(joinTranscript(wish, conversation).toString('latin1'), expected);
  });

  test('is another one for every other field', () => {
    const changed: Buffer[] = [
      joinTranscript({ ...wish, token: 'cj' }, conversation),
      joinTranscript({ ...wish, role: 'bot' }, conversation),
      joinTranscript({ ...wish, name: 'crane-2' }, conversation),
      // Bytes that move from one field to the next.
      joinTranscript({ token: 'ciagent', role: '', name: 'crane-1' }, conversation),
      joinTranscript(wish, { ...conversation, method: 'other' }),
      joinTranscript(wish, { ...conversation, trustDomain: 'bruges.example' }),
      ...(['publicKey', 'credential', 'clientNonce', 'serverNonce', 'exporter'] as const).map(
        (field) => joinTranscript(wish, { ...conversation, [field]: Buffer.alloc(32, 9) }),
      ),
      renewTranscript({ instance: 'agent/crane-1', generation: 1n }, conversation),
      renewTranscript({ instance: 'agent/crane-1', generation: 2n }, conversation),
    ];
    const all = [joinTranscript(wish, conversation), ...changed].map((each) =>
      each.toString('hex'),
    );
    assert.equal(new Set(all).size, all.length);
  });

  test('says one thing only: different fields never have the same bytes', () => {
    const fields = fc.array(
      fc.tuple(fc.string({ maxLength: 4 }), fc.uint8Array({ maxLength: 8 })),
      { maxLength: 4 },
    );
    const shown = (list: readonly TranscriptField[]): string =>
      JSON.stringify(list.map(([label, value]) => [label, Buffer.from(value).toString('hex')]));
    fc.assert(
      fc.property(fields, fields, (left, right) => {
        assert.equal(
          encodeTranscript(left).equals(encodeTranscript(right)),
          shown(left) === shown(right),
        );
      }),
    );
  });
});
