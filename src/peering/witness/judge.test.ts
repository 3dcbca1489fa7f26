import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { signCheckpoint, type SignedCheckpoint } from '../../core/audit/checkpoint.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { naiveRoot, naiveSubproof, rowsOf } from '../../core/merkle/test-naive-tree.ts';
import { emptyRoot } from '../../core/merkle/tree.ts';
import { judge } from './judge.ts';

const signer = testSigner('lubeck.example', 1);
const offer = (rows: readonly Buffer[]): Promise<SignedCheckpoint> =>
  signCheckpoint(signer, { size: rows.length, rootHash: naiveRoot(rows) });
const head = (rows: readonly Buffer[]) => ({ size: rows.length, rootHash: naiveRoot(rows) });
const size = fc.integer({ min: 1, max: 40 });

describe('a checkpoint', () => {
  test('of a log that only grew extends or equals every earlier one', async () => {
    await fc.assert(
      fc.asyncProperty(size, size, fc.boolean(), async (a, b, knows) => {
        const [before, after] = a < b ? [a, b] : [b, a];
        const rows = rowsOf(after);
        const proofs = [{ from: before, hashes: naiveSubproof(before, rows, true) }];
        const { kind } = judge(head(rows.slice(0, before)), await offer(rows), proofs, knows);
        assert.equal(kind, before === after ? 'unchanged' : 'extends');
      }),
    );
  });

  test('of a log with a changed past never extends, whatever it proves', async () => {
    await fc.assert(
      fc.asyncProperty(size, size, fc.nat(), async (a, b, at) => {
        const [before, after] = a < b ? [a, b] : [b, a];
        const rows = rowsOf(after);
        const changed = rows.with(at % before, Buffer.from('changed'));
        const held = head(rows.slice(0, before));
        for (const path of [
          naiveSubproof(before, changed, true),
          naiveSubproof(before, rows, true),
          [],
        ]) {
          const proofs = [{ from: before, hashes: path }];
          const verdict = judge(held, await offer(changed), proofs, true);
          assert.equal(verdict.kind, 'contradicts');
        }
      }),
    );
  });

  test('that is smaller counts against the log only if the sender knew better', async () => {
    const rows = rowsOf(9);
    const smaller = await offer(rows.slice(0, 5));
    assert.equal(judge(head(rows), smaller, [], false).kind, 'late');
    assert.deepEqual(judge(head(rows), smaller, [], true), {
      kind: 'contradicts',
      reason: 'Shrank',
      message:
        'The log has 5 events, and this site has seen 9: its last events were removed, or an older copy of it was put back.',
    });
  });

  test('without a proof counts against the log only if the sender knew which one to send', async () => {
    const rows = rowsOf(9);
    const held = head(rows.slice(0, 5));
    const other = [{ from: 4, hashes: naiveSubproof(4, rows, true) }];
    for (const proofs of [[], other]) {
      assert.equal(judge(held, await offer(rows), proofs, false).kind, 'late');
      const verdict = judge(held, await offer(rows), proofs, true);
      assert.ok(verdict.kind === 'contradicts' && verdict.reason === 'Unproven');
    }
  });

  test('of the same size with another root always counts against the log', async () => {
    const rows = rowsOf(9);
    const forked = await offer(rows.with(0, Buffer.from('changed')));
    const verdict = judge(head(rows), forked, [], false);
    assert.ok(verdict.kind === 'contradicts' && verdict.reason === 'Forked');
  });

  test('of any size extends the empty log', async () => {
    const empty = { size: 0, rootHash: emptyRoot };
    assert.equal(judge(empty, await offer(rowsOf(3)), [], true).kind, 'extends');
    assert.equal(judge(empty, await offer([]), [], true).kind, 'unchanged');
  });
});
