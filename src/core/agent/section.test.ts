import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type AgentSection, AgentSections } from './section.ts';
import { AgentItem } from './state.ts';

function section(name: string) {
  const listeners = new Set<(agents: readonly string[] | undefined) => void>();
  const item = new AgentItem(name, 'things', 'a', Buffer.from(name));
  const made: AgentSection = {
    name,
    itemsOf: () => [item],
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const tell = (agents: readonly string[] | undefined): void => {
    for (const listener of listeners) listener(agents);
  };
  return { made, tell };
}

suite('the sections of the state', () => {
  test('are read in order of their names', () => {
    const sections = new AgentSections();
    sections.register(section('overlay').made);
    sections.register(section('identities').made);
    assert.deepEqual(
      sections.itemsOf('crane').map((item) => item.section),
      ['identities', 'overlay'],
    );
  });

  test('tell changes of every section, also of one that is registered later', () => {
    const sections = new AgentSections();
    const told: unknown[] = [];
    sections.onChange((agents) => told.push(agents));
    const { made, tell } = section('identities');
    sections.register(made);
    tell(['crane']);
    assert.deepEqual(told, [undefined, ['crane']]);
  });

  test('change for all agents when a section is unregistered, which is silent afterwards', () => {
    const sections = new AgentSections();
    const { made, tell } = section('identities');
    const unregister = sections.register(made);
    const told: unknown[] = [];
    sections.onChange((agents) => told.push(agents));
    unregister();
    tell(['crane']);
    assert.deepEqual(told, [undefined]);
    assert.deepEqual(sections.itemsOf('crane'), []);
  });

  test('cannot have the same name', () => {
    const sections = new AgentSections();
    sections.register(section('identities').made);
    assert.throws(() => sections.register(section('identities').made), /two sections/);
  });
});
