import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  type AssignedEntry,
  assignedTo,
  AssignmentIndex,
  type LabelledAgent,
  type Labels,
} from './assignment.ts';

const entry = (agents?: AssignedEntry['spec']['agents']): AssignedEntry => ({
  spec: agents === undefined ? {} : { agents },
});
const selecting = (matchLabels: Labels): AssignedEntry => entry({ selector: { matchLabels } });

suite('an entry', () => {
  test('without agents is assigned to the machine of the site only', () => {
    assert.ok(assignedTo(entry(), { name: 'site', labels: undefined }));
    assert.ok(!assignedTo(entry(), { name: 'crane-1', labels: { site: 'site' } }));
  });

  test('with names is assigned to these agents, whatever their labels are', () => {
    const named = entry({ names: ['crane-1', 'crane-2'] });
    assert.ok(assignedTo(named, { name: 'crane-2', labels: undefined }));
    assert.ok(!assignedTo(named, { name: 'crane-3', labels: { 'crane-1': '' } }));
    assert.ok(!assignedTo(named, { name: 'site', labels: undefined }));
  });

  test('with a selector is assigned to agents that have all of its labels', () => {
    const selected = selecting({ zone: 'harbour', tier: '' });
    assert.ok(assignedTo(selected, { name: 'a', labels: { zone: 'harbour', tier: '', x: 'y' } }));
    assert.ok(assignedTo(selected, { name: 'site', labels: { zone: 'harbour', tier: '' } }));
    for (const labels of [
      undefined,
      {},
      { zone: 'harbour' },
      { zone: 'harbour', tier: 'a' },
      { zone: 'gate', tier: '' },
    ]) {
      assert.ok(!assignedTo(selected, { name: 'a', labels }), JSON.stringify(labels));
    }
  });

  test('with an empty selector, which the API rejects, is assigned to no agent', () => {
    for (const empty of [selecting({}), entry({})]) {
      assert.ok(!assignedTo(empty, { name: 'site', labels: { a: 'b' } }));
      const index = new AssignmentIndex();
      index.putAgent({ name: 'site', labels: { a: 'b' } });
      index.putEntry('web', empty);
      assert.deepEqual([index.entriesOf('site'), index.agentsOf('web')], [[], []]);
    }
  });

  test('that names an agent is not assigned to another machine of that name', () => {
    const named = entry({ names: ['crane-1', 'site'] });
    const crane = { name: 'crane-1', entriesByName: false };
    assert.ok(!assignedTo(named, crane));
    assert.ok(assignedTo(named, { ...crane, entriesByName: true }));
    // Labels are those of the new machine.
    const selected = selecting({ zone: 'harbour' });
    assert.ok(assignedTo(selected, { ...crane, labels: { zone: 'harbour' } }));
    // The machine of the site has no other owner.
    assert.ok(assignedTo(named, { name: 'site', entriesByName: false }));
  });

  test('is not assigned by labels that objects inherit', () => {
    assert.ok(!assignedTo(selecting({ constructor: '' }), { name: 'a', labels: {} }));
  });
});

// Few names, keys and values, so that they meet often.
const names = ['site', 'a', 'b', 'c'];
const name = fc.constantFrom(...names);
const labels = fc.dictionary(fc.constantFrom('k', 'l', 'm'), fc.constantFrom('', '1', '2'));
const assigned = fc.oneof(
  fc.constant(entry()),
  fc.uniqueArray(name, { minLength: 1 }).map((found) => entry({ names: found })),
  labels.map(selecting),
);
const step = fc.oneof(
  fc.record({ put: fc.constantFrom('e1', 'e2', 'e3'), entry: fc.option(assigned) }),
  fc.record({
    agent: name,
    held: fc.option(
      fc.record({ labels, entriesByName: fc.option(fc.boolean(), { nil: undefined }) }),
    ),
  }),
);

test('the index agrees with the definition after any changes', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const index = new AssignmentIndex();
      const entries = new Map<string, AssignedEntry>();
      const agents = new Map<string, Omit<LabelledAgent, 'name'>>();
      for (const one of steps) {
        if ('put' in one) {
          if (one.entry === null) {
            entries.delete(one.put);
            index.deleteEntry(one.put);
          } else {
            entries.set(one.put, one.entry);
            index.putEntry(one.put, one.entry);
          }
        } else if (one.held === null) {
          agents.delete(one.agent);
          index.deleteAgent(one.agent);
        } else {
          agents.set(one.agent, one.held);
          index.putAgent({ name: one.agent, ...one.held });
        }
        for (const [agent, held] of agents) {
          const expected = [...entries]
            .filter(([, each]) => assignedTo(each, { name: agent, ...held }))
            .map(([each]) => each);
          assert.deepEqual(index.entriesOf(agent), expected.toSorted());
          assert.equal(index.countOf(agent), expected.length);
        }
        for (const [each, definition] of entries) {
          const expected = [...agents]
            .filter(([agent, held]) => assignedTo(definition, { name: agent, ...held }))
            .map(([agent]) => agent);
          assert.deepEqual(index.agentsOf(each), expected.toSorted());
          assert.deepEqual(index.agentsFor(definition), expected.toSorted());
          const { names: named = [] } = definition.spec.agents ?? { names: [] };
          const newcomers = named.filter((agent) => agents.has(agent) && !expected.includes(agent));
          assert.deepEqual(index.newcomersOf(definition), newcomers.toSorted());
        }
      }
      for (const absent of names.filter((one) => !agents.has(one))) {
        assert.deepEqual(index.entriesOf(absent), []);
        assert.equal(index.countOf(absent), 0);
      }
    }),
    { numRuns: 500 },
  );
});
