import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { DispatcherScene, statusAndBody } from './test-dispatcher-scene.ts';

const scene = new DispatcherScene();
before(() => scene.start());
after(() => scene.stop());

test('a public route answers everyone, and does not look at credentials', async () => {
  scene.reset();
  for (const lines of [[], ['Authorization: Bearer wrong'], ['Authorization: Bearer ada']]) {
    const head = ['GET /open HTTP/1.1', 'Host: a', ...lines, 'connection: close'];
    const answer = await scene.converse([`${head.join('\r\n')}\r\n\r\n`]);
    assert.deepEqual(statusAndBody(answer), [200, 'system:anonymous']);
  }
  assert.equal(scene.failures, 0);
});

suite('the headers of a route', () => {
  const ask = (path: string, ...lines: readonly string[]): Promise<string> => {
    const head = [
      `POST ${path} HTTP/1.1`,
      ...lines,
      'content-type: application/json',
      'content-length: 5',
      'connection: close',
    ];
    return scene.converse([`${head.join('\r\n')}\r\n\r\nhello`]);
  };

  for (const path of ['/things/here', '/things/whole']) {
    test(`${path} are in every answer, those of errors too`, async () => {
      scene.reset();
      const answers = [
        [200, await ask(path, 'Host: a', 'Authorization: Bearer ada')],
        [400, await ask(path, 'Host: a', 'Authorization: Bearer ada', 'X-Fail: 1')],
        [401, await ask(path, 'Host: a')],
        [403, await ask(path, 'Host: forbidden', 'Authorization: Bearer ada')],
      ] as const;
      for (const [status, text] of answers) {
        assert.equal(statusAndBody(text)[0], status);
        assert.match(text, /^x-said: always\r$/im, String(status));
      }
    });
  }

  test('are in no answer of another route', async () => {
    const answer = await ask('/plain', 'Host: a', 'Authorization: Bearer ada');
    assert.equal(statusAndBody(answer)[0], 200);
    assert.doesNotMatch(answer, /x-said/i);
  });
});
