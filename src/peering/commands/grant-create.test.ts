import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { type CreateOptions, grantManifest } from './grant-create.ts';

const options: CreateOptions = { peer: 'bruges.example', offer: ['db'], scope: ['read'] };
const nowMs = Date.UTC(2026, 0, 1, 12, 0, 0, 789);
const expiry = (more: Partial<CreateOptions>): unknown =>
  (grantManifest('db', { ...options, ...more }, nowMs)['spec'] as Record<string, unknown>)[
    'expiresAt'
  ];

test('a grant names what was asked for, and nothing else', () => {
  const spec = grantManifest(
    'app1',
    { peer: 'bruges.example', cluster: ['app1'], service: ['shop/web'], scope: ['read'] },
    nowMs,
  )['spec'] as Record<string, unknown>;
  assert.deepEqual(spec['clusters'], ['app1']);
  assert.deepEqual(spec['services'], ['shop/web']);
  assert.equal('offers' in spec, false);
});

test('a grant of nothing is refused', () => {
  assert.throws(
    () => grantManifest('nothing', { peer: 'bruges.example', scope: ['read'] }, nowMs),
    /--offer, --cluster or --service/,
  );
});

test('a grant for some time ends at a whole second', () => {
  assert.equal(expiry({ ttl: 3_600_000 }), '2026-01-01T13:00:00Z');
});

test('a grant ends when it is told to, or not at all', () => {
  assert.equal(expiry({ expiresAt: '2027-01-01T00:00:00Z' }), '2027-01-01T00:00:00Z');
  assert.equal(expiry({}), undefined);
});

for (const [what, more] of [
  ['a time that is none', { expiresAt: 'tomorrow' }],
  ['a time and a duration', { expiresAt: '2027-01-01T00:00:00Z', ttl: 1000 }],
] as const) {
  test(`${what} is refused`, () => {
    assert.throws(
      () => expiry(more),
      (caught) => caught instanceof HansaError && caught.code === 'HANSA_USAGE',
    );
  });
}
