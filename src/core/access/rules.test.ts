import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { roleKind } from '../../api/kinds/role.ts';
import {
  type Action,
  covers,
  describeSimpleRules,
  maxSimpleRules,
  type Rule,
  ruleAllows,
  tooManyToCompare,
  uncovered,
  verbs as decidedVerbs,
} from './rules.ts';

const allows = (rules: readonly Rule[], action: Action): boolean =>
  rules.some((rule) => ruleAllows(rule, action));

test('the verbs that a Role may name are those that are decided upon', () => {
  const named = roleKind.spec.fields.rules.schema.items.fields.verbs.schema.items.enum;
  assert.deepEqual(named, [...decidedVerbs, '*']);
});

test('a rule allows what its lists name and nothing else', () => {
  const site: Rule = { kinds: ['Site'], verbs: ['get', 'list'] };
  const table: readonly [rule: Rule, action: Action, allowed: boolean][] = [
    [site, { kind: 'Site', verb: 'get' }, true],
    [site, { kind: 'Site', verb: 'get', name: 'site' }, true],
    [site, { kind: 'Site', verb: 'delete' }, false],
    [site, { kind: 'Role', verb: 'get' }, false],
    [site, { kind: 'site', verb: 'get' }, false],
    [site, { kind: 'Site', verb: 'get', subresource: 'secret' }, false],
    [
      { ...site, subresources: ['secret'] },
      { kind: 'Site', verb: 'get', subresource: 'secret' },
      true,
    ],
    [{ ...site, subresources: ['secret'] }, { kind: 'Site', verb: 'get' }, false],
    [{ ...site, subresources: ['*'] }, { kind: 'Site', verb: 'get', subresource: 'other' }, true],
    [{ ...site, subresources: ['*'] }, { kind: 'Site', verb: 'get' }, false],
    [{ ...site, names: ['a'] }, { kind: 'Site', verb: 'get', name: 'a' }, true],
    [{ ...site, names: ['a'] }, { kind: 'Site', verb: 'get', name: 'b' }, false],
    [{ ...site, names: ['a'] }, { kind: 'Site', verb: 'list' }, false],
    [{ ...site, names: ['a'] }, { kind: 'Site', verb: 'list', name: '' }, false],
    [{ ...site, names: ['*'] }, { kind: 'Site', verb: 'get', name: 'b' }, false],
    [{ ...site, names: [] }, { kind: 'Site', verb: 'list' }, true],
    [{ kinds: ['*'], verbs: ['get'] }, { kind: 'NotMadeYet', verb: 'get' }, true],
    [{ kinds: ['Site'], verbs: ['*'] }, { kind: 'Site', verb: 'escalate' }, true],
    [{ kinds: [], verbs: ['*'] }, { kind: 'Site', verb: 'get' }, false],
    [{ kinds: ['*'], verbs: [] }, { kind: 'Site', verb: 'get' }, false],
  ];
  for (const [rule, action, allowed] of table)
    assert.equal(ruleAllows(rule, action), allowed, JSON.stringify([rule, action]));
});

test('coverage follows the cases that Kubernetes decides', () => {
  const all: Rule = { kinds: ['*'], verbs: ['*'] };
  const table: readonly [held: Rule[], wanted: Rule[], covered: boolean][] = [
    [[], [], true],
    [[], [{ kinds: ['Site'], verbs: ['get'] }], false],
    [[all], [{ kinds: ['Site'], verbs: ['get'], names: ['x'] }], true],
    [[all], [all], true],
    [[{ kinds: ['Site', 'Role'], verbs: ['*'] }], [all], false],
    [[{ kinds: ['*'], verbs: ['get', 'list'] }], [{ kinds: ['*'], verbs: ['*'] }], false],
    // Two rules together cover what neither does alone.
    [
      [
        { kinds: ['Site'], verbs: ['get'] },
        { kinds: ['Role'], verbs: ['get'] },
      ],
      [{ kinds: ['Site', 'Role'], verbs: ['get'] }],
      true,
    ],
    [
      [
        { kinds: ['Site'], verbs: ['get'] },
        { kinds: ['Role'], verbs: ['list'] },
      ],
      [{ kinds: ['Site', 'Role'], verbs: ['get', 'list'] }],
      false,
    ],
    [
      [{ kinds: ['Site'], verbs: ['get'], names: ['a'] }],
      [{ kinds: ['Site'], verbs: ['get'] }],
      false,
    ],
    [
      [{ kinds: ['Site'], verbs: ['get'], names: ['a'] }],
      [{ kinds: ['Site'], verbs: ['get'], names: ['a', 'b'] }],
      false,
    ],
    [
      [{ kinds: ['Site'], verbs: ['get'], names: ['a'] }],
      [{ kinds: ['Site'], verbs: ['get'], names: [] }],
      false,
    ],
    [[all], [{ kinds: ['Site'], verbs: ['get'], subresources: ['secret'] }], false],
    [
      [{ kinds: ['*'], verbs: ['*'], subresources: ['*'] }],
      [{ kinds: ['Site'], verbs: ['get'], subresources: ['secret'] }],
      true,
    ],
    // A rule that allows nothing is covered by nothing at all.
    [[], [{ kinds: [], verbs: ['*'] }], true],
  ];
  for (const [held, wanted, covered] of table)
    assert.equal(covers(held, wanted), covered, JSON.stringify([held, wanted]));
});

// Small alphabets, so that rules meet; `new…` stands for whatever no list names.
const kinds = ['A', 'B'];
const verbs = ['get', 'list'];
const names = ['x', 'y'];
const subresources = ['s', 't'];
const some = (values: readonly string[]): fc.Arbitrary<string[]> =>
  fc.uniqueArray(fc.constantFrom(...values), { maxLength: values.length });
const ruleArbitrary: fc.Arbitrary<Rule> = fc
  .record({
    kinds: some([...kinds, '*']),
    verbs: some([...verbs, '*']),
    names: fc.option(some(names), { nil: undefined }),
    subresources: fc.option(some([...subresources, '*']), { nil: undefined }),
  })
  .map(({ kinds: k, verbs: v, names: n, subresources: s }) => ({
    kinds: k,
    verbs: v,
    ...(n === undefined ? {} : { names: n }),
    ...(s === undefined ? {} : { subresources: s }),
  }));
const rulesArbitrary = fc.array(ruleArbitrary, { maxLength: 5 });

const universe: Action[] = [...kinds, 'New'].flatMap((kind) =>
  [...verbs, 'new'].flatMap((verb) =>
    [undefined, ...names, 'new'].flatMap((name) =>
      [undefined, ...subresources, 'new'].map((subresource) => ({
        kind,
        verb,
        ...(name === undefined ? {} : { name }),
        ...(subresource === undefined ? {} : { subresource }),
      })),
    ),
  ),
);

test('one set covers another exactly if it allows every action that the other allows', () => {
  fc.assert(
    fc.property(rulesArbitrary, rulesArbitrary, (held, wanted) => {
      const included = universe.every((action) => !allows(wanted, action) || allows(held, action));
      assert.equal(covers(held, wanted), included);
    }),
    { numRuns: 2000 },
  );
});

test('coverage is reflexive, transitive and grows with what is held', () => {
  fc.assert(
    fc.property(rulesArbitrary, rulesArbitrary, rulesArbitrary, (a, b, c) => {
      assert.ok(covers(a, a));
      assert.ok(covers([...a, ...b], a));
      if (covers(a, b) && covers(b, c)) assert.ok(covers(a, c));
      if (covers(a, c)) assert.ok(covers([...b, ...a], c));
    }),
    { numRuns: 500 },
  );
});

test('what is missing, added to what is held, is enough', () => {
  fc.assert(
    fc.property(rulesArbitrary, rulesArbitrary, (held, wanted) => {
      const missing = uncovered(held, wanted).map(({ kind, verb, name, subresource }) => ({
        kinds: [kind],
        verbs: [verb],
        ...(name === undefined ? {} : { names: [name] }),
        ...(subresource === undefined ? {} : { subresources: [subresource] }),
      }));
      assert.ok(covers([...held, ...missing], wanted));
    }),
    { numRuns: 500 },
  );
});

function many(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

test('a product of lists that would take too long to compare is recognised without building it', () => {
  const hostile: Rule = { kinds: many('K', 64), verbs: many('v', 16), names: many('n', 256) };
  assert.ok(
    tooManyToCompare(
      [],
      Array.from({ length: 256 }, () => hostile),
    ),
  );
  assert.ok(!tooManyToCompare([], [{ kinds: ['*'], verbs: ['*'] }]));
  assert.ok(!tooManyToCompare([], [{ kinds: many('K', maxSimpleRules), verbs: ['get'] }]));
  assert.ok(tooManyToCompare([], [{ kinds: many('K', maxSimpleRules + 1), verbs: ['get'] }]));
});

test('many names are compared with many rules in a moment, and too many of both are not', () => {
  const byName = (start: string, count: number): Rule[] =>
    Array.from({ length: count }, (_, i) => ({
      kinds: ['Site'],
      verbs: ['get'],
      names: many(`${start}${i}-`, 39),
    }));
  const held = byName('held', 5_000);
  const wanted = [...byName('wanted', 250), ...held.slice(-6)];
  assert.ok(!tooManyToCompare(held, wanted));
  assert.ok(tooManyToCompare(held, [{ kinds: many('K', 64), verbs: ['get'] }]));
  const before = process.cpuUsage();
  assert.equal(uncovered(held, wanted).length, 250 * 39);
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 1_000_000, 'one look at each held rule for each name takes seconds');
});

test('missing rights are described as kube-apiserver does, one line a resource', () => {
  const missing = uncovered(
    [],
    [
      { kinds: ['Site'], verbs: ['update', 'get'] },
      { kinds: ['Role'], verbs: ['get'], names: ['ops'] },
      { kinds: ['Site'], verbs: ['get'], subresources: ['secret'] },
    ],
  );
  assert.deepEqual(
    describeSimpleRules(missing, 'hansa.dev', (kind) => `${kind.toLowerCase()}s`),
    [
      '{APIGroups:["hansa.dev"], Resources:["roles"], ResourceNames:["ops"], Verbs:["get"]}',
      '{APIGroups:["hansa.dev"], Resources:["sites"], Verbs:["update" "get"]}',
      '{APIGroups:["hansa.dev"], Resources:["sites/secret"], Verbs:["get"]}',
    ],
  );
});
