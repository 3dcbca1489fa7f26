import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { forgottenMembersLines } from './forgotten-members.ts';

const answers = (members: readonly object[]) => ({
  request: async () => ({ status: 200, headers: {}, body: { members } }) as never,
});
const agent = (name: string, peer?: string) => ({ role: 'agent', name, peer });

test('the members that are forgotten with a peer are listed, and no others', async () => {
  const client = answers([
    agent('crane-1', 'bruges.example'),
    agent('crane-2', 'reval.example'),
    agent('barge'),
    { role: 'bot', name: 'ci', peer: 'bruges.example' },
    { role: 'bot', name: 'ci', peer: 'bruges.example' },
  ]);
  assert.deepEqual(await forgottenMembersLines(client, ['bruges.example']), [
    'The site forgets these members, which joined with an SVID of bruges.example:',
    '  agent crane-1',
    '  bot ci (2 times)',
  ]);
  assert.equal(
    (await forgottenMembersLines(client, ['bruges.example', 'reval.example'])).length,
    5,
  );
  assert.deepEqual(await forgottenMembersLines(client, ['novgorod.example']), []);
});

test('a long list ends with how many more there are', async () => {
  const many = Array.from({ length: 25 }, (_, at) => agent(`crane-${at}`, 'bruges.example'));
  const lines = await forgottenMembersLines(answers(many), ['bruges.example']);
  assert.equal(lines.length, 22);
  assert.equal(lines.at(-1), '  and 5 more: hansa agent list and hansa join list');
});

test('a caller who may not list members is told that there may be some', async () => {
  const request = async () => {
    throw new HansaError('HANSA_FORBIDDEN', 'no');
  };
  const [line] = await forgottenMembersLines({ request }, ['bruges.example']);
  assert.match(line ?? '', /you need the right to list jointokens/);
});

test('any other failure is one of the command', async () => {
  const request = async () => {
    throw new HansaError('HANSA_UNREACHABLE', 'away');
  };
  await assert.rejects(forgottenMembersLines({ request }, ['bruges.example']), {
    code: 'HANSA_UNREACHABLE',
  });
});
