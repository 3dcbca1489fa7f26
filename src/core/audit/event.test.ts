import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { hasCode } from '../errors/error.ts';
import { type AuditEvent, encodeEvent, largestRowBytes, parseEvent } from './event.ts';

const event: AuditEvent = {
  time: '2026-01-01T00:00:00.000Z',
  index: 12,
  revision: 40,
  actor: { user: 'alice', groups: ['system:authenticated'], via: 'certificate', address: '::1' },
  verb: 'create',
  kind: 'Role',
  name: 'viewer',
  outcome: 'allow',
  changed: ['spec.rules'],
};

const word = fc.string({ unit: 'binary', maxLength: 40 });
const time = fc
  .date({ min: new Date(0), max: new Date('9999-12-31T00:00:00Z'), noInvalidDate: true })
  .map((date) => date.toISOString());
const optional: { requiredKeys: [] } = { requiredKeys: [] };
const anyEvent: fc.Arbitrary<AuditEvent> = fc
  .tuple(
    fc.record({
      time,
      index: fc.maxSafeNat(),
      verb: word,
      outcome: fc.constantFrom('allow', 'deny', 'error'),
    }),
    fc.record(
      {
        revision: fc.maxSafeNat(),
        kind: word,
        name: word,
        uid: word,
        subresource: word,
        code: word,
        reason: word,
        changed: fc.array(word, { maxLength: 5 }),
        requestId: word,
        count: fc.nat(),
        since: time,
        claim: fc
          .tuple(word, fc.option(word))
          .map(([user, address]) => (address === null ? { user } : { user, address })),
      },
      optional,
    ),
    fc.record({ user: word, groups: fc.array(word, { maxLength: 4 }), via: word }),
    fc.record({ credential: word, address: word }, optional),
  )
  .map(([required, rest, actor, more]) => ({ ...required, ...rest, actor: { ...actor, ...more } }));

function refused(row: string | Buffer, why: RegExp): void {
  assert.throws(
    () => parseEvent(Buffer.from(row)),
    (error) => hasCode(error, 'HANSA_AUDIT_INVALID') && why.test(error.message),
    String(row).slice(0, 100),
  );
}

describe('an audit event', () => {
  test('has one canonical form', () => {
    assert.equal(
      encodeEvent(event).toString(),
      '{"time":"2026-01-01T00:00:00.000Z","index":12,"revision":40,"actor":{"user":"alice","groups":["system:authenticated"],"via":"certificate","address":"::1"},"verb":"create","kind":"Role","name":"viewer","outcome":"allow","changed":["spec.rules"]}',
    );
    const { actor, ...rest } = event;
    const shuffled = { ...Object.fromEntries(Object.entries(rest).toReversed()), actor };
    assert.deepEqual(encodeEvent(shuffled as AuditEvent), encodeEvent(event));
  });

  test('is read as it was written', () => {
    fc.assert(
      fc.property(anyEvent, (any) => {
        assert.deepEqual(parseEvent(encodeEvent(any)), any);
      }),
    );
  });

  test('never holds a newline, and begins with time and index', () => {
    fc.assert(
      fc.property(anyEvent, (any) => {
        const row = encodeEvent(any);
        assert.ok(!row.includes('\n'));
        assert.ok(row.toString().startsWith(`{"time":"${any.time}","index":${any.index},`));
      }),
    );
  });

  test('is bounded, whatever a caller calls itself', () => {
    const long = '\u0001'.repeat(100_000);
    const row = encodeEvent({
      ...event,
      actor: { user: long, groups: Array.from({ length: 1000 }, () => long), via: long },
      verb: long,
      name: long,
      reason: long,
      changed: Array.from({ length: 1000 }, () => long),
    });
    assert.ok(row.length < largestRowBytes);
    assert.deepEqual(encodeEvent(parseEvent(row)), row);
  });

  test('cuts a long text without cutting a character in two', () => {
    const row = encodeEvent({ ...event, name: '😀'.repeat(200) });
    assert.deepEqual(encodeEvent(parseEvent(row)), row);
    assert.ok(parseEvent(row).name?.isWellFormed());
  });

  test('is refused where it is not JSON, not an object, or too large', () => {
    refused('', /not JSON/);
    refused('{', /not JSON/);
    refused('[]', /not an object/);
    refused('null', /not an object/);
    refused(Buffer.alloc(largestRowBytes + 1, 32), /bytes/);
  });

  test('is refused where a field is missing or of another type', () => {
    const json = JSON.parse(encodeEvent(event).toString()) as Record<string, unknown>;
    refused(JSON.stringify({ ...json, time: undefined }), /time is not a time/);
    refused(JSON.stringify({ ...json, time: '2026-01-01' }), /time is not a time/);
    refused(JSON.stringify({ ...json, index: -1 }), /index is not a whole number/);
    refused(JSON.stringify({ ...json, index: 1.5 }), /index is not a whole number/);
    refused(JSON.stringify({ ...json, actor: 'alice' }), /actor is not an object/);
    refused(JSON.stringify({ ...json, actor: { user: 1 } }), /actor\.user is not a string/);
    refused(JSON.stringify({ ...json, outcome: 'maybe' }), /outcome is not allow/);
    refused(JSON.stringify({ ...json, changed: [1] }), /changed is not a list of strings/);
  });

  test('is refused in any other form: unknown or repeated fields, spaces, another order', () => {
    const text = encodeEvent(event).toString();
    const json = JSON.parse(text) as Record<string, unknown>;
    refused(JSON.stringify({ ...json, secret: 'x' }), /another field order or spacing/);
    refused(
      text.replace('"verb":"create"', '"verb":"create","verb":"create"'),
      /another field order or spacing/,
    );
    refused(text.replace(',"kind"', ', "kind"'), /another field order or spacing/);
    refused(
      JSON.stringify(Object.fromEntries(Object.entries(json).toReversed())),
      /another field order or spacing/,
    );
    refused(`${text}\n`, /another field order or spacing/);
  });
});
