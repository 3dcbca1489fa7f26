// Which selectors an agent cannot attest because it runs without root. It warns once when it starts.

import { readFileSync } from 'node:fs';

/** linux/capability.h */
const readSearch = 2n;
const ptrace = 19n;

/** Undefined where every selector works. Otherwise a sentence for the log and the status. */
export function attestationLoss(status: string = readStatus()): string | undefined {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  // A system without capabilities in /proc: nothing is known to be missing.
  if (effective === undefined) return undefined;
  const has = (capability: bigint): boolean =>
    (BigInt(`0x${effective}`) & (1n << capability)) !== 0n;
  if (!has(ptrace)) {
    return 'Without CAP_SYS_PTRACE, the selectors unix:path and unix:sha256 match only processes of the user of this agent.';
  }
  if (!has(readSearch)) {
    return 'Without CAP_DAC_READ_SEARCH, the selectors unix:path and unix:sha256 match no program that this user cannot read.';
  }
  return undefined;
}

function readStatus(): string {
  try {
    return readFileSync('/proc/self/status', 'latin1');
  } catch {
    return '';
  }
}
