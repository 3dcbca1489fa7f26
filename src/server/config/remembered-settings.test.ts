import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { allPlanes } from '../../test-planes.ts';
import { type ConfigInputs, type LoadedConfig, loadConfig, sourceText } from './config.ts';
import { readRemembered, rememberedFile, rememberSettings } from './remembered-settings.ts';

function folderOf(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-remembered-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function load(dataDir: string, inputs: Partial<ConfigInputs> = {}): LoadedConfig {
  const remembered = readRemembered(dataDir);
  return loadConfig({
    planes: allPlanes,
    env: {},
    cwd: '/srv',
    ...inputs,
    flags: { dataDir, ...inputs.flags },
    ...(remembered === undefined ? {} : { remembered }),
  });
}

/** As `hansa server` does: load, start, remember. */
function start(dataDir: string, inputs: Partial<ConfigInputs> = {}) {
  const loaded = load(dataDir, inputs);
  return { loaded, changes: rememberSettings(dataDir, loaded.settings) };
}

function refusal(dataDir: string): string {
  try {
    load(dataDir);
  } catch (error) {
    assert.ok(error instanceof HansaError);
    assert.equal(error.code, 'HANSA_CONFIG_INVALID');
    return error.message;
  }
  return assert.fail('the settings were accepted');
}

const first = {
  api: '127.0.0.1:17443',
  federation: '0.0.0.0:18443',
  advertise: 'https://lubeck.example:18443',
  keyFile: 'keys/kek',
  'limits.drainSeconds': '3',
};

suite('the flags of a start', () => {
  test('count for the next start without them', (context) => {
    const folder = folderOf(context);
    start(folder, { flags: first });
    const { config, settings } = load(folder);
    assert.deepEqual(config.api, { host: '127.0.0.1', port: 17443 });
    assert.equal(config.advertise, 'https://lubeck.example:18443');
    assert.equal(config.keyFile, '/srv/keys/kek');
    assert.equal(config.limits.drainSeconds, 3);
    const sources = new Map(settings.map(({ key, source }) => [key, sourceText(source)]));
    assert.match(sources.get('api') ?? '', /^remembered in .*config\.yaml:\d+$/);
    assert.equal(sources.get('metrics'), 'default');
  });

  test('lie in a readable file that everybody may read', (context) => {
    const folder = folderOf(context);
    start(folder, { flags: first });
    const path = rememberedFile(folder);
    assert.equal(statSync(path).mode % 0o1000, 0o644);
    assert.match(readFileSync(path, 'utf8'), /^# Settings .*\napi: 127\.0\.0\.1:17443\n/s);
  });

  test('do not include the data folder, the trust domain, how to log and trust in the clock', (context) => {
    const folder = folderOf(context);
    const flags = {
      trustDomain: 'lubeck.example',
      logLevel: 'debug',
      logFormat: 'json',
      'ca.clockTrustedUntil': '2099-01-01T00:00:00Z',
    };
    assert.deepEqual(start(folder, { flags }).changes, []);
    assert.equal(readRemembered(folder), undefined);
  });

  test('replace what was remembered where they differ, and say what it was', (context) => {
    const folder = folderOf(context);
    start(folder, { flags: first });
    const { changes } = start(folder, {
      flags: { api: '127.0.0.1:2', federation: first.federation },
    });
    assert.deepEqual(changes, [{ key: 'api', before: '127.0.0.1:17443', value: '127.0.0.1:2' }]);
    assert.equal(load(folder).config.api.port, 2);
    assert.deepEqual(start(folder).changes, []);
  });

  test('leave comments and keys of an operator in the file', (context) => {
    const folder = folderOf(context);
    const path = rememberedFile(folder);
    writeFileSync(path, '# ours\nlogLevel: warn # quiet\nlimits:\n  maxWatches: 7\n');
    start(folder, { flags: { api: '127.0.0.1:2', 'limits.drainSeconds': '4' } });
    const text = readFileSync(path, 'utf8');
    assert.match(text, /^# ours\nlogLevel: warn # quiet\n/);
    const { config } = load(folder);
    assert.equal(config.logLevel, 'warn');
    assert.equal(config.limits.maxWatches, 7);
    assert.equal(config.limits.drainSeconds, 4);
  });
});

suite('what is remembered', () => {
  test('gives way to a flag, a variable and the file of --config', (context) => {
    const folder = folderOf(context);
    start(folder, { flags: { ...first, metrics: '127.0.0.1:9' } });
    const values = new Map([['metrics', { text: '127.0.0.1:1', line: 1 }]]);
    const { config } = load(folder, {
      flags: { api: '127.0.0.1:3' },
      env: { HANSA_FEDERATION: '127.0.0.1:2' },
      file: { path: '/etc/site.yaml', values, problems: [] },
    });
    assert.equal(config.api.port, 3);
    assert.deepEqual(config.federation, { host: '127.0.0.1', port: 2 });
    assert.deepEqual(config.metrics, { host: '127.0.0.1', port: 1 });
  });

  test('does not take over variables and values of --config', (context) => {
    const folder = folderOf(context);
    assert.deepEqual(start(folder, { env: { HANSA_API: '127.0.0.1:2' } }).changes, []);
  });

  test('is told apart where it excludes a new flag', (context) => {
    const folder = folderOf(context);
    const files = { 'servingCert.certFile': 'c', 'servingCert.keyFile': 'k' };
    start(folder, { flags: { ...files, web: '0.0.0.0:443' } });
    const flags = {
      'acme.directoryUrl': 'https://acme.example/dir',
      'acme.domainName': 'web.example',
      'acme.tosAccepted': 'true',
    };
    assert.throws(
      () => load(folder, { flags }),
      /exclude each other.*servingCert\.certFile is remembered in .*config\.yaml:\d+: to unset it, remove that line/,
    );
  });
});

test('a key below another key is remembered beside it, in either order', (context) => {
  const proxies = { 'federation.trustedProxies': '192.0.2.10/32' };
  const listener = { federation: '0.0.0.0:18443' };
  for (const [one, other] of [
    [proxies, listener],
    [listener, proxies],
  ] as const) {
    const folder = folderOf(context);
    start(folder, { flags: one });
    start(folder, { flags: other });
    const { config } = load(folder);
    assert.deepEqual(config.federation, { host: '0.0.0.0', port: 18443 });
    assert.deepEqual(config.trustedProxies.map(String), ['192.0.2.10/32']);
  }
});

suite('a file that was damaged', () => {
  const bad: Record<string, [text: string, why: RegExp]> = {
    'is refused with its line where it is no YAML': ['api: 1\n  x: [\n', /config\.yaml:\d+: /],
    'is refused with its line where a key is unknown': [
      'api: 127.0.0.1:1\nadvertize: x\n',
      /config\.yaml:2: there is no key advertize; did you mean advertise\?/,
    ],
    'is refused with its line where a value is wrong': [
      '\napi: nowhere\n',
      /api is "nowhere" \(remembered in .*config\.yaml:2\): expected HOST:PORT/,
    ],
    'is refused where it names a data folder': [
      'dataDir: /x\n',
      /config\.yaml:1: dataDir cannot be set in the data folder itself/,
    ],
    'is refused where it is no map': ['- api\n', /config\.yaml:1: the file must be a map/],
    'is refused where it is far too large': ['#'.repeat(300_000), /is larger than 262144 bytes/],
  };
  for (const [name, [text, why]] of Object.entries(bad)) {
    test(name, (context) => {
      const folder = folderOf(context);
      writeFileSync(rememberedFile(folder), text);
      assert.match(refusal(folder), why);
    });
  }

  test('is refused where it is a folder', (context) => {
    const folder = folderOf(context);
    mkdirSync(rememberedFile(folder));
    assert.match(refusal(folder), /config\.yaml: it is not a file/);
  });

  test('that is empty remembers nothing', (context) => {
    const folder = folderOf(context);
    writeFileSync(rememberedFile(folder), '# nothing\n');
    assert.equal(load(folder).config.api.port, 7443);
  });
});
