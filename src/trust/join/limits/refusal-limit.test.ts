import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../../core/clock/virtual.ts';
import { RefusalLimit, usualRates } from './refusal-limit.ts';

const tooMany = { code: 'HANSA_TOO_MANY_REQUESTS', message: /Try again in \d+ s/ };

function take(limit: RefusalLimit, address: string, times: number): void {
  for (let at = 0; at < times; at++) limit.enter(address);
}

test('a source that proves nothing is limited after its burst, and has one more a second', async () => {
  const clock = new VirtualClock();
  const limit = new RefusalLimit(clock);
  take(limit, '192.0.2.1', usualRates.source.burst);
  assert.throws(() => limit.enter('192.0.2.1'), tooMany);
  limit.enter('192.0.2.2');
  await clock.advance(1000);
  limit.enter('192.0.2.1');
  assert.throws(() => limit.enter('192.0.2.1'), tooMany);
});

test('a fleet behind one address that proves itself is never limited', () => {
  const limit = new RefusalLimit(new VirtualClock());
  for (let at = 0; at < 10_000; at++) limit.enter('192.0.2.1')();
});

test('addresses of one network share a larger limit, and other networks have their own', () => {
  const limit = new RefusalLimit(new VirtualClock());
  for (let at = 0; at < usualRates.network.burst; at++) limit.enter(`192.0.2.${at}`);
  assert.throws(() => limit.enter('192.0.2.200'), tooMany);
  limit.enter('192.0.3.1');
});

test('an IPv6 host has one limit for its /64, and a network one for its /48', () => {
  const limit = new RefusalLimit(new VirtualClock());
  for (let at = 0; at < usualRates.source.burst; at++) limit.enter(`2001:db8:1:2::${at}`);
  assert.throws(() => limit.enter('2001:db8:1:2:ffff::1'), tooMany);
  for (let at = 0; at < usualRates.network.burst - usualRates.source.burst; at++) {
    limit.enter(`2001:db8:1:${(at + 16).toString(16)}::1`);
  }
  assert.throws(() => limit.enter('2001:db8:1:9999::1'), tooMany);
  limit.enter('2001:db8:2::1');
});

test('an IPv4 address that came over IPv6 is that address', () => {
  const limit = new RefusalLimit(new VirtualClock());
  take(limit, '::ffff:192.0.2.1', usualRates.source.burst);
  assert.throws(() => limit.enter('192.0.2.1'), tooMany);
});
