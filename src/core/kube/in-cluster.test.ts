import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { hasCode } from '../errors/error.ts';
import { InClusterFiles, inClusterServer } from './in-cluster.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-in-cluster-'));
after(() => rmSync(folder, { recursive: true }));

suite('the API server of the own cluster', () => {
  test('is named by two variables', () => {
    const server = (host?: string, port?: string): string | undefined =>
      inClusterServer({ KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port })?.href;
    assert.equal(server('10.0.0.1', '443'), 'https://10.0.0.1/');
    assert.equal(server('fd00::1', '6443'), 'https://[fd00::1]:6443/');
    assert.equal(server('10.0.0.1'), undefined);
    assert.equal(server(undefined, '443'), undefined);
    assert.equal(server('10.0.0.1', 'tcp://x'), undefined);
    assert.equal(server('10.0.0.1', '99999'), undefined);
  });
});

suite('the files of a ServiceAccount', () => {
  /** As the kubelet does: a new folder, and a link that takes the place of the old one. */
  const mount = (version: string, token: string): void => {
    writeFileSync(join(folder, `token-${version}`), `${token}\n`);
    symlinkSync(`token-${version}`, join(folder, 'next'));
    renameSync(join(folder, 'next'), join(folder, 'token'));
  };

  test('are read, and read again after a change', async () => {
    const clock = new VirtualClock();
    mount('1', 'first');
    writeFileSync(join(folder, 'ca.crt'), 'the CA');
    const files = new InClusterFiles({ clock, folder });
    const first = await files.current();
    assert.deepEqual(first, { type: 'token', token: 'first' });
    assert.equal(await files.ca(), 'the CA');
    mount('2', 'second');
    // Held without a look at the disk.
    assert.equal(files.current(), first);
    await clock.advance(10_000);
    assert.deepEqual(await files.current(), { type: 'token', token: 'second' });
  });

  test('are read again at once when the token was refused', async () => {
    const files = new InClusterFiles({ clock: new VirtualClock(), folder });
    await files.current();
    mount('3', 'third');
    files.refused();
    assert.deepEqual(await files.current(), { type: 'token', token: 'third' });
  });

  test('are named where they are missing or too large', async () => {
    const clock = new VirtualClock();
    const missing = new InClusterFiles({ clock, folder: join(folder, 'nowhere') });
    await assert.rejects(
      async () => missing.current(),
      (caught) => hasCode(caught, 'HANSA_UNAVAILABLE') && /nowhere\/token/.test(caught.message),
    );
    const large = mkdtempSync(join(folder, 'large-'));
    writeFileSync(join(large, 'ca.crt'), 'x'.repeat(1024 * 1024 + 1));
    const files = new InClusterFiles({ clock, folder: large });
    await assert.rejects(async () => files.ca(), /larger than/);
  });
});
