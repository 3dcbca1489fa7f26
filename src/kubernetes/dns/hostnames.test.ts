import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ValueProblem } from '../../core/config/config-values.ts';
import { HostnameTemplate, parseAnnotationPrefix, parseHostnames } from './hostnames.ts';

const ref = { scope: 'namespaced', namespace: 'shop', name: 'web' } as const;
/** A legal name of this length. */
const long = (length: number): string =>
  `${`a.${`${'a'.repeat(62)}.`.repeat(5)}`.slice(0, length - 8)}.example`.replace('..', 'a.');

describe('names in an annotation', () => {
  test('are separated by commas, without case, spaces and the dot of the root', () => {
    assert.deepEqual(parseHostnames('shop.example'), { names: ['shop.example'], problems: [] });
    const { names } = parseHostnames(' Shop.Example. , www.shop.example,shop.example');
    assert.deepEqual(names, ['shop.example', 'www.shop.example']);
  });

  test('are none where the annotation is empty', () => {
    assert.deepEqual(parseHostnames(' '), { names: [], problems: [] });
  });

  test('leave room for the longer name that ExternalDNS writes beside each, up to 253 characters', () => {
    assert.equal(long(237).length, 237);
    assert.deepEqual(parseHostnames(long(237)).names, [long(237)]);
    for (const length of [238, 253, 254]) {
      const { names, problems } = parseHostnames(long(length));
      assert.deepEqual(names, []);
      assert.match(problems.join(), new RegExp(`has ${length} characters. Use at most 237`));
    }
    const labelled = (length: number): string => `${'a'.repeat(length)}.${'a'.repeat(63)}.example`;
    assert.deepEqual(parseHostnames(labelled(47)).names, [labelled(47)]);
    const { names, problems } = parseHostnames(labelled(48));
    assert.deepEqual(names, []);
    assert.match(problems.join(), /first label has 48 characters. Use at most 47/);
  });

  test('are refused with a reason where they are illegal, and the others stay', () => {
    const illegal = [
      '*.shop.example',
      'shop',
      '-shop.example',
      'shop-.example',
      'sh_op.example',
      'shöp.example',
      `${'a'.repeat(64)}.example`,
      '192.0.2.1',
      'shop..example',
      'shop.example..',
      'shop example.org',
      'https://shop.example',
    ];
    for (const name of illegal) {
      const { names, problems } = parseHostnames(`good.example,${name}`);
      assert.deepEqual(names, ['good.example'], name);
      assert.match(problems.join(), /is refused: /, name);
    }
  });

  test('are at most four', () => {
    const { names, problems } = parseHostnames('a.x,b.x,c.x,d.x,e.x');
    assert.deepEqual(names, ['a.x', 'b.x', 'c.x', 'd.x']);
    assert.match(problems.join(), /at most 4/);
  });
});

describe('the template of names', () => {
  test('makes a name out of the name and the namespace', () => {
    const both = HostnameTemplate.parse('{name}.{namespace}.fed.example');
    assert.deepEqual(both.nameOf(ref).names, ['web.shop.fed.example']);
    const one = HostnameTemplate.parse('svc-{name}.fed.example');
    assert.deepEqual(one.nameOf(ref).names, ['svc-web.fed.example']);
  });

  test('is refused where it is no name, or the same name for all', () => {
    const bad = ['fed.example', '{namespace}.fed.example', '{name}', '{name}.{cluster}.example'];
    const worse = [
      '*.{name}.example',
      '{name}.{name}.example',
      '{name}.Fed.example',
      '{name}.1',
      '',
    ];
    for (const text of [...bad, ...worse, '{name}.a,b.example', '{name} .fed.example']) {
      assert.throws(() => HostnameTemplate.parse(text), ValueProblem, text);
    }
  });

  test('says so where a name would be too long', () => {
    const template = HostnameTemplate.parse(`{name}.{namespace}.${long(200)}`);
    const { names, problems } = template.nameOf({ ...ref, name: 'w'.repeat(63) });
    assert.deepEqual(names, []);
    assert.match(problems.join(), /at most 237/);
  });

  test('reserves the names that it makes for the Services that it makes them for', () => {
    const template = HostnameTemplate.parse('{name}.{namespace}.fed.example');
    assert.equal(template.isReserved('pay.bank.fed.example', ref), true);
    assert.equal(template.isReserved('web.shop.fed.example', ref), false);
    for (const free of [
      'fed.example',
      'shop.fed.example',
      'a.b.c.fed.example',
      'pay.bank.example',
    ]) {
      assert.equal(template.isReserved(free, ref), false, free);
    }
    // The dot of the template is no wildcard.
    assert.equal(template.isReserved('pay.bank.fedxexample', ref), false);
  });
});

test('the prefix of annotations is a DNS name, with or without a slash, and not ours', () => {
  assert.equal(parseAnnotationPrefix('external-dns.example.com/'), 'external-dns.example.com');
  assert.equal(parseAnnotationPrefix('dns.example'), 'dns.example');
  for (const bad of ['', '/', 'a//', 'Example.com', 'a.b/c', 'clusters.hansa.dev', 'a b.example']) {
    assert.throws(() => parseAnnotationPrefix(bad), ValueProblem, bad);
  }
});
