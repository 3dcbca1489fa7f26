import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { hasCode } from '../../core/errors/error.ts';
import { allows, parseAllowRule } from './allow-rules.ts';

const matches = (rule: string, id: string): boolean =>
  allows(parseAllowRule(rule), SpiffeId.parse(id));

suite('a rule', () => {
  test('without globs is one identity', () => {
    const rule = 'spiffe://second.example/bar/foo/fizz';
    assert.ok(matches(rule, 'spiffe://second.example/bar/foo/fizz'));
    for (const other of [
      'spiffe://second.example/bar/foo',
      'spiffe://second.example/bar/foo/fizz/buzz',
      'spiffe://second.example/bar/foo/Fizz',
      'spiffe://second.example',
      'spiffe://first.example/bar/foo/fizz',
    ]) {
      assert.ok(!matches(rule, other), other);
    }
  });

  test('with * reaches as far as the next slash', () => {
    assert.ok(matches('spiffe://a.example/ci/*', 'spiffe://a.example/ci/runner'));
    assert.ok(!matches('spiffe://a.example/ci/*', 'spiffe://a.example/ci/runner/1'));
    assert.ok(!matches('spiffe://a.example/ci/*', 'spiffe://a.example/ci'));
    assert.ok(matches('spiffe://a.example/ns/*/sa/web-*', 'spiffe://a.example/ns/x/sa/web-1'));
    assert.ok(matches('spiffe://a.example/ns/*/sa/web-*', 'spiffe://a.example/ns/x/sa/web-'));
    assert.ok(!matches('spiffe://a.example/ns/*/sa/web-*', 'spiffe://a.example/ns/x/y/sa/web-1'));
    assert.ok(!matches('spiffe://a.example/aba*aba', 'spiffe://a.example/ababa'));
  });

  test('with ** reaches across slashes, for one segment at least', () => {
    assert.ok(matches('spiffe://a.example/**', 'spiffe://a.example/x'));
    assert.ok(matches('spiffe://a.example/ci/**', 'spiffe://a.example/ci/x/y/z'));
    assert.ok(!matches('spiffe://a.example/ci/**', 'spiffe://a.example/ci'));
    assert.ok(matches('spiffe://a.example/a/**/z', 'spiffe://a.example/a/b/c/z'));
    assert.ok(!matches('spiffe://a.example/a/**/z', 'spiffe://a.example/a/z'));
  });

  test('never reaches what is reserved, of any trust domain', () => {
    for (const rule of ['**', '*/site', '*/**', 'h*/*']) {
      assert.ok(!matches(`spiffe://a.example/${rule}`, 'spiffe://a.example/hansa/site'), rule);
    }
    assert.ok(!matches('spiffe://a.example/*', 'spiffe://a.example/hansa'));
    assert.ok(matches('spiffe://a.example/*', 'spiffe://a.example/hansard'));
  });

  test('that cannot be meant is refused', () => {
    for (const rule of [
      '',
      'a.example/ci',
      'https://a.example/ci',
      'spiffe://a.example',
      'spiffe://a.example/',
      'spiffe://*.example/ci',
      'spiffe://**/ci',
      'spiffe://A.example/ci',
      'spiffe://a.example:8443/ci',
      'spiffe://a.example//ci',
      'spiffe://a.example/ci/',
      'spiffe://a.example/./ci',
      'spiffe://a.example/../ci',
      'spiffe://a.example/c?i',
      'spiffe://a.example/[ab]',
      'spiffe://a.example/%2a',
      'spiffe://a.example/a*b*c',
      'spiffe://a.example/a**',
      'spiffe://a.example/***',
      'spiffe://a.example/**/x/**',
      'spiffe://a.example/hansa',
      'spiffe://a.example/hansa/site',
      'spiffe://a.example/hansa/**',
    ]) {
      assert.throws(
        () => parseAllowRule(rule),
        (error) => hasCode(error, 'HANSA_BAD_REQUEST'),
        rule,
      );
    }
  });
});

/** The documented rules, implemented naively with backtracking. */
function reference(rule: readonly string[], id: readonly string[]): boolean {
  const [first, ...rest] = rule;
  if (first === undefined) return id.length === 0;
  if (first === '**') {
    return id.some((_, taken) => reference(rest, id.slice(taken + 1)));
  }
  return id[0] !== undefined && glob(first, id[0]) && reference(rest, id.slice(1));
}

function glob(pattern: string, text: string): boolean {
  if (pattern === '') return text === '';
  if (pattern[0] === '*') {
    return glob(pattern.slice(1), text) || (text !== '' && glob(pattern, text.slice(1)));
  }
  return pattern[0] === text[0] && glob(pattern.slice(1), text.slice(1));
}

test('rules match exactly what the reference matches', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '-'), minLength: 1, maxLength: 4 });
  const globbed = fc
    .tuple(fc.option(letters, { nil: '' }), fc.option(letters, { nil: '' }))
    .map(([before, after]) => `${before}*${after}`);
  const some = fc.array(fc.oneof(letters, globbed), { maxLength: 3 });
  const rules = fc
    .tuple(some, fc.boolean(), some)
    .map(([head, across, tail]) => [...head, ...(across ? ['**'] : []), ...tail])
    .filter((segments) => segments.length > 0);
  const ids = fc.array(letters, { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(rules, ids, (rule, id) => {
      assert.equal(
        matches(`spiffe://a.example/${rule.join('/')}`, `spiffe://a.example/${id.join('/')}`),
        reference(rule, id),
      );
    }),
    { numRuns: 2000 },
  );
});

test('the longest rule and the longest ID are compared as fast as any', () => {
  const id = SpiffeId.parse(`spiffe://a.example/${'a'.repeat(2000)}`);
  const rule = parseAllowRule(`spiffe://a.example/${'a'.repeat(1000)}*${'a'.repeat(1000)}`);
  assert.ok(allows(rule, id));
  const deep = SpiffeId.parse(`spiffe://a.example${'/a'.repeat(1000)}`);
  assert.ok(!allows(parseAllowRule(`spiffe://a.example${'/*'.repeat(900)}/**/b`), deep));
});
