// A fuzz target for the complete decision about a join request, across all its parsers. The site must
// reject every request, because it trusts none of the senders.

import {
  judgeRules,
  judgeSecret,
  judgeSvid,
  judgeToken,
} from '../../../src/trust/join/judge-join.ts';
import { poolVerify } from '../../../src/core/identity/x509/verify-queue.ts';
import { secretWire, spiffeWire } from '../../../src/trust/join/wire.ts';
import { hasCode } from '../../../src/core/errors/error.ts';
import type { Target } from '../target.ts';

const nowMs = Date.UTC(2026, 0);
const nobody = { bundleFor: () => undefined };
const transcript = Buffer.from('transcript');
const signature = Buffer.alloc(64, 1);

async function judgeBySvid(input: Buffer): Promise<void> {
  const { wish, chain } = spiffeWire.opening(input);
  const judged = await judgeSvid({ chain, transcript, signature }, nobody, nowMs, poolVerify);
  if (judged.refusals.length === 0) throw new TypeError('a stranger was believed');
  judgeToken(undefined, 'spiffe', wish, nowMs);
  judgeRules(undefined, judged.proven?.id);
}

async function judgeBySecret(input: Buffer): Promise<void> {
  const { secretKey: publicKey } = secretWire.opening(input);
  const refusals = await judgeSecret({ publicKey, transcript, signature }, undefined, poolVerify);
  if (refusals.length === 0) throw new TypeError('a stranger was believed');
}

export const judgementTargets: readonly Target[] = [
  {
    name: 'join-judgement',
    grammar: 'protobuf',
    dictionary: ['agent', 'bot', 'ci-runners', 'spiffe://'],
    maxBytes: 66 * 1024,
    run: async (input) => {
      try {
        await judgeBySvid(input);
      } catch (error) {
        if (!hasCode(error, 'HANSA_BAD_REQUEST')) throw error;
      }
      await judgeBySecret(input);
    },
  },
];
