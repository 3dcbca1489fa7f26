import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { dnsAnnotation } from '../names.ts';
import { byHand, compileNames, writtenNames } from './name-annotations.ts';

const prefix = 'dns.example';
const [hostname, target] = [`${prefix}/hostname`, `${prefix}/target`];
const wanted = { hostname: 'shop.example', target: '192.0.2.1' };
const nothing = { hostname: undefined, target: undefined };
const others = { mine: 'yes' };

describe('the annotations of names on a copy', () => {
  test('are added beside those of users, and removed again', () => {
    const named = compileNames(others, prefix, wanted);
    assert.equal(named[hostname], 'shop.example');
    assert.equal(named[target], '192.0.2.1');
    assert.equal(named['mine'], 'yes');
    assert.deepEqual(writtenNames(named), wanted);
    assert.deepEqual(compileNames(named, prefix, nothing), others);
  });

  test('stay the same object where nothing changes', () => {
    const named = compileNames({}, prefix, wanted);
    assert.equal(compileNames(named, prefix, wanted), named);
    assert.equal(compileNames(others, prefix, nothing), others);
  });

  test('follow the wanted values', () => {
    const named = compileNames({}, prefix, wanted);
    const moved = compileNames(named, prefix, { ...wanted, target: '192.0.2.2' });
    assert.deepEqual(writtenNames(moved), { ...wanted, target: '192.0.2.2' });
  });

  test('are written again where a user removed them', () => {
    const named = compileNames({}, prefix, wanted);
    const { [hostname]: _, ...rest } = named;
    assert.deepEqual(compileNames(rest, prefix, wanted), named);
  });

  test('of a user are never changed or removed', () => {
    const own = { [hostname]: 'mine.example', [target]: 'lb.example' };
    assert.equal(compileNames(own, prefix, wanted), own);
    assert.equal(compileNames(own, prefix, nothing), own);
    assert.equal(byHand(own, prefix, 'hostname'), 'mine.example');
    assert.deepEqual(writtenNames(own), nothing);
  });

  test('count as those of a user once a user changed them', () => {
    const edited = { ...compileNames({}, prefix, wanted), [hostname]: 'mine.example' };
    assert.equal(byHand(edited, prefix, 'hostname'), 'mine.example');
    assert.equal(byHand(edited, prefix, 'target'), undefined);
    const next = compileNames(edited, prefix, { hostname: 'other.example', target: '192.0.2.9' });
    assert.equal(next[hostname], 'mine.example');
    assert.equal(next[target], '192.0.2.9');
    assert.deepEqual(compileNames(next, prefix, nothing), { [hostname]: 'mine.example' });
  });

  test('move to a new prefix', () => {
    const old = compileNames(others, prefix, wanted);
    const moved = compileNames(old, 'new.example', wanted);
    assert.equal(moved[hostname], undefined);
    assert.equal(moved['new.example/hostname'], 'shop.example');
    assert.deepEqual(compileNames(moved, 'new.example', nothing), others);
  });

  test('survive a mark that cannot be read', () => {
    for (const mark of ['', ' ', 'x', 'dns.example - -', 'dns.example '.repeat(5)]) {
      const live = { [dnsAnnotation]: mark, [hostname]: 'mine.example' };
      assert.equal(compileNames(live, prefix, wanted)[hostname], 'mine.example', mark);
    }
  });
});
