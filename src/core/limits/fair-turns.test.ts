import assert from 'node:assert/strict';
import { test } from 'node:test';
import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';
import { FairTurns } from './fair-turns.ts';

test('a party with one task waits for one task of each other party, not for all of them', async () => {
  const turns = new FairTurns<string>();
  const ran: string[] = [];
  for (let index = 0; index < 1000; index++) turns.enter('many', () => ran.push('many'));
  turns.enter('few', () => ran.push('few'));
  while (!ran.includes('few')) await yieldToEventLoop();
  assert.ok(ran.indexOf('few') <= 2, `${ran.indexOf('few')} tasks before it`);
  while (ran.length < 1001) await yieldToEventLoop();
});

test('a party that asks for another turn in its turn lets the event loop run before', async () => {
  const turns = new FairTurns<string>();
  const taken: number[] = [];
  const again = (): void => {
    if (taken.push(taken.length) < 100) turns.enter('one', again);
  };
  turns.enter('one', again);
  assert.equal(taken.length, 1);
  while (taken.length < 100) {
    const before = taken.length;
    await yieldToEventLoop();
    assert.ok(taken.length - before <= 1);
  }
});

test('the tasks of a party run in order, also those that come after a pause', async () => {
  const turns = new FairTurns<number>();
  const ran: number[] = [];
  for (const index of [0, 1, 2]) turns.enter(7, () => ran.push(index));
  while (ran.length < 3) await yieldToEventLoop();
  await yieldToEventLoop();
  turns.enter(7, () => ran.push(3));
  assert.deepEqual(ran, [0, 1, 2, 3]);
});
