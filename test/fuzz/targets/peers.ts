// Fuzz targets for messages of other sites and of joining agents.

import { createHash } from 'node:crypto';
import { TrustDomain } from '../../../src/api/values/trust-domain.ts';
import { parseInvitation } from '../../../src/peering/handshake/invitation.ts';
import {
  parseAnnouncement,
  parseHeartbeat,
  parsePreviewAnswer,
  parsePreviewRequest,
  parseRedeemAnswer,
  parseRedeemRequest,
} from '../../../src/peering/messages.ts';
import { parseAllowRule } from '../../../src/trust/join/allow-rules.ts';
import type { Target } from '../target.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const bruges = TrustDomain.parse('bruges.example');

const nowMs = Date.UTC(2026, 0);

const messageWords = [
  'contractVersion',
  'contractVersions',
  'bundleSequence',
  'offers',
  'grantedTo',
  'spiffeID',
  'name',
  'url',
  'https://',
  'bundle',
  'secret',
  'trustDomain',
  'bruges.example',
  'spiffe://bruges.example/db',
  'spiffe://lubeck.example/web',
  '*',
];

const message = (name: string, parse: (body: Buffer) => unknown): Target => ({
  name,
  grammar: 'json',
  dictionary: messageWords,
  maxBytes: 300_000,
  run: (input) => void parse(input),
});

export const peerTargets: readonly Target[] = [
  {
    name: 'invitation',
    grammar: 'text',
    dictionary: ['hansa1.', 'hansa2.', '.', '\n', ' ', '=', '-', '_'],
    maxBytes: 10_000,
    run: (input) => void parseInvitation(input.toString('utf8'), nowMs),
  },
  {
    // Chance finds no checksum: here it is right, whatever it is for.
    name: 'invitation-body',
    grammar: 'json',
    dictionary: [...messageWords, 'u', 't', 'k', 's', 'e', 'f'],
    maxBytes: 8_000,
    run: (input) => {
      const sum = createHash('sha256').update(input).digest().subarray(0, 8).toString('base64url');
      parseInvitation(`hansa1.${input.toString('base64url')}.${sum}`, nowMs);
    },
  },
  message('preview-request', parsePreviewRequest),
  message('preview-answer', parsePreviewAnswer),
  message('redeem-request', parseRedeemRequest),
  message('redeem-answer', parseRedeemAnswer),
  message('heartbeat', (body) => parseHeartbeat(body, bruges, lubeck)),
  message('announcement', parseAnnouncement),
  {
    name: 'allow-rule',
    grammar: 'text',
    dictionary: ['spiffe://', 'bruges.example', '/', '*', '**', '/**/', '.', '..', '%2f', 'hansa'],
    maxBytes: 5_000,
    run: (input) => void parseAllowRule(input.toString('utf8')),
  },
];
