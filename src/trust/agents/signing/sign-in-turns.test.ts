import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { mostPerTurn } from '../../../core/limits/test-most-per-turn.ts';
import { workMs } from '../../../core/limits/work-turns.ts';
import { putEntry } from '../../workload/test-workload-site.ts';
import {
  crane,
  exporter,
  newKey,
  onCrane,
  refusals,
  requestOf,
  signingSite,
} from './test-signing-site.ts';

suite('many batches at once', () => {
  test('sign no more in one turn of the event loop than one batch does', async (t) => {
    const site = await signingSite(t);
    await putEntry(site.store, 'web', onCrane);
    const key = await newKey();
    const counted = { count: 0 };
    site.hooks.signsForMs = () => {
      counted.count++;
      return 1;
    };
    const request = requestOf(Array.from({ length: 12 }, () => ({ entry: 'uid-web', key })));
    const start = async () => {
      const batches = Array.from({ length: 20 }, () => site.sign(crane, request, exporter));
      for (const response of await Promise.all(batches)) {
        assert.deepEqual(new Set(refusals(response)), new Set([undefined]));
      }
    };
    assert.ok((await mostPerTurn(start, counted)) <= workMs);
    assert.equal(counted.count, 240);
  });
});
