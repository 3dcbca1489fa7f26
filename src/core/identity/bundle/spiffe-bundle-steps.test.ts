import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { settle } from '../../clock/virtual.ts';
import { Bundle, maxAuthorities } from './bundle.ts';
import {
  encodeSpiffeBundle,
  maxBundleBytes,
  parseSpiffeBundle,
  parseSpiffeBundleInSteps,
} from './spiffe-bundle.ts';
import { forgeRoot } from '../x509/test-forge.ts';

const bruges = TrustDomain.parse('bruges.example');
const options = { sequence: 1, refreshHintSeconds: 300 };
const small = encodeSpiffeBundle(new Bundle(bruges, [forgeRoot(bruges.name).certificate]), options);

/** How often others had a turn until then. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  const state = { isDone: false };
  void work.finally(() => (state.isDone = true)).catch(() => undefined);
  let turns = 0;
  for (; !state.isDone; turns++) await settle();
  return turns;
}

suite('a bundle that is read in steps', () => {
  test('is the same, lets others run between its keys, and is known afterwards', async () => {
    const roots = Array.from({ length: maxAuthorities }, () => forgeRoot(bruges.name).certificate);
    const document = encodeSpiffeBundle(new Bundle(bruges, roots), options);
    const reading = parseSpiffeBundleInSteps(Buffer.from(document), bruges);
    const turns = await turnsDuring(reading);
    assert.ok(turns >= maxAuthorities / 16, `${turns} turns`);
    const read = await reading;
    assert.equal(read.bundle.authorities.length, maxAuthorities);
    assert.equal(parseSpiffeBundle(document, bruges), read);
    assert.equal(await parseSpiffeBundleInSteps(document, bruges, 'x509'), read);
  });

  test('is refused for the same reasons', async () => {
    const wrong: readonly (string | Uint8Array)[] = [
      'no JSON',
      '{"keys":[]}',
      Buffer.from([0xff, 0xfe]),
      ' '.repeat(maxBundleBytes + 1),
      JSON.stringify({ keys: Array.from({ length: 40 }, () => ({ use: 'x509-svid' })) }),
    ];
    for (const document of wrong) {
      let message = '';
      assert.throws(
        () => parseSpiffeBundle(document, bruges),
        (error: Error) => {
          message = error.message;
          return true;
        },
      );
      await assert.rejects(parseSpiffeBundleInSteps(document, bruges), { message });
    }
  });
});

test('large bundles that were read take only so much memory', () => {
  const padded = (sequence: number): string =>
    small.replace('"spiffe_sequence":1', `"spiffe_sequence":${sequence}`) +
    ' '.repeat(maxBundleBytes - small.length - 2);
  const first = parseSpiffeBundle(padded(10), bruges);
  assert.equal(parseSpiffeBundle(padded(10), bruges), first);
  for (let sequence = 11; sequence < 30; sequence++) parseSpiffeBundle(padded(sequence), bruges);
  assert.notEqual(parseSpiffeBundle(padded(10), bruges), first);
});
