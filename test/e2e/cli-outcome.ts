// The outcome of a command line, for tests of commands: a result or an error.

import assert from 'node:assert/strict';
import type { Ran } from './daemon.ts';

export const roleManifest = (name: string, verbs: string, labels = '{}'): string =>
  `apiVersion: hansa.dev/v1alpha1\nkind: Role\nmetadata: {name: ${name}, labels: ${labels}}\nspec: {rules: [{kinds: [Site], verbs: ${verbs}}]}\n`;

export async function succeeds(ran: Promise<Ran>): Promise<string> {
  const { code, stdout, stderr } = await ran;
  assert.equal(code, 0, stderr);
  return stdout;
}

export async function refuses(
  ran: Promise<Ran>,
  expectedCode: number,
  message: RegExp,
): Promise<void> {
  const { code, stderr } = await ran;
  assert.match(stderr, message);
  assert.equal(code, expectedCode, stderr);
  assert.doesNotMatch(stderr, /\n\s+at /, 'no stack trace');
}
