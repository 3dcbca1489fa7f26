import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { after, suite, test } from 'node:test';
import { stringify } from 'yaml';
import { systemClock } from '../clock/system.ts';
import { hasCode } from '../errors/error.ts';
import { loadKubeconfig } from './load-kubeconfig.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-kubeconfig-'));
after(() => rmSync(folder, { recursive: true }));

const io = (env: Record<string, string> = {}) => ({
  env,
  cwd: folder,
  clock: systemClock,
  stdin: {},
  stderr: new Writable({ write: (_chunk, _encoding, done) => done() }),
});

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const config = (context: string, user: object = {}, cluster: object = {}): string =>
  stringify({
    kind: 'Config',
    'current-context': context,
    contexts: [{ name: context, context: { cluster: context, user: context } }],
    clusters: [{ name: context, cluster: { server: `https://${context}.example`, ...cluster } }],
    users: [{ name: context, user }],
  });

suite('the kubeconfig of a command', () => {
  test('is the file of the flag', () => {
    write('flag', config('flag'));
    const { context, endpoint } = loadKubeconfig({ file: 'flag' }, io({ KUBECONFIG: '/nowhere' }));
    assert.equal(context.name, 'flag');
    assert.equal(endpoint.server.host, 'flag.example');
  });

  test('is the list of KUBECONFIG, whose files may be missing', () => {
    const [one, two] = [write('one', config('one')), write('two', config('two'))];
    const env = { KUBECONFIG: `/nowhere:${one}::${two}` };
    assert.equal(loadKubeconfig({}, io(env)).context.name, 'one');
    assert.equal(loadKubeconfig({ context: 'two' }, io(env)).context.name, 'two');
  });

  test('is the one in the home folder otherwise', () => {
    mkdirSync(join(folder, '.kube'));
    write('.kube/config', config('home'));
    assert.equal(loadKubeconfig({}, io({ HOME: folder })).context.name, 'home');
  });

  test('must exist', () => {
    for (const [choice, env] of [
      [{ file: 'missing' }, {}],
      [{}, { KUBECONFIG: '/nowhere/a:/nowhere/b' }],
      [{}, { HOME: '/nowhere' }],
      [{}, {}],
    ] as const) {
      assert.throws(
        () => loadKubeconfig(choice, io(env)),
        (caught) => hasCode(caught, 'HANSA_USAGE'),
      );
    }
  });

  test('gives the CA and a token that is read again for each request', async () => {
    write('ca.crt', 'the CA');
    const token = write('token', 'first\n');
    write('files', config('files', { tokenFile: 'token' }, { 'certificate-authority': 'ca.crt' }));
    const { endpoint, credentials } = loadKubeconfig({ file: 'files' }, io());
    assert.equal(endpoint.caBundle, 'the CA');
    assert.deepEqual(await credentials.current(), { type: 'token', token: 'first' });
    writeFileSync(token, 'second');
    assert.deepEqual(await credentials.current(), { type: 'token', token: 'second' });
  });

  test('gives a client certificate', async () => {
    write('a.crt', 'the certificate');
    const key = Buffer.from('the key').toString('base64');
    write('cert', config('cert', { 'client-certificate': 'a.crt', 'client-key-data': key }));
    assert.deepEqual(await loadKubeconfig({ file: 'cert' }, io()).credentials.current(), {
      type: 'certificate',
      certificate: 'the certificate',
      key: 'the key',
    });
  });

  test('names the file that is missing or too large', () => {
    write('lost', config('lost', {}, { 'certificate-authority': 'lost.crt' }));
    assert.throws(
      () => loadKubeconfig({ file: 'lost' }, io()),
      /Cannot read .*lost\.crt: there is/,
    );
    write('large.crt', 'x'.repeat(1024 * 1024 + 1));
    write('large', config('large', {}, { 'certificate-authority': 'large.crt' }));
    assert.throws(() => loadKubeconfig({ file: 'large' }, io()), /large\.crt is larger than/);
  });
});
