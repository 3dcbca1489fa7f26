// Tests `hansa cluster join` with kubeconfigs that are huge, wrong, or run plugins that hang.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, beforeEach, suite, test } from 'node:test';
import type { Clock } from '../../core/clock/clock.ts';
import { systemClock } from '../../core/clock/system.ts';
import { pluginWithinMs } from '../../core/kube/apply/exec-credential.ts';
import { stopServers } from '../../core/kube/test-api-server.ts';
import { accountToken, startKube, type TestKube } from './test-kube.ts';
import { TestScene } from './test-scene.ts';

/** The minute of a plugin passes as soon as `isOver`. */
const pluginClock = (isOver: () => boolean): Clock => ({
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic(),
  timer: (delayMs, fire) => {
    if (delayMs < pluginWithinMs) return systemClock.timer(delayMs <= 300 ? 0 : delayMs, fire);
    let timer = systemClock.timer(0, function look() {
      if (isOver()) fire();
      else timer = systemClock.timer(1, look);
    });
    return { cancel: () => timer.cancel() };
  },
});

interface Config {
  readonly clusters: readonly { readonly cluster: Readonly<Record<string, unknown>> }[];
  readonly users: readonly object[];
}

suite('hansa cluster join with a bad kubeconfig', () => {
  let scene: TestScene;
  let kube: TestKube;
  beforeEach(async () => {
    scene = new TestScene();
    kube = await startKube();
    scene.addKube('app1', kube);
  });
  afterEach(() => scene.end());
  after(() => stopServers());

  const joinWith = (config: unknown, ...args: readonly string[]) => {
    scene.writeConfig('app1.kubeconfig', config);
    return scene.cluster([
      'join',
      'app1',
      '--kubeconfig',
      'app1.kubeconfig',
      '--supervisor',
      ...args,
    ]);
  };
  const config = (): Config => kube.kubeconfig as Config;
  const withUser = (user: object): object => ({ ...config(), users: [{ name: 'u', user }] });
  const withCluster = (fields: object): object => ({
    ...config(),
    clusters: [{ name: 'c', cluster: { ...config().clusters[0]?.cluster, ...fields } }],
  });
  const plugin = (script: string) => ({
    apiVersion: 'client.authentication.k8s.io/v1',
    command: '/bin/sh',
    args: ['-c', script],
    interactiveMode: 'Never',
  });
  /** Neither the cluster nor the site has anything of it. */
  const assertUnchanged = (): void => {
    assert.deepEqual(
      kube.calls.filter(({ method }) => method !== 'GET'),
      [],
    );
    assert.equal(scene.clusters.size, 0);
    assert.equal(scene.credentials.size, 0);
  };
  const isRunning = (pidFile: string): boolean => {
    try {
      const stat = readFileSync(`/proc/${readFileSync(pidFile, 'utf8').trim()}/stat`, 'utf8');
      return !/\) [ZX] /.test(stat);
    } catch {
      return false;
    }
  };

  test('ends a plugin that hangs, with all its processes, and changes nothing', async () => {
    const pid = join(scene.folder, 'pid');
    scene.clock = pluginClock(() => existsSync(pid));
    const exec = plugin(`sleep 600 & echo $! > ${pid}.new; mv ${pid}.new ${pid}; wait`);
    const { error, questions } = await joinWith(withUser({ exec }));
    assert.equal(error?.code, 'HANSA_UNAVAILABLE');
    assert.match(error?.message ?? '', /credential from \/bin\/sh: it did not end within/);
    assert.deepEqual(questions, []);
    assertUnchanged();
    // The signal was sent before the rejection; the kernel may need a moment.
    while (isRunning(pid)) await new Promise((resolve) => setImmediate(resolve));
  });

  test('ends a plugin of the home cluster that hangs, before it changes the member', async () => {
    assert.equal((await joinWith(config())).error, undefined);
    const app2 = await startKube();
    scene.addKube('app2', app2);
    const pid = join(scene.folder, 'pid');
    const exec = plugin(`sleep 600 & echo $! > ${pid}.new; mv ${pid}.new ${pid}; wait`);
    scene.writeConfig('app1.kubeconfig', withUser({ exec }));
    scene.clock = pluginClock(() => existsSync(pid));
    const flags = ['--kubeconfig', 'app2.kubeconfig', '--home-kubeconfig', 'app1.kubeconfig'];
    const { error } = await scene.cluster(['join', 'app2', ...flags]);
    assert.equal(error?.code, 'HANSA_UNAVAILABLE');
    assert.deepEqual(
      app2.calls.filter(({ method }) => method !== 'GET'),
      [],
    );
    while (isRunning(pid)) await new Promise((resolve) => setImmediate(resolve));
  });

  test('reports a plugin that fails, is missing, or prints without end', async () => {
    for (const [script, why] of [
      ['exit 3', /it ended with .*3. Its own messages are above/],
      ['yes hunter2', /printed more than/],
      ['echo no JSON', /Cannot use the credential that .* printed/],
    ] as const) {
      const { error } = await joinWith(withUser({ exec: plugin(script) }));
      assert.match(error?.message ?? '', why, script);
      assert.doesNotMatch(error?.message ?? '', /hunter2/);
    }
    const missing = { ...plugin(''), command: 'no-such-plugin', installHint: 'Install it first.' };
    const { error } = await joinWith(withUser({ exec: missing }));
    assert.match(error?.message ?? '', /no-such-plugin.*Install it first/s);
    assertUnchanged();
  });

  test('refuses a huge kubeconfig, by the size of the file', async () => {
    const { error } = await joinWith(`# ${'x'.repeat(2_000_000)}`);
    assert.equal(error?.code, 'HANSA_USAGE');
    assert.match(error?.message ?? '', /larger than/);
    assertUnchanged();
  });

  test('takes a kubeconfig of thousands of contexts, and names some if one is missing', async () => {
    const many = Array.from({ length: 5000 }, (_, index) => ({
      name: `context-${index}`,
      context: { cluster: 'c', user: 'u' },
    }));
    const large = { ...config(), contexts: many };
    const { error } = await joinWith(large, '--context', 'nothing');
    assert.equal(error?.code, 'HANSA_USAGE');
    assert.ok((error?.message ?? '').length < 2000, error?.message);
    assertUnchanged();
    assert.equal((await joinWith(large, '--context', 'context-4999')).error, undefined);
    assert.equal((scene.credentials.get('app1') as { token: string }).token, accountToken);
  });

  test('refuses aliases that expand without end', async () => {
    const bomb = ['a: &a [x,x,x,x,x,x,x,x,x]'];
    for (let step = 1; step < 12; step++) {
      const letter = String.fromCharCode(97 + step);
      const before = String.fromCharCode(96 + step);
      bomb.push(`${letter}: &${letter} [${Array(9).fill(`*${before}`).join(',')}]`);
    }
    const { error } = await joinWith(bomb.join('\n'));
    assert.equal(error?.code, 'HANSA_USAGE');
    assertUnchanged();
  });

  test('refuses a kubeconfig that weakens TLS, or is for plain HTTP', async () => {
    for (const fields of [
      { 'insecure-skip-tls-verify': true },
      { server: kube.server.replace('https:', 'http:') },
      { server: kube.server.replace('https://', 'https://user:pass@') },
      { server: 'not a URL' },
    ]) {
      const { error } = await joinWith(withCluster(fields));
      assert.equal(error?.code, 'HANSA_USAGE', JSON.stringify(fields));
      assert.doesNotMatch(error?.message ?? '', /user:pass/);
    }
    assertUnchanged();
  });

  test('refuses what is no kubeconfig', async () => {
    for (const text of ['', 'null', '[]', '{', '- a\n- b', '\u0000']) {
      const { error } = await joinWith(text);
      assert.equal(error?.code, 'HANSA_USAGE', JSON.stringify(text));
    }
    assertUnchanged();
  });
});
