import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { effectOfLoss, ownCapabilities } from '../features.ts';
import { driftOf, driftText, withReport } from './feature-drift.ts';

const agreed = { capabilities: ['catalog', 'grants'], extensionSlugs: ['maps'] };
const nowMs = 1_767_225_600_000;

const conditionOf = (status: ReturnType<typeof withReport>) =>
  status.conditions?.find(({ type }) => type === 'CapabilitiesAgreed');

suite('the report of a peer', () => {
  test('is no drift where it has what was agreed, in any order', () => {
    const reported = { capabilities: ['grants', 'catalog'], extensionSlugs: ['maps'] };
    const status = withReport(agreed, reported, nowMs);
    assert.equal(status.reported, undefined);
    assert.equal(conditionOf(status)?.status, 'True');
  });

  test('names what it lost, with what no longer works', () => {
    const status = withReport(agreed, { capabilities: ['grants'], extensionSlugs: [] }, nowMs);
    const condition = conditionOf(status);
    assert.deepEqual([condition?.status, condition?.reason], ['False', 'Lost']);
    assert.match(condition?.message ?? '', /no longer reports catalog, extension\/maps/);
    assert.match(condition?.message ?? '', /hansa peer catalog fails/);
    assert.deepEqual(status.reported, { capabilities: ['grants'], extensionSlugs: [] });
  });

  test('that has more changes nothing but the condition', () => {
    const reported = { capabilities: ['catalog', 'grants', 'receipts'], extensionSlugs: ['maps'] };
    const status = withReport(agreed, reported, nowMs);
    assert.deepEqual(status.capabilities, agreed.capabilities);
    assert.deepEqual(
      [conditionOf(status)?.status, conditionOf(status)?.reason],
      ['False', 'Gained'],
    );
    assert.match(conditionOf(status)?.message ?? '', /receipts.*no effect/);
  });

  test('of a capability that this site does not have is no drift', () => {
    const reported = { capabilities: ['catalog', 'grants', 'teleport'], extensionSlugs: ['maps'] };
    assert.equal(driftOf(agreed, reported), undefined);
  });

  test('of a peer that agreed on nothing says nothing', () => {
    const reported = { capabilities: ['catalog'], extensionSlugs: [] };
    assert.equal(driftOf({}, reported), undefined);
    assert.deepEqual(withReport({ state: 'active' }, reported, nowMs), { state: 'active' });
  });

  test('never changes what was agreed, whatever it says', () => {
    const names = fc.uniqueArray(fc.constantFrom(...ownCapabilities, 'other', 'maps'));
    fc.assert(
      fc.property(names, names, names, names, (capabilities, extensionSlugs, one, two) => {
        const before = { capabilities, extensionSlugs };
        const status = withReport(before, { capabilities: one, extensionSlugs: two }, nowMs);
        assert.deepEqual(status.capabilities, capabilities);
        assert.deepEqual(status.extensionSlugs, extensionSlugs);
        // And back: the report that agrees leaves no trace but the condition.
        const again = withReport(status, { capabilities, extensionSlugs }, nowMs);
        const own = capabilities.filter((each) => ownCapabilities.includes(each));
        if (own.length === capabilities.length) assert.equal(again.reported, undefined);
      }),
    );
  });

  test('of many names has a short message', () => {
    const many = Array.from({ length: 64 }, (_, at) => `${'x'.repeat(60)}${at}`);
    const text = driftText({ lost: many, gained: many });
    assert.ok(text.length < 1500);
    assert.match(text, /and 56 more/);
  });
});

test('every capability says what no longer works without it', () => {
  for (const each of ownCapabilities) assert.ok((effectOfLoss(each) ?? '').length > 10, each);
});
