// Fuzz targets for this site's own gRPC parser and for joins.

import { encodeFrame, FrameReader } from '../../../src/core/rpc/frames.ts';
import {
  decodeStatusMessage,
  encodeStatusMessage,
  parseTimeout,
} from '../../../src/core/rpc/status.ts';
import { PublicKey } from '../../../src/core/identity/x509/keys.ts';
import { parseChain } from '../../../src/core/identity/x509/svid-validator.ts';
import { decodeSecret } from '../../../src/trust/join/secret.ts';
import { encodeTranscript } from '../../../src/trust/join/transcript.ts';
import {
  maxMessageBytes,
  readAnswer,
  renewWire,
  secretWire,
  spiffeWire,
} from '../../../src/trust/join/wire.ts';
import type { Target } from '../target.ts';

const words = ['agent', 'bot', 'web', 'lubeck.example', 'spiffe://bruges.example/web'];
const maxBytes = maxMessageBytes + 1000;

export const joinTargets: readonly Target[] = [
  {
    name: 'rpc-frames',
    grammar: 'bytes',
    dictionary: ['\0\0\0\0\0', '\0\0\0\0\u0001a', '\u0001\0\0\0\0'],
    maxBytes: 5_000,
    run: (input) => {
      // As one chunk and as many must be the same messages.
      const whole = framesOf([input]);
      const cut = framesOf(Array.from(input, (byte) => Buffer.of(byte)));
      if (whole.join() !== cut.join()) throw new Error('chunks make a difference');
      const again = Buffer.concat(whole.map((each) => encodeFrame(Buffer.from(each, 'hex'))));
      if (!input.subarray(0, again.length).equals(again)) throw new Error('read as another');
    },
  },
  {
    name: 'rpc-status',
    grammar: 'text',
    dictionary: ['%', '%25', '%zz', '%C3%BC', '1S', '99999999H', '5n'],
    maxBytes: 5_000,
    run: (input) => {
      const text = input.toString('utf8');
      parseTimeout(text);
      decodeStatusMessage(text);
      const sent = encodeStatusMessage(text);
      if (decodeStatusMessage(sent) !== text.toWellFormed()) throw new Error('read as another');
    },
  },
  {
    name: 'join-by-svid',
    grammar: 'protobuf',
    dictionary: words,
    maxBytes,
    run: (input) => {
      const { chain, publicKey, wish, clientNonce } = spiffeWire.opening(input);
      parseChain(chain);
      PublicKey.parse(publicKey);
      encodeTranscript([
        ['token', wish.token],
        ['name', wish.name],
        ['nonce', clientNonce],
      ]);
    },
  },
  {
    name: 'join-by-secret',
    grammar: 'protobuf',
    dictionary: words,
    maxBytes,
    run: (input) => void PublicKey.parse(secretWire.opening(input).publicKey),
  },
  {
    name: 'join-renewal',
    grammar: 'protobuf',
    dictionary: words,
    maxBytes,
    run: (input) => void parseChain(renewWire.opening(input).chain),
  },
  {
    name: 'join-solution',
    grammar: 'protobuf',
    dictionary: [],
    maxBytes,
    run: (input) => void spiffeWire.solution(input),
  },
  {
    name: 'join-answer',
    grammar: 'protobuf',
    dictionary: words,
    maxBytes,
    run: (input) => void readAnswer(input),
  },
  {
    name: 'join-secret',
    grammar: 'text',
    dictionary: ['hansajoin1.', '=', '-', '_', '\n'],
    maxBytes: 500,
    run: (input) => void decodeSecret(input.toString('utf8')),
  },
];

function framesOf(chunks: readonly Buffer[]): string[] {
  const reader = new FrameReader(1000);
  const messages: string[] = [];
  for (const chunk of chunks) {
    reader.push(chunk);
    for (let each = reader.take(); each !== undefined; each = reader.take()) {
      messages.push(each.toString('hex'));
    }
  }
  reader.finish();
  return messages;
}
