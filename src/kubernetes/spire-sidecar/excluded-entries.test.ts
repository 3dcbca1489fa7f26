import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  type EntryChanges,
  exclusionsText,
  hasReadmission,
  mayFederate,
  planExclusion,
  planReadmission,
  readExclusions,
} from './excluded-entries.ts';
import type { FederatedEntry } from './spire-api.ts';

const namespace = fc.constantFrom('web', 'shop', 'dev', 'kube-system');
const trustDomain = fc.constantFrom('b.example', 'c.example', 'd.example');
const selector = fc.oneof(
  namespace.map((name) => ({ type: 'k8s', value: `ns:${name}` })),
  fc.constantFrom(
    { type: 'k8s', value: 'sa:web' },
    { type: 'k8s', value: 'nsx:web' },
    { type: 'unix', value: 'ns:web' },
  ),
);
const entries = fc
  .array(
    fc.record({
      selectors: fc.array(selector, { maxLength: 3 }),
      federatesWith: fc.uniqueArray(trustDomain),
    }),
    { maxLength: 12 },
  )
  .map((list): readonly FederatedEntry[] => list.map((each, at) => ({ id: `e${at}`, ...each })));
const selected = fc.option(
  fc.uniqueArray(namespace).map((names) => new Set(names)),
  { nil: undefined },
);

const changed = (
  all: readonly FederatedEntry[],
  { update }: EntryChanges,
): readonly FederatedEntry[] =>
  all.map((entry) => update.find(({ id }) => id === entry.id) ?? entry);
const always = (): boolean => true;
const sorted = (all: readonly FederatedEntry[]) =>
  all.map(({ id, federatesWith }) => [id, federatesWith.toSorted()]);

suite('entries outside of the selected namespaces', () => {
  for (const [what, selectors, isIn] of [
    ['of a selected namespace', ['ns:web', 'sa:a'], true],
    ['of another namespace', ['ns:dev', 'sa:a'], false],
    ['without a namespace', ['sa:a'], false],
    ['of two namespaces, which no workload has', ['ns:web', 'ns:dev'], false],
    ['with a selector that only looks like one', ['nsx:web'], false],
  ] as const) {
    test(`an entry ${what} ${isIn ? 'may' : 'may not'} federate`, () => {
      const entry = {
        id: 'e',
        selectors: selectors.map((value) => ({ type: 'k8s', value })),
        federatesWith: ['b.example'],
      };
      assert.equal(mayFederate(new Set(['web']), entry), isIn);
      assert.equal(mayFederate(undefined, entry), true);
    });
  }

  test('another attestor cannot name a namespace', () => {
    const selectors = [{ type: 'unix', value: 'ns:web' }];
    assert.equal(mayFederate(new Set(['web']), { id: 'e', selectors, federatesWith: [] }), false);
  });

  test('lose all trust domains, and no other entry loses one', () => {
    fc.assert(
      fc.property(entries, selected, (all, namespaces) => {
        const after = changed(all, planExclusion(namespaces, all, new Map()));
        for (const [at, entry] of after.entries()) {
          const expected = mayFederate(namespaces, entry) ? all[at]?.federatesWith : [];
          assert.deepEqual(entry.federatesWith, expected);
        }
      }),
    );
  });

  test('get back what they lost, however the namespaces changed meanwhile', () => {
    fc.assert(
      fc.property(entries, fc.array(selected, { maxLength: 6 }), (all, steps) => {
        let now = all;
        let lost: EntryChanges['exclusions'] = new Map();
        for (const namespaces of [...steps, undefined]) {
          const excluded = planExclusion(namespaces, now, lost);
          now = changed(now, excluded);
          const back = planReadmission(namespaces, now, excluded.exclusions, always);
          now = changed(now, back);
          lost = readExclusions(exclusionsText(back.exclusions));
          assert.equal(hasReadmission(namespaces, lost, always), false);
        }
        assert.deepEqual(sorted(now), sorted(all));
        assert.equal(lost.size, 0);
      }),
    );
  });

  test('wait for trust domains whose bundle SPIRE does not have', () => {
    const [entry] = [
      {
        id: 'e',
        selectors: [{ type: 'k8s', value: 'ns:dev' }],
        federatesWith: ['b.example', 'c.example'],
      },
    ];
    const { update, exclusions } = planExclusion(new Set(['web']), [entry], new Map());
    const isB = (name: string): boolean => name === 'b.example';
    const back = planReadmission(undefined, update, exclusions, isB);
    assert.deepEqual(back.update[0]?.federatesWith, ['b.example']);
    assert.deepEqual(back.exclusions.get('e')?.trustDomains, ['c.example']);
    assert.equal(hasReadmission(undefined, back.exclusions, isB), false);
  });

  test('are forgotten when they are gone', () => {
    const lost = new Map([['gone', { namespaces: ['dev'], trustDomains: ['b.example'] }]]);
    assert.equal(planReadmission(undefined, [], lost, always).exclusions.size, 0);
  });

  test('are recorded as groups, so that many fit into a ConfigMap', () => {
    const one = { namespaces: ['dev'], trustDomains: ['b.example', 'c.example'] };
    const many = new Map(
      Array.from({ length: 10_000 }, (_, at) => [`${at}`.padStart(36, '0'), one] as const),
    );
    const text = exclusionsText(many);
    assert.ok(text.length < 512 * 1024, String(text.length));
    assert.deepEqual(readExclusions(text), many);
  });

  test('are read from any text, without an error', () => {
    for (const bad of [
      undefined,
      '{',
      '{}',
      '[1]',
      '[{"namespaces":1}]',
      '[{"namespaces":[],"trustDomains":[1],"entries":["e"]}]',
    ]) {
      assert.equal(readExclusions(bad).size, 0);
    }
    fc.assert(fc.property(fc.json(), (text) => void readExclusions(text)));
  });
});
