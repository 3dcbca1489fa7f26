import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainAssignment } from './explain-assignment.ts';

const named = (...names: readonly string[]) => ({ spec: { agents: { names } } });

test('an entry tells the agents on which it applies, and how many more', () => {
  const all = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
  const { status, message } = explainAssignment(named(...all), all);
  assert.equal(status, 'True');
  assert.equal(message, 'The entry applies on a, b, c, d, e and 2 more.');
  assert.equal(explainAssignment({ spec: {} }, ['site']).message, 'The entry applies on site.');
});

test('an entry tells which of its named agents have not joined', () => {
  const some = explainAssignment(named('crane-1', 'crane-2'), ['crane-1']);
  assert.equal(some.status, 'True');
  assert.match(some.message, /applies on crane-1\. No machine has joined as crane-2\./);
  const none = explainAssignment(named('crane-1', 'crane-2'), []);
  assert.deepEqual([none.status, none.reason], ['False', 'NoSuchAgent']);
  assert.match(none.message, /no machine has joined as crane-1, crane-2\..* spec\.agents\.names/);
});

test('an entry whose labels no agent has tells how to set them', () => {
  const matchLabels = { zone: 'harbour', tier: '' };
  const { status, reason, message } = explainAssignment(
    { spec: { agents: { selector: { matchLabels } } } },
    [],
  );
  assert.deepEqual([status, reason], ['False', 'NoMatch']);
  assert.match(
    message,
    /labels zone=harbour, tier=\. .*kubectl label agent NAME zone=harbour tier=,/,
  );
});
