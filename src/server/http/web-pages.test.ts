import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';
import { DispatcherScene } from './test-dispatcher-scene.ts';

const scene = new DispatcherScene();
before(() => scene.start());
after(() => scene.stop());
beforeEach(() => scene.reset());

const json = 'content-type: application/json';
/** Leaves the header out. */
const noType = 'content-type:';
const guest = 'x-guest: anyone';

/** The status of a request without a bearer token, as of a browser with a certificate. */
async function statusOf(lines: readonly string[], path = '/things/here', body = 'hello') {
  scene.guests.set('anyone', () => ({ user: 'guest', groups: [], via: 'workload' }));
  const [status] = await scene.send(path, ['host: site:7443', guest, ...lines], body);
  return status;
}

/** One route reads the body itself, and the server reads that of the other. */
for (const path of ['/things/here', '/things/whole']) {
  suite(`a request to ${path}`, () => {
    test('is served with a body as JSON', async () => {
      assert.equal(await statusOf([json], path), 200);
      assert.equal(await statusOf(['content-type: Application/JSON; charset=utf-8'], path), 200);
      assert.equal(await statusOf([noType], path, ''), 200);
    });

    for (const lines of [
      [noType],
      ['content-type: text/plain'],
      ['content-type: application/x-www-form-urlencoded'],
      ['content-type: text/plain; x=application/json'],
    ]) {
      test(`is refused with a body and ${lines[0]}`, async () => {
        assert.equal(await statusOf(lines, path), 415);
      });
    }

    test('is refused without a body as a form', async () => {
      assert.equal(await statusOf(['content-type: text/plain'], path, ''), 415);
    });

    for (const origin of ['https://evil.example', 'null', 'http://site', 'https://site:7444']) {
      test(`of a page of ${origin} is refused`, async () => {
        assert.equal(await statusOf([json, `origin: ${origin}`], path), 403);
        assert.deepEqual(scene.denials, ['HANSA_FORBIDDEN']);
      });
    }

    test('of a page of the site itself is served', async () => {
      assert.equal(await statusOf([json, 'origin: https://site:7443'], path), 200);
    });

    test('of any page is served with a bearer token, which no page can add', async () => {
      const lines = [
        'host: site',
        'authorization: Bearer ada',
        'origin: https://evil.example',
        json,
      ];
      assert.equal((await scene.send(path, lines))[0], 200);
    });
  });
}
