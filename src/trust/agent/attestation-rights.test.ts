import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { attestationLoss } from './attestation-rights.ts';

const status = (capabilities: bigint): string =>
  `Name:\tnode\nCapPrm:\t0\nCapEff:\t${capabilities.toString(16).padStart(16, '0')}\nCapBnd:\t0\n`;

suite('what an agent without root cannot attest', () => {
  test('is nothing for root', () => {
    assert.equal(attestationLoss(status(0x1ff_ffff_ffffn)), undefined);
  });

  test('is nothing with the two capabilities of the unit', () => {
    assert.equal(attestationLoss(status((1n << 19n) | (1n << 2n))), undefined);
  });

  test('is the path and hash of processes of other users without CAP_SYS_PTRACE', () => {
    const loss = attestationLoss(status(1n << 2n)) ?? '';
    assert.match(loss, /CAP_SYS_PTRACE.*unix:path and unix:sha256.*only processes of the user/);
  });

  test('is programs that it cannot read without CAP_DAC_READ_SEARCH', () => {
    assert.match(attestationLoss(status(1n << 19n)) ?? '', /CAP_DAC_READ_SEARCH/);
  });

  test('is unknown on a system without /proc, and nothing is said', () => {
    assert.equal(attestationLoss(''), undefined);
  });
});
