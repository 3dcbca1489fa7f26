import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HostNames, refreshMs } from './host-names.ts';

function scene(lookUp: (name: string) => Promise<readonly string[]>) {
  const clock = new VirtualClock();
  const changed: string[] = [];
  const asked: string[] = [];
  const names = new HostNames({
    clock,
    lookUp: (name) => {
      asked.push(name);
      return lookUp(name);
    },
    changed: (keys) => void changed.push(...keys),
  });
  return { clock, changed, asked, names };
}

describe('host names', () => {
  test('are looked up in the background, and keys that asked hear of the answer', async () => {
    const { clock, changed, asked, names } = scene(() =>
      Promise.resolve(['192.0.2.2', '192.0.2.1']),
    );
    const first = names.addressesOf('a', ['lb.example'], 'one');
    assert.deepEqual(first, { addresses: [], failed: undefined, isPending: true });
    names.addressesOf('a', ['lb.example'], 'two');
    await clock.advance(1);
    assert.deepEqual(changed, ['one', 'two']);
    assert.deepEqual(asked, ['lb.example']);
    const later = names.addressesOf('a', ['lb.example'], 'one');
    assert.deepEqual(later.addresses, ['192.0.2.1', '192.0.2.2']);
    await clock.advance(refreshMs);
    names.addressesOf('a', ['lb.example'], 'one');
    await clock.advance(1);
    assert.equal(asked.length, 2);
    assert.equal(changed.length, 2, 'the same answer is no change');
  });

  test('that are no names are never looked up', async () => {
    const { clock, asked, names } = scene(() => Promise.resolve([]));
    const bad = ['', '-x.example', 'a b', 'a/b', 'a'.repeat(254), 'a..b', '.'];
    for (const name of bad) assert.equal(names.addressesOf('a', [name], 'one').failed, name);
    await clock.advance(1);
    assert.deepEqual(asked, []);
  });

  test('are bounded in number and in addresses', async () => {
    const many = Array.from({ length: 300 }, (_, host) => `192.0.2.${host}`);
    const { clock, asked, names } = scene(() => Promise.resolve(many));
    const list = Array.from({ length: 40 }, (_, at) => `lb-${at}.example`);
    names.addressesOf('a', list, 'one');
    await clock.advance(10_000);
    assert.equal(asked.length, 16);
    assert.equal(names.addressesOf('a', ['lb-1.example'], 'one').addresses.length, 16);
  });

  test('of one cluster leave room for those of others, and their lookups delay no other', async () => {
    const { clock, asked, names } = scene((name) =>
      name.startsWith('dead') ? new Promise(() => undefined) : Promise.resolve(['192.0.2.1']),
    );
    for (let at = 0; at < 12_000; at++) names.addressesOf('a', [`dead-${at}.example`], 'one');
    assert.equal(names.addressesOf('a', ['more.example'], 'one').failed, 'more.example');
    assert.equal(names.addressesOf('b', ['lb.example'], 'two').failed, undefined);
    await clock.advance(1);
    assert.ok(asked.includes('lb.example'));
    assert.deepEqual(names.addressesOf('b', ['lb.example'], 'two').addresses, ['192.0.2.1']);
  });

  test('are pending until the first answer, but for ten minutes at most', async () => {
    let isWell = false;
    const { clock, names } = scene(() =>
      isWell ? Promise.resolve(['192.0.2.1']) : Promise.reject(new Error('no')),
    );
    const ask = (name: string) => names.addressesOf('a', [name], 'one');
    assert.equal(ask('lb.example').isPending, true);
    await clock.advance(refreshMs);
    assert.deepEqual(ask('lb.example'), { addresses: [], failed: 'lb.example', isPending: true });
    for (let minute = 0; minute < 9; minute++) {
      ask('lb.example');
      await clock.advance(refreshMs);
    }
    assert.equal(ask('lb.example').isPending, false);
    isWell = true;
    ask('other.example');
    await clock.advance(1);
    assert.equal(ask('other.example').isPending, false);
  });

  test('that nobody asks for any more are forgotten', async () => {
    const { clock, asked, names } = scene(() => Promise.resolve(['192.0.2.1']));
    names.addressesOf('a', ['lb.example'], 'one');
    await clock.advance(6 * refreshMs);
    names.addressesOf('a', ['other.example'], 'one');
    await clock.advance(1);
    assert.deepEqual(names.addressesOf('a', ['lb.example'], 'one').addresses, []);
    assert.equal(asked.length, 3);
  });

  test('that fail keep their last addresses for ten minutes', async () => {
    let isWell = true;
    const { clock, names } = scene(() =>
      isWell ? Promise.resolve(['192.0.2.1']) : Promise.reject(new Error('no')),
    );
    const ask = async (times: number) => {
      for (let at = 0; at < times; at++) {
        names.addressesOf('a', ['lb.example'], 'one');
        await clock.advance(refreshMs);
      }
      return names.addressesOf('a', ['lb.example'], 'one');
    };
    await ask(1);
    isWell = false;
    assert.deepEqual(await ask(5), {
      addresses: ['192.0.2.1'],
      failed: 'lb.example',
      isPending: false,
    });
    assert.deepEqual((await ask(7)).addresses, []);
  });
});
