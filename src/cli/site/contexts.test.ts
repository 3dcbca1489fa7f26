import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import { type ErrorCode, hasCode } from '../../core/errors/error.ts';
import { type ConnectionOptions, resolveConnection } from './connection.ts';
import { Contexts } from './contexts.ts';
import { renderCredential } from './credential-cache.ts';

const remote = { site: 'https://lubeck.example:7443', caFile: '/ca.pem', tokenFile: '/token' };
const local = { dataDir: '/srv/bruges' };

function homeOf(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-contexts-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'home');
}

function refuses(code: ErrorCode, message: RegExp) {
  return (error: unknown): boolean => hasCode(error, code) && message.test(error.message);
}

suite('contexts', () => {
  test('come back as they were put, from files that only the user can read', (context) => {
    const home = homeOf(context);
    const contexts = new Contexts({ HANSA_HOME: home });
    contexts.put('lubeck', remote);
    contexts.put('token:ci@bruges.example', local);
    assert.deepEqual(contexts.list(), [
      { name: 'lubeck', ...remote },
      { name: 'token:ci@bruges.example', ...local },
    ]);
    assert.equal(statSync(home).mode % 0o1000, 0o700);
    assert.equal(statSync(join(home, 'contexts')).mode % 0o1000, 0o700);
    assert.equal(statSync(join(home, 'contexts', 'lubeck.yaml')).mode % 0o1000, 0o600);
    assert.deepEqual(readdirSync(join(home, 'contexts')).length, 2);
  });

  test('are below HANSA_HOME, XDG_CONFIG_HOME or the home folder', (context) => {
    const home = homeOf(context);
    new Contexts({ HOME: home }).put('a', local);
    new Contexts({ HOME: home, XDG_CONFIG_HOME: join(home, 'xdg') }).put('b', local);
    assert.ok(statSync(join(home, '.config', 'hansa', 'contexts', 'a.yaml')));
    assert.ok(statSync(join(home, 'xdg', 'hansa', 'contexts', 'b.yaml')));
    assert.deepEqual(new Contexts({}).names(), []);
    assert.equal(new Contexts({}).current(), undefined);
    assert.throws(() => new Contexts({}).put('a', local), refuses('HANSA_USAGE', /HANSA_HOME/));
    assert.throws(
      () => new Contexts({ HANSA_HOME: 'x' }),
      refuses('HANSA_USAGE', /HANSA_HOME is "x"/),
    );
  });

  test('are renamed and removed together with the mark of the current one', (context) => {
    const contexts = new Contexts({ HANSA_HOME: homeOf(context) });
    contexts.put('a', local);
    contexts.put('b', remote);
    assert.equal(contexts.useFirst('a'), true);
    assert.equal(contexts.useFirst('b'), false);
    assert.equal(contexts.current(), 'a');
    contexts.rename('a', 'c');
    assert.equal(contexts.current(), 'c');
    assert.throws(() => contexts.rename('c', 'b'), refuses('HANSA_ALREADY_EXISTS', /context b/));
    contexts.remove('c');
    assert.equal(contexts.current(), undefined);
    assert.deepEqual(contexts.names(), ['b']);
    assert.throws(() => contexts.remove('c'), refuses('HANSA_NOT_FOUND', /no context c/));
    assert.throws(() => contexts.use('c'), refuses('HANSA_NOT_FOUND', /no context c/));
  });

  test('that are written at the same time do not lose each other', async (context) => {
    const home = homeOf(context);
    const names = Array.from({ length: 20 }, (_, index) => `c${index}`);
    await Promise.all(
      names.map(async (name) => new Contexts({ HANSA_HOME: home }).put(name, local)),
    );
    assert.equal(new Contexts({ HANSA_HOME: home }).names().length, 20);
  });

  test('have no name that leads to another file', (context) => {
    const contexts = new Contexts({ HANSA_HOME: homeOf(context) });
    for (const name of ['', '.', '..', '../x', 'a/b', '.hidden', '-x', 'a b', 'x'.repeat(128)]) {
      assert.throws(() => contexts.put(name, local), refuses('HANSA_USAGE', /cannot be called/));
      assert.throws(() => contexts.get(name), refuses('HANSA_USAGE', /cannot be called/));
    }
  });
});

suite('a context file', () => {
  const bad: Record<string, [text: string, why: RegExp]> = {
    'is refused with its line where it is no YAML': ['site: [\n', /a\.yaml:\d+: /],
    'is refused with its line where a key is unknown': [
      'dataDir: /x\ncaFiles: /y\n',
      /a\.yaml:2: there is no key caFiles; did you mean caFile\?/,
    ],
    'is refused where a path is relative': ['dataDir: x\n', /a\.yaml:1: dataDir is "x"/],
    'is refused where the site is no https URL': [
      'site: http://x\ncaFile: /ca\n',
      /a\.yaml:1: site is "http:\/\/x": expected an https URL/,
    ],
    'is refused where it names no site': ['{}\n', /give either site or dataDir/],
    'is refused where it names two': ['site: https://x\ndataDir: /x\n', /give either/],
    'is refused where the CA is missing': ['site: https://x\n', /site needs caFile/],
    'is refused where a key is missing': [
      'site: https://x\ncaFile: /ca\nclientKey: /k\n',
      /clientCertificate and clientKey together/,
    ],
    'is refused where the socket would get a token': [
      'dataDir: /x\ntokenFile: /t\n',
      /tokenFile cannot be combined with dataDir/,
    ],
  };
  for (const [name, [text, why]] of Object.entries(bad)) {
    test(name, (context) => {
      const home = homeOf(context);
      mkdirSync(join(home, 'contexts'), { recursive: true });
      writeFileSync(join(home, 'contexts', 'a.yaml'), text, { mode: 0o600 });
      const contexts = new Contexts({ HANSA_HOME: home });
      assert.throws(() => contexts.get('a'), refuses('HANSA_CONFIG_INVALID', why));
    });
  }

  test('is refused where others could have written it', (context) => {
    const home = homeOf(context);
    const contexts = new Contexts({ HANSA_HOME: home });
    contexts.put('a', local);
    const file = join(home, 'contexts', 'a.yaml');
    chmodSync(file, 0o666);
    assert.throws(() => contexts.get('a'), refuses('HANSA_USAGE', /only you can change/));
    symlinkSync(file, join(home, 'contexts', 'b.yaml'));
    assert.throws(() => contexts.get('b'), refuses('HANSA_USAGE', /must be a regular file/));
  });
});

suite('which site a command reaches', () => {
  function reached(
    home: string,
    options: ConnectionOptions = {},
    env: Record<string, string> = {},
  ): string {
    const surroundings = { env: { HANSA_HOME: home, ...env }, cwd: '/cwd', clock: systemClock };
    const connection = resolveConnection(options, surroundings);
    return connection.via === 'socket' ? connection.dataDir : connection.url.href;
  }

  function filled(context: TestContext): string {
    const home = homeOf(context);
    const contexts = new Contexts({ HANSA_HOME: home });
    contexts.put('lubeck', remote);
    contexts.put('bruges', local);
    return home;
  }

  test('is that of the current context, and ./hansa-data without one', (context) => {
    const home = filled(context);
    assert.equal(reached(home), '/cwd/hansa-data');
    new Contexts({ HANSA_HOME: home }).use('bruges');
    assert.equal(reached(home), '/srv/bruges');
    new Contexts({ HANSA_HOME: home }).use('lubeck');
    assert.equal(reached(home), 'https://lubeck.example:7443/');
  });

  test('is said by flags first, then by --context, variables, HANSA_CONTEXT', (context) => {
    const home = filled(context);
    new Contexts({ HANSA_HOME: home }).use('bruges');
    const env = { HANSA_CONTEXT: 'lubeck', HANSA_DATA_DIR: '/env', HANSA_SITE: 'https://env' };
    assert.equal(reached(home, { site: 'https://flag' }, env), 'https://flag/');
    assert.equal(reached(home, { dataDir: '/flag' }, env), '/flag');
    assert.equal(reached(home, { context: 'bruges' }, env), '/srv/bruges');
    assert.equal(reached(home, {}, env), 'https://env/');
    assert.equal(reached(home, {}, { ...env, HANSA_SITE: '' }), '/env');
    assert.equal(reached(home, {}, { HANSA_CONTEXT: 'lubeck' }), 'https://lubeck.example:7443/');
    assert.equal(reached(home, { dataDir: 'x' }, { HANSA_CONTEXT: 'lubeck' }), '/cwd/x');
    assert.throws(
      () => reached(home, { context: 'bruges', site: 'https://flag' }),
      refuses('HANSA_USAGE', /--context, or --site or --data-dir/),
    );
  });

  test('is not guessed where the context does not exist', (context) => {
    const home = filled(context);
    assert.throws(
      () => reached(home, { context: 'lubek' }),
      refuses('HANSA_USAGE', /no context lubek\. Did you mean lubeck\?/),
    );
    writeFileSync(join(home, 'current-context'), 'gone\n', { mode: 0o600 });
    assert.throws(() => reached(home), refuses('HANSA_USAGE', /no context gone/));
  });

  test('gets the credential of the context, and not that of variables', (context) => {
    const home = filled(context);
    const env = { HANSA_HOME: home, HANSA_TOKEN_FILE: '/other', HANSA_CA_FILE: '/other' };
    const of = (options: ConnectionOptions) =>
      resolveConnection(options, { env, cwd: '/cwd', clock: systemClock });
    assert.partialDeepStrictEqual(of({ context: 'lubeck' }), {
      caFile: '/ca.pem',
      tokenFile: '/token',
    });
    assert.partialDeepStrictEqual(of({ context: 'lubeck', tokenFile: 't' }), {
      caFile: '/ca.pem',
      tokenFile: '/cwd/t',
    });
    assert.throws(
      () => of({ context: 'bruges', tokenFile: 't' }),
      refuses('HANSA_USAGE', /--site/),
    );
  });

  test('gets the certificate of a login while it is valid, and is told when it is not', (context) => {
    const home = filled(context);
    const contexts = new Contexts({ HANSA_HOME: home });
    const { tokenFile: _tokenFile, ...site } = remote;
    const credential = join(home, 'login.pem');
    writeFileSync(
      credential,
      renderCredential({
        user: 'alice',
        spiffeId: 'spiffe://lubeck.example/hansa/user/alice',
        issuedAtMs: 0,
        notAfterMs: 3_600_000,
        privateKey: '-----BEGIN PRIVATE KEY-----\n',
        certificate: '-----BEGIN CERTIFICATE-----\n',
      }),
      { mode: 0o600 },
    );
    const at = (name: string, nowMs: number) =>
      resolveConnection(
        { context: name },
        { env: { HANSA_HOME: home }, cwd: '/', clock: { now: () => nowMs } },
      );
    contexts.put('alice', { ...site, user: 'alice', credential });
    assert.partialDeepStrictEqual(at('alice', 3_599_999), {
      clientCertificate: credential,
      clientKey: credential,
    });
    assert.throws(
      () => at('alice', 3_900_000),
      refuses('HANSA_UNAUTHENTICATED', /certificate of alice expired 5m.* ago\. Log in again/),
    );
    contexts.put('both', { ...remote, user: 'alice', credential });
    assert.partialDeepStrictEqual(at('both', 3_900_000), { tokenFile: '/token' });
    contexts.put('out', site);
    assert.throws(() => at('out', 0), refuses('HANSA_UNAUTHENTICATED', /you are not logged in/));
  });
});
