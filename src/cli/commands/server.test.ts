import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { readEndpoints, type SiteEndpoints } from '../site/site-endpoints.ts';
import { type Ran, run } from '../test-io.ts';

function folderOf(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-server-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a site until it says where it listens. */
async function startOnce(
  dataDir: string,
  flags: readonly string[],
): Promise<Ran & { endpoints: SiteEndpoints }> {
  const interruption = new AbortController();
  rmSync(join(dataDir, 'endpoints.json'), { force: true });
  const ended = new AbortController();
  const watcher = watch(dataDir, { signal: ended.signal });
  watcher.on('change', () => {
    if (existsSync(join(dataDir, 'endpoints.json'))) interruption.abort();
  });
  try {
    const ran = await run(['server', '--data-dir', dataDir, ...flags], {
      interruption: interruption.signal,
    });
    assert.equal(ran.code, 0, ran.stderr);
    return { ...ran, endpoints: readEndpoints(dataDir) };
  } finally {
    ended.abort();
  }
}

const flags =
  '--trust-domain lubeck.example --api 127.0.0.1:0 --federation off --metrics off --advertise https://harbour.example:9'.split(
    ' ',
  );

suite('a site that was started with flags', () => {
  test('starts again with the data folder alone, and says which settings it keeps', async (context) => {
    const folder = folderOf(context);
    const first = await startOnce(folder, flags);
    assert.match(
      first.stdout,
      /settings +\S+config\.yaml +remembered for the next start: --api 127\.0\.0\.1:0, --federation off, --metrics off, --advertise https:\/\/harbour\.example:9/,
    );
    const second = await startOnce(folder, []);
    assert.equal(second.endpoints.advertise, 'https://harbour.example:9');
    assert.equal(second.endpoints.federation, undefined);
    assert.match(
      second.stdout,
      /settings +\S+config\.yaml +remembered: --api, --federation, --metrics, --advertise/,
    );
    const changed = await startOnce(folder, ['--advertise', 'https://quay.example:9']);
    assert.match(
      changed.stdout,
      /--advertise https:\/\/quay\.example:9 \(was https:\/\/harbour\.example:9\)/,
    );
    const shown = await run(['config', 'show', '--data-dir', folder]);
    assert.match(
      shown.stdout,
      /^advertise: https:\/\/quay\.example:9\n +from remembered in \S+config\.yaml:\d+;/m,
    );
  });

  test('remembers nothing of a start that failed', async (context) => {
    const folder = folderOf(context);
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    context.after(() => taken.close());
    const { port } = taken.address() as AddressInfo;
    const address = `127.0.0.1:${port}`;
    const failed = await run(['server', '--data-dir', folder, ...flags, '--api', address]);
    assert.notEqual(failed.code, 0);
    assert.equal(existsSync(join(folder, 'config.yaml')), false);
  });

  test('has its audit log verified while it is stopped, by the key that it was started with', async (context) => {
    const base = folderOf(context);
    const folder = join(base, 'site');
    mkdirSync(folder);
    await startOnce(folder, [...flags, '--key-file', join(base, 'key')]);
    const verified = await run(['audit', 'verify', '--data-dir', folder]);
    assert.equal(verified.code, 0, verified.stderr);
    assert.match(verified.stdout, /^lubeck\.example: \d+ events, verified/);
  });

  test('makes no folder where its first start lacks a trust domain', async (context) => {
    const folder = join(folderOf(context), 'new');
    const refused = await run(['server', '--data-dir', folder]);
    assert.equal(refused.code, 3);
    assert.match(refused.stderr, /this data folder is new and needs a trust domain/);
    assert.equal(existsSync(folder), false);
  });

  test('does not start with a damaged file, and leaves it alone', async (context) => {
    const folder = folderOf(context);
    const file = join(folder, 'config.yaml');
    writeFileSync(file, 'advertise: [\n');
    const refused = await run(['server', '--data-dir', folder, ...flags]);
    assert.equal(refused.code, 3);
    assert.match(refused.stderr, /config\.yaml:\d+: .*\(HANSA_CONFIG_INVALID\)/s);
    assert.equal(readFileSync(file, 'utf8'), 'advertise: [\n');
  });
});
