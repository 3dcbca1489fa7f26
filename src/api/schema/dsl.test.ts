import assert from 'node:assert/strict';
import { test } from 'node:test';
import { optional, required, s } from './dsl.ts';
import type { Infer } from './schema.ts';

/** Compiles only where both types are the same. */
type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Same<Flat<A>, Flat<B>>): void {}
/** An intersection of objects as the one object that it is. */
type Flat<T> = T extends readonly (infer I)[]
  ? readonly Flat<I>[]
  : T extends object
    ? { [K in keyof T]: Flat<T[K]> }
    : T;

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
