import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Caller,
  controllerCaller,
  personCaller,
  socketOwner,
  tokenCaller,
} from '../../core/access/identity.ts';
import { changeDraft } from '../../core/access/audit-draft.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import { RecordBudget } from './record-budget.ts';

const ci = tokenCaller('ci');

function scene(perSecond = 1) {
  const clock = new VirtualClock();
  const budget = new RecordBudget(perSecond, clock);
  const written: string[] = [];
  const audit = budget.counting({
    record: () => ({ encode: () => Buffer.from('{}') }),
    later: ({ verb }) => void written.push(verb),
    deny: ({ verb }) => void written.push(verb),
  });
  const write = (caller: Caller, records: number, kind = 'Role'): void => {
    for (let at = 0; at < records; at++)
      audit.record(changeDraft(caller, {}, { verb: 'create', kind, name: 'x', reason: '' }));
  };
  return { clock, budget, audit, written, write };
}

const isTooMany = (seconds: number) => (error: unknown) =>
  hasCode(error, 'HANSA_TOO_MANY_REQUESTS') &&
  error.details?.retryAfterSeconds === seconds &&
  /token:ci.*limits\.recordsPerSecond is 1\./.test(error.message);

test('a caller that wrote too many records is refused until its time has come', async () => {
  const { clock, budget, write } = scene();
  write(ci, 299);
  budget.check(ci);
  write(ci, 1);
  assert.throws(() => budget.check(ci), isTooMany(1));
  write(ci, 10);
  assert.throws(() => budget.check(ci), isTooMany(11));
  await clock.advance(11_000);
  budget.check(ci);
});

test('a certificate counts with the token that obtained it, and others do not', () => {
  const { budget, write } = scene();
  write(tokenCaller('ci', 'certificate', '0a'), 300);
  assert.throws(() => budget.check(ci), isTooMany(1));
  budget.check(tokenCaller('cd'));
  budget.check(personCaller('alice', '0b'));
});

test('user SVIDs, which need no right, cost a hundred', () => {
  const { budget, write } = scene();
  write(ci, 3, 'UserSVID');
  assert.throws(() => budget.check(ci), isTooMany(1));
});

test('the owner of the site and its controllers always have room', () => {
  const { budget, write } = scene();
  for (const caller of [socketOwner, personCaller('admin', '0c'), controllerCaller('site')]) {
    write(caller, 5000);
    budget.check(caller);
  }
});

test('several shells and clients that renew never come near the limit', async () => {
  const { clock, budget, write } = scene(100);
  // Two hundred programs with one token, each of which renews twice an hour, all in the same minute.
  for (let half = 0; half < 48; half++) {
    for (let shell = 0; shell < 200; shell++) {
      budget.check(ci);
      write(ci, 1, 'UserSVID');
    }
    await clock.advance(1_800_000);
  }
});

test('a limit of nothing is none', () => {
  const { budget, write } = scene(0);
  write(ci, 100_000);
  budget.check(ci);
});

test('records that are written later count, and denials do not', () => {
  const { budget, audit, written } = scene();
  const draft = changeDraft(ci, {}, { verb: 'renew', kind: 'SVID', name: 'x', reason: '' });
  for (let at = 0; at < 300; at++) audit.deny(draft);
  budget.check(ci);
  for (let at = 0; at < 300; at++) audit.later(draft);
  assert.throws(() => budget.check(ci), isTooMany(1));
  assert.equal(written.length, 600);
});
