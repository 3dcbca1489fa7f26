import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { apiVersion } from '../object.ts';
import { pruneObject, type Untyped, validateObject } from '../resource-schema.ts';
import { joinTokenKind } from './join-token.ts';

/** As it would come over the wire: what is undefined is not there. */
function problems(given: unknown): string[] {
  const spec: unknown = JSON.parse(JSON.stringify(given));
  const object = { apiVersion, kind: 'JoinToken', metadata: { name: 'a' }, spec } as Untyped;
  const pruned = pruneObject(joinTokenKind, object);
  assert.deepEqual(pruned.unknown, []);
  const found = validateObject(joinTokenKind, pruned.object).map(({ field }) => field);
  // Where the structure is wrong, it is told that rules were not looked at.
  return found.filter((field) => field !== '<nil>');
}

const spiffe = {
  method: 'spiffe',
  roles: ['bot'],
  botName: 'ci',
  expiresAt: '2027-01-01T00:00:00Z',
  spiffe: { allow: [{ spiffeID: 'spiffe://bruges.example/ci/*' }] },
};
const secret = { method: 'secret', roles: ['agent'], expiresAt: '2027-01-01T00:00:00Z' };

suite('a join token', () => {
  test('names a method, roles, and what both need', () => {
    assert.deepEqual(problems(spiffe), []);
    assert.deepEqual(problems({ ...spiffe, expiresAt: undefined }), []);
    assert.deepEqual(problems({ ...spiffe, roles: ['agent', 'bot'] }), []);
    assert.deepEqual(problems(secret), []);
  });

  test('needs rules for the method spiffe, and has none for another', () => {
    assert.deepEqual(problems({ ...spiffe, spiffe: undefined }), ['spec']);
    assert.deepEqual(problems({ ...secret, spiffe: spiffe.spiffe }), ['spec']);
    assert.deepEqual(problems({ ...spiffe, spiffe: { allow: [] } }), ['spec.spiffe.allow']);
  });

  test('has a name for its bot, and only for a bot', () => {
    assert.deepEqual(problems({ ...spiffe, botName: undefined }), ['spec']);
    assert.deepEqual(problems({ ...secret, botName: 'ci' }), ['spec']);
    for (const botName of ['', 'CI', 'a/b', '..', '-a', 'a'.repeat(64)]) {
      assert.deepEqual(problems({ ...spiffe, botName }).slice(0, 1), ['spec.botName'], botName);
    }
  });

  test('with a secret ends some time', () => {
    assert.deepEqual(problems({ ...secret, expiresAt: undefined }), ['spec']);
  });

  test('has methods, roles and rules that are known', () => {
    assert.deepEqual(problems({ ...spiffe, method: 'token' }).slice(0, 1), ['spec.method']);
    assert.deepEqual(problems({ ...secret, roles: [] }), ['spec.roles']);
    assert.deepEqual(problems({ ...secret, roles: ['admin'] }), ['spec.roles[0]']);
    const allow = [{ spiffeID: 'spiffe://*.example/ci' }, { spiffeID: 'https://a.example/ci' }];
    assert.deepEqual(problems({ ...spiffe, spiffe: { allow } }), [
      'spec.spiffe.allow[0].spiffeID',
      'spec.spiffe.allow[1].spiffeID',
    ]);
  });

  test('may be for one agent, for one use, and set labels', () => {
    const labels = { zone: 'harbour', 'example.com/tier': '' };
    assert.deepEqual(problems({ ...secret, agentName: 'crane_1', singleUse: true, labels }), []);
    const both = { ...spiffe, roles: ['agent', 'bot'], agentName: 'crane-1', labels };
    assert.deepEqual(problems(both), []);
    assert.deepEqual(problems({ ...spiffe, singleUse: true }), []);
  });

  test('has a name or labels for agents only', () => {
    assert.deepEqual(problems({ ...spiffe, agentName: 'crane-1' }), ['spec']);
    assert.deepEqual(problems({ ...spiffe, labels: { zone: 'harbour' } }), ['spec']);
    assert.deepEqual(problems({ ...spiffe, labels: {} }), ['spec']);
  });

  test('is for no agent with the name of the machine of the site, or without a valid name', () => {
    assert.deepEqual(problems({ ...secret, agentName: 'site' }), ['spec']);
    for (const agentName of ['', 'Crane', 'a/b', '..', 'a'.repeat(64)]) {
      assert.deepEqual(problems({ ...secret, agentName }).slice(0, 1), ['spec.agentName']);
    }
  });

  test('sets a limited number of labels with valid values', () => {
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, '']));
    assert.deepEqual(problems({ ...secret, labels: many }), ['spec.labels']);
    for (const value of ['a b', '-a', 'a'.repeat(64), 'ä']) {
      assert.deepEqual(problems({ ...secret, labels: { zone: value } }).slice(0, 1), [
        'spec.labels.zone',
      ]);
    }
    assert.deepEqual(problems({ ...secret, labels: { zone: 1 } }), ['spec.labels.zone']);
    assert.deepEqual(problems({ ...secret, singleUse: 'yes' }), ['spec.singleUse']);
  });
});
