import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  type LabelSelectorObject,
  labelSelectorText,
  parseLabelSelector,
} from '../../api/selectors/label-selector.ts';
import { namespaceSelectorOf, objectsOutside } from './federation-namespaces.ts';
import { limitedFederation, namespaceSelector, specOf } from '../spire/test-spire-servers.ts';

const identity = (spec: object, kind = 'ClusterSPIFFEID') => ({
  kind,
  metadata: { name: 'web' },
  spec,
});
const federatesWith = ['b.example'];
const outside = (spec: object, kind?: string) =>
  objectsOutside([identity(spec, kind)], namespaceSelector, 'hansa');

suite('the namespaces whose workloads may federate', () => {
  test('come from federation, unless it is turned off', () => {
    const off = { ...limitedFederation, enabled: false };
    assert.deepEqual(namespaceSelectorOf(specOf(limitedFederation)), namespaceSelector);
    assert.equal(namespaceSelectorOf(specOf(off)), undefined);
    assert.equal(namespaceSelectorOf(specOf({ bundleEndpoint: {} })), undefined);
  });

  for (const [what, spec, kind] of [
    ['the same selector', { federatesWith, namespaceSelector }, 'ClusterSPIFFEID'],
    [
      'a narrower selector',
      {
        federatesWith,
        namespaceSelector: {
          matchLabels: { ...namespaceSelector.matchLabels, more: 'x' },
          matchExpressions: [
            ...namespaceSelector.matchExpressions,
            { key: 'y', operator: 'Exists' },
          ],
        },
      },
      'ClusterSPIFFEID',
    ],
    ['no trust domain', {}, 'ClusterSPIFFEID'],
    ['no trust domain, and no selector', { federatesWith: [] }, 'ClusterStaticEntry'],
    ['another class', { federatesWith, className: 'other' }, 'ClusterSPIFFEID'],
  ] as const) {
    test(`a ${kind} with ${what} is within them`, () => {
      assert.deepEqual(outside(spec, kind), []);
    });
  }

  for (const [what, spec, kind] of [
    ['no selector', { federatesWith }, 'ClusterSPIFFEID'],
    ['no selector, of our class', { federatesWith, className: 'hansa' }, 'ClusterSPIFFEID'],
    [
      'one label less',
      {
        federatesWith,
        namespaceSelector: { ...namespaceSelector, matchLabels: { federate: 'yes' } },
      },
      'ClusterSPIFFEID',
    ],
    [
      'one expression less',
      {
        federatesWith,
        namespaceSelector: {
          ...namespaceSelector,
          matchExpressions: namespaceSelector.matchExpressions.slice(1),
        },
      },
      'ClusterSPIFFEID',
    ],
    ['selectors of workloads', { federatesWith, selectors: ['k8s:ns:web'] }, 'ClusterStaticEntry'],
    ['a spec of another form', { federatesWith, namespaceSelector: 'all' }, 'ClusterSPIFFEID'],
  ] as const) {
    test(`a ${kind} with ${what} is named`, () => {
      assert.deepEqual(outside(spec, kind), [`${kind} web`]);
    });
  }

  test('hold for every namespace that an accepted selector selects', () => {
    const key = fc.constantFrom('a', 'b', 'c');
    const value = fc.constantFrom('', 'x', 'y');
    const selector: fc.Arbitrary<LabelSelectorObject> = fc.record({
      matchLabels: fc.dictionary(key, value),
      matchExpressions: fc.array(
        fc.oneof(
          fc.record({
            key,
            operator: fc.constantFrom('In' as const, 'NotIn' as const),
            values: fc.uniqueArray(value, { minLength: 1 }),
          }),
          fc.record({
            key,
            operator: fc.constantFrom('Exists' as const, 'DoesNotExist' as const),
          }),
        ),
        { maxLength: 3 },
      ),
    });
    const labels = fc.dictionary(key, value);
    const selects = (one: LabelSelectorObject, found: Readonly<Record<string, string>>): boolean =>
      parseLabelSelector(labelSelectorText(one)).matches(found);
    fc.assert(
      fc.property(selector, selector, labels, (limit, own, found) => {
        const both: LabelSelectorObject = {
          matchLabels: { ...own.matchLabels, ...limit.matchLabels },
          matchExpressions: [...(own.matchExpressions ?? []), ...(limit.matchExpressions ?? [])],
        };
        for (const candidate of [own, both]) {
          const spec = { federatesWith, namespaceSelector: candidate };
          if (objectsOutside([identity(spec)], limit, '').length > 0) continue;
          if (selects(candidate, found)) assert.ok(selects(limit, found));
        }
      }),
    );
  });
});
