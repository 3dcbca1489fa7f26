import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { stepLines } from './peer-accept.ts';

suite('the steps of an acceptance', () => {
  test('are shown one a line, with outcome, need and message', () => {
    const at = '2026-01-01T00:00:00Z';
    assert.deepEqual(
      stepLines({
        steps: [
          { step: 'contract', need: 'hard', outcome: 'done', message: 'version 1', at },
          { step: 'invitation', need: 'hard', outcome: 'done', at },
          { step: 'attach', need: 'soft', outcome: 'skipped', message: 'no overlay', at },
          { step: 'governance', need: 'soft', outcome: 'failed', message: 'no answer', at },
        ],
      }),
      [
        '  ✓ contract    hard  version 1',
        '  ✓ invitation  hard',
        '  – attach      soft  no overlay',
        '  ✗ governance  soft  no answer',
      ],
    );
    assert.deepEqual(stepLines(undefined), []);
  });
});
