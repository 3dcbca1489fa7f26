import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problemOf } from './problem.ts';

const told = (problem: string): string =>
  problemOf({ status: 403, headers: {}, body: Buffer.from(problem) }, 0).message;

test('a problem is told with those below it, and no deeper', () => {
  const inner = { detail: 'inner' };
  const below = { type: 'urn:ietf:params:acme:error:caa', detail: 'below', subproblems: [inner] };
  const message = told(JSON.stringify({ detail: 'above', subproblems: [below] }));
  assert.equal(message, 'unknown: above; caa: below (HTTP 403)');
});

test('problems nested without end are told as any other', () => {
  const deep = `${'{"subproblems":['.repeat(20_000)}{}${']}'.repeat(20_000)}`;
  assert.match(told(deep), /^unknown: no detail given/);
});
