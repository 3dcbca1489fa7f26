import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { parseLabelSelector } from './label-selector.ts';

const labels = { app: 'web', tier: 'front', size: '12', empty: '' };

const matching = [
  '',
  ' ',
  'app',
  '!none',
  'app=web',
  'app==web',
  'app = web , tier',
  'app!=db',
  'none!=x',
  'app in (web,db)',
  'app in(web)',
  'app notin (db)',
  'none notin (a)',
  'empty=',
  'empty in ()',
  'empty in (,x)',
  'size>11',
  'size<13',
  'app=web,tier=front,!none',
];
const notMatching = [
  'none',
  '!app',
  'app=db',
  'app!=web',
  'none=x',
  'app in (db)',
  'app notin (web,db)',
  'size>12',
  'app>1',
  'none>1',
  'app=web,tier=back',
  'toString',
];

suite('a label selector', () => {
  for (const selector of matching) {
    test(`${JSON.stringify(selector)} selects the object`, () => {
      assert.equal(parseLabelSelector(selector).matches(labels), true);
    });
  }
  for (const selector of notMatching) {
    test(`${JSON.stringify(selector)} does not select the object`, () => {
      assert.equal(parseLabelSelector(selector).matches(labels), false);
    });
  }

  test('takes in and notin for words where no operator can stand', () => {
    assert.equal(parseLabelSelector('in in (in,notin)').matches({ in: 'notin' }), true);
    assert.equal(parseLabelSelector('notin=in').matches({ notin: 'in' }), true);
  });

  test('selects objects without labels by what they have not', () => {
    assert.equal(parseLabelSelector('!app,tier!=x').matches(undefined), true);
    assert.equal(parseLabelSelector('app').matches(undefined), false);
  });

  test('knows when it selects everything', () => {
    assert.equal(parseLabelSelector('').empty, true);
    assert.equal(parseLabelSelector('a').empty, false);
  });

  const wrong: readonly (readonly [string, string])[] = [
    [',', "found ',', expected: !, identifier, or 'end of string'"],
    ['a,', "found '', expected: identifier after ','"],
    ['a=b=c', "found '=', expected: ',' or 'end of string'"],
    ['a===b', "unable to parse requirement: found '=', expected: identifier"],
    ['a in b', "unable to parse requirement: found 'b' expected: '('"],
    ['a in (b', "unable to parse requirement: found '', expected: ',' or ')'"],
    ['a b', "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"],
    ['!', "unable to parse requirement: found '', expected: identifier"],
    [
      'a>x',
      `unable to parse requirement: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer`,
    ],
    [
      '/b',
      'unable to parse requirement: <nil>: Invalid value: "/b": prefix part must be non-empty',
    ],
  ];
  for (const [selector, message] of wrong) {
    test(`${JSON.stringify(selector)} is refused`, () => {
      assert.throws(
        () => parseLabelSelector(selector),
        (error: unknown) => hasCode(error, 'HANSA_BAD_REQUEST') && error.message === message,
      );
    });
  }

  test('of any text is parsed or refused, never anything else', () => {
    const part = fc.oneof(
      fc.string(),
      fc.constantFrom('a', '=', '!', ',', '(', ')', ' in ', ' notin ', '<'),
    );
    fc.assert(
      fc.property(fc.array(part), (parts) => {
        try {
          parseLabelSelector(parts.join('')).matches(labels);
        } catch (caught) {
          assert.ok(caught instanceof HansaError);
        }
      }),
    );
  });

  test('that is very long is refused at once', () => {
    assert.throws(() => parseLabelSelector('a,'.repeat(1e6)), /has 2000000 characters/);
  });

  test('of more than 512 terms and values is refused', () => {
    const terms = (count: number) => Array.from({ length: count }, (_, at) => `a!=${at}`).join(',');
    assert.equal(parseLabelSelector(terms(512)).empty, false);
    assert.throws(
      () => parseLabelSelector(terms(513)),
      /The label selector has 513 terms and values/,
    );
    const values = Array.from({ length: 513 }, (_, at) => at).join(',');
    assert.throws(() => parseLabelSelector(`a in (${values})`), /has 513 terms and values/);
  });

  test('of many parts selects what each part alone would', () => {
    const name = fc.constantFrom('a', 'b', 'c');
    const value = fc.constantFrom('1', '2', '3', 'x');
    const number = fc.constantFrom('0', '1', '2', '3');
    const part = fc.oneof(
      name,
      name.map((key) => `!${key}`),
      fc.tuple(name, fc.constantFrom('=', '==', '!='), value).map((pieces) => pieces.join('')),
      fc.tuple(name, fc.constantFrom('<', '>'), number).map((pieces) => pieces.join('')),
      fc
        .tuple(name, fc.constantFrom(' in ', ' notin '), fc.array(value, { minLength: 1 }))
        .map(([key, operator, values]) => `${key}${operator}(${values.join(',')})`),
    );
    const object = fc.dictionary(name, value);
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 6 }), object, (parts, given) => {
        assert.equal(
          parseLabelSelector(parts.join(',')).matches(given),
          parts.every((alone) => parseLabelSelector(alone).matches(given)),
        );
      }),
    );
  });

  test('may have hundreds of parts', () => {
    const many = Array.from({ length: 500 }, (_, at) => `!k${at}`).join(',');
    const often = Array.from({ length: 500 }, (_, at) => `a!=${at}`).join(',');
    for (const selector of [many, often].map(parseLabelSelector))
      for (let object = 0; object < 10_000; object += 1)
        assert.equal(selector.matches({ a: 'x', b: 'y' }), true);
  });
});
