import assert from 'node:assert/strict';
import { test } from 'node:test';
import { networkOf } from './source-network.ts';

test('addresses of one party are one network', () => {
  for (const [address, network] of [
    ['192.0.2.7', '192.0.2.0/24'],
    ['192.0.2.255', '192.0.2.0/24'],
    ['::ffff:192.0.2.7', '192.0.2.0/24'],
    ['::FFFF:192.0.2.7', '192.0.2.0/24'],
    ['2001:db8:1:2::3', '2001:db8:1::/48'],
    ['2001:db8:1:ffff:ffff:ffff:ffff:ffff', '2001:db8:1::/48'],
    ['::1', '::/48'],
  ] as const)
    assert.equal(networkOf(address), network, address);
});

test('what is no address is one network, whatever it says', () => {
  for (const text of ['', 'x', '192.0.2', 'fe80::1%eth0', '1'.repeat(100_000)])
    assert.equal(networkOf(text), 'unknown');
});
