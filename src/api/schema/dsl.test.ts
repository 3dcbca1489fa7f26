import assert from 'node:assert/strict';
import { test } from 'node:test';
import { optional, required, s } from './dsl.ts';
import type { Infer } from './schema.ts';

/** True where each of two types can stand for the other. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

/** Compiles only where both types are the same. */
function same<A, B>(holds: Same<A, B>): void {
  assert.equal(holds, true);
}

const port = s.object({
  description: 'A port.',
  fields: {
    name: required(s.string({ description: 'The name.' })),
    protocol: optional(
      s.string({ description: 'The protocol.', enum: ['TCP', 'UDP'], default: 'TCP' }),
    ),
    number: optional(s.integer({ description: 'The number.' })),
  },
});

test('the type of a value follows from its schema', () => {
  same<
    Infer<typeof port>,
    { readonly name: string; readonly protocol: 'TCP' | 'UDP'; readonly number?: number }
  >(true);
  const ports = s.list({ description: 'Ports.', listType: 'map', keys: ['name'], items: port });
  same<Infer<typeof ports>, readonly Infer<typeof port>[]>(true);
  const labels = s.map({ description: 'Labels.', values: s.string({ description: 'A value.' }) });
  same<Infer<typeof labels>, Readonly<Record<string, string>>>(true);
  const when = s.time({ description: 'When.' });
  same<Infer<typeof when>, string>(true);
  const any = s.any({ description: 'Anything.' });
  same<Infer<typeof any>, unknown>(true);
});

test('a field with a default is always there, one without only where required', () => {
  const value: Infer<typeof port> = { name: 'http', protocol: 'TCP' };
  assert.equal(value.number, undefined);
  // @ts-expect-error: the default fills the protocol in, so a defaulted value has one.
  const missing: Infer<typeof port> = { name: 'http' };
  // @ts-expect-error: only what the enum lists.
  const wrong: Infer<typeof port> = { name: 'http', protocol: 'SCTP' };
  assert.notDeepEqual(missing, wrong);
});

test('a schema of the words is the plain value that it looks like', () => {
  assert.deepEqual(s.string({ description: 'A name.', maxLength: 3 }), {
    type: 'string',
    description: 'A name.',
    maxLength: 3,
  });
  assert.equal(s.time({ description: 'When.' }).format, 'date-time');
  assert.equal(required(port).required, true);
  assert.equal(optional(port).required, false);
});
