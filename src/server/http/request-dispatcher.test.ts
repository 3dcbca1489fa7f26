import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { DispatcherScene, guest } from './test-dispatcher-scene.ts';

const scene = new DispatcherScene();
before(() => scene.start());
after(() => scene.stop());

suite('a route that computes its object from the host', () => {
  test('is authorized for that object, before the handler and after the body', async () => {
    scene.reset();
    const answer = await scene.send('/things/here', [
      'Host: a.example:1',
      'Authorization: Bearer ada',
    ]);
    assert.deepEqual(answer, [200, 'ada hello']);
    const right = { user: 'ada', name: 'a.example:1' };
    assert.deepEqual(scene.rights, [right, right]);
    assert.deepEqual(scene.budget, [], 'a route without audit records has no record budget');
  });

  test('refuses a caller without the right on that object', async () => {
    scene.reset();
    const [status] = await scene.send('/things/here', [
      'Host: forbidden',
      'Authorization: Bearer ada',
    ]);
    assert.equal(status, 403);
  });

  test('gets no host where several differ, and one where they are equal', async () => {
    scene.reset();
    const two = ['Host: a', 'Host: b', 'Authorization: Bearer ada'];
    assert.equal((await scene.send('/things/here', two))[0], 404);
    const same = ['Host: a', 'host: a', 'Authorization: Bearer ada'];
    assert.equal((await scene.send('/things/here', same))[0], 200);
    assert.equal((await scene.send('/things/here', ['Authorization: Bearer ada']))[0], 400);
  });
});

suite('a route with its own authenticator', () => {
  const ask = (credential: string, path = '/things/here') =>
    scene.send(path, ['Host: a', `X-Guest: ${credential}`]);

  test('does not use it for a caller that the site knows', async () => {
    scene.reset();
    scene.guests.set('g', () => guest);
    const lines = ['Host: a', 'X-Guest: g', 'Authorization: Bearer ada'];
    assert.deepEqual(await scene.send('/things/here', lines), [200, 'ada hello']);
    assert.equal(scene.shown.length, 0);
  });

  test('accepts its callers at once or later, and asks again after the body', async () => {
    scene.reset();
    scene.guests.set('now', () => guest);
    scene.guests.set('later', async () => guest);
    for (const credential of ['now', 'later']) {
      scene.shown = [];
      assert.deepEqual(await ask(credential), [200, 'guest hello'], credential);
      assert.equal(scene.shown.length, 2);
      assert.equal(scene.shown[0]?.host, 'a');
    }
    assert.equal(scene.failures, 0, 'no failure was counted');
  });

  test('counts a failure after it found no caller', async () => {
    scene.reset();
    scene.guests.set('later', async () => undefined);
    assert.equal((await ask('unknown'))[0], 401);
    assert.equal((await ask('later'))[0], 401);
    assert.equal(scene.failures, 2);
  });

  test('refuses a credential that ended while the body arrived', async () => {
    scene.reset();
    let left = 1;
    scene.guests.set('brief', async () => (left-- > 0 ? guest : undefined));
    assert.equal((await ask('brief'))[0], 401);
    assert.equal(scene.failures, 1);
  });

  test('answers 503 where it cannot check, and counts no failure', async () => {
    scene.reset();
    scene.guests.set('down', async () => {
      throw new HansaError('HANSA_UNAVAILABLE', 'the cluster does not answer');
    });
    assert.equal((await ask('down'))[0], 503);
    assert.equal(scene.failures, 0);
  });

  test('does not open other routes to its callers', async () => {
    scene.reset();
    scene.guests.set('g', () => guest);
    assert.equal((await ask('g', '/plain'))[0], 401);
    assert.equal((await ask('g', '/nothing'))[0], 401);
  });

  test('lets one address wait for it only a bounded number of times', async () => {
    scene.reset();
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    scene.guests.set('slow', () => gate.then(() => guest));
    const waiting = Array.from({ length: 12 }, () => ask('slow'));
    // A quarter of forty may wait. The others are refused while these still wait.
    const refused = await Promise.race(waiting);
    assert.equal(refused[0], 429);
    release();
    const statuses = (await Promise.all(waiting)).map(([status]) => status);
    assert.equal(statuses.filter((status) => status === 200).length, 10);
  });
});
