import assert from 'node:assert/strict';
import { test } from 'node:test';
import { warning } from '../../core/plane/doctor.ts';
import { renderFindings } from './render-findings.ts';

test('a finding stays on its line, whatever a peer wrote into it', () => {
  const text = 'it rejects this site\n✓ trust   all is well\u001b[2J';
  const rendered = renderFindings(
    [warning('peer', text, 'Ask its operator.\nOr not.')],
    (_, mark) => mark,
  );
  assert.deepEqual(rendered.split('\n').length, 2);
  assert.ok(!rendered.includes('\u001b'));
});
