import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../../core/clock/virtual.ts';
import { createLog } from '../../../core/log/json-log.ts';
import { OccasionalLog } from './occasional-log.ts';

test('what happens too often is counted, and told with the next line', async () => {
  const clock = new VirtualClock();
  const lines: string[] = [];
  const sink = { write: (line: string) => lines.push(line) };
  const log = createLog({ clock, level: 'info', format: 'json', sink });
  const denials = new OccasionalLog(log, clock, 'denied');
  for (let index = 0; index < 1000; index++) denials.write({ index });
  assert.equal(lines.length, 20);
  await clock.advance(60_000);
  denials.write({ index: 1000 });
  assert.equal(lines.length, 21);
  assert.match(lines[20] ?? '', /"index":1000,"unwritten":980/);
});
