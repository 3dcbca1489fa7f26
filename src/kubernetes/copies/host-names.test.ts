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
    const first = names.addressesOf(['lb.example'], 'one');
    assert.deepEqual(first, { addresses: [], failed: undefined, isPending: true });
    names.addressesOf(['lb.example'], 'two');
    await clock.advance(1);
    assert.deepEqual(changed, ['one', 'two']);
    assert.deepEqual(asked, ['lb.example']);
    const later = names.addressesOf(['lb.example'], 'one');
    assert.deepEqual(later.addresses, ['192.0.2.1', '192.0.2.2']);
    await clock.advance(refreshMs);
    names.addressesOf(['lb.example'], 'one');
    await clock.advance(1);
    assert.equal(asked.length, 2);
    assert.equal(changed.length, 2, 'the same answer is no change');
  });

  test('that are no names are never looked up', async () => {
    const { clock, asked, names } = scene(() => Promise.resolve([]));
    const bad = ['', '-x.example', 'a b', 'a/b', 'a'.repeat(254), 'a..b', '.'];
    for (const name of bad) assert.equal(names.addressesOf([name], 'one').failed, name);
    await clock.advance(1);
    assert.deepEqual(asked, []);
  });

  test('are bounded in number and in addresses', async () => {
    const many = Array.from({ length: 300 }, (_, host) => `192.0.2.${host}`);
    const { clock, asked, names } = scene(() => Promise.resolve(many));
    const list = Array.from({ length: 40 }, (_, at) => `lb-${at}.example`);
    names.addressesOf(list, 'one');
    await clock.advance(10_000);
    assert.equal(asked.length, 16);
    assert.equal(names.addressesOf(['lb-1.example'], 'one').addresses.length, 64);
  });

  test('that nobody asks for any more are forgotten', async () => {
    const { clock, asked, names } = scene(() => Promise.resolve(['192.0.2.1']));
    names.addressesOf(['lb.example'], 'one');
    await clock.advance(6 * refreshMs);
    names.addressesOf(['other.example'], 'one');
    await clock.advance(1);
    assert.deepEqual(names.addressesOf(['lb.example'], 'one').addresses, []);
    assert.equal(asked.length, 3);
  });

  test('that fail keep their last addresses for ten minutes', async () => {
    let isWell = true;
    const { clock, names } = scene(() =>
      isWell ? Promise.resolve(['192.0.2.1']) : Promise.reject(new Error('no')),
    );
    const ask = async (times: number) => {
      for (let at = 0; at < times; at++) {
        names.addressesOf(['lb.example'], 'one');
        await clock.advance(refreshMs);
      }
      return names.addressesOf(['lb.example'], 'one');
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
