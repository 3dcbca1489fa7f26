import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { after, suite, test } from 'node:test';
import { systemClock } from '../../clock/system.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import { hasCode } from '../../errors/error.ts';
import type { ExecPlugin } from '../kubeconfig.ts';
import { ExecCredentialSource } from './exec-credential.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-exec-'));
after(() => rmSync(folder, { recursive: true }));
const file = (name: string): string => join(folder, name);

const apiVersion = 'client.authentication.k8s.io/v1';
const credential = (status: object, extra: object = {}): string =>
  JSON.stringify({ apiVersion, kind: 'ExecCredential', status, ...extra });

interface Scene {
  readonly plugin?: Partial<ExecPlugin>;
  readonly isTTY?: boolean;
  readonly timeoutMs?: number;
  readonly clock?: VirtualClock;
}

function source(script: string, { plugin, isTTY = false, timeoutMs, clock }: Scene = {}) {
  let told = '';
  const stderr = new Writable({
    write: (chunk, _encoding, done) => {
      told += String(chunk);
      done();
    },
  });
  const made = new ExecCredentialSource({
    plugin: {
      apiVersion,
      command: '/bin/sh',
      args: ['-c', script],
      env: [],
      interactiveMode: 'Never',
      provideClusterInfo: false,
      installHint: '',
      clusterConfig: undefined,
      ...plugin,
    },
    endpoint: { server: new URL('https://app1.example:6443/'), caBundle: 'the CA' },
    io: {
      env: { PATH: process.env['PATH'] },
      clock: clock ?? systemClock,
      stderr,
      stdin: { isTTY },
    },
    timeoutMs,
  });
  return Object.assign(made, { told: () => told });
}

const prints = (text: string): string => `printf %s '${text}'`;

async function refusal(script: string, scene: Scene = {}): Promise<string> {
  try {
    await source(script, scene).current();
  } catch (caught) {
    assert.ok(hasCode(caught, 'HANSA_UNAVAILABLE') || hasCode(caught, 'HANSA_USAGE'));
    assert.doesNotMatch(`${caught.message}${String(caught.cause)}`, /hunter2/);
    return caught.message;
  }
  return assert.fail('it gave a credential');
}

suite('an exec plugin', () => {
  test('gives a token or a client certificate', async () => {
    assert.deepEqual(await source(prints(credential({ token: 'abc' }))).current(), {
      type: 'token',
      token: 'abc',
    });
    const both = { clientCertificateData: 'C', clientKeyData: 'K', token: 'abc' };
    assert.deepEqual(await source(prints(credential(both))).current(), {
      type: 'certificate',
      certificate: 'C',
      key: 'K',
    });
  });

  test('gets its variables and is told about the cluster where it asks for it', async () => {
    const info = file('info');
    const script = `printf %s "$KUBERNETES_EXEC_INFO" > ${info}; printf %s "$A" >> ${info}; ${prints(credential({ token: 'abc' }))}`;
    const plugin = {
      env: [{ name: 'A', value: '|b' }],
      provideClusterInfo: true,
      clusterConfig: { audience: 'x' },
    };
    await source(script, { plugin }).current();
    const [json = '', value] = readFileSync(info, 'utf8').split('|');
    assert.equal(value, 'b');
    assert.deepEqual(JSON.parse(json), {
      apiVersion,
      kind: 'ExecCredential',
      spec: {
        interactive: false,
        cluster: {
          server: 'https://app1.example:6443',
          'certificate-authority-data': Buffer.from('the CA').toString('base64'),
          config: { audience: 'x' },
        },
      },
    });
    await source(script, { plugin: { env: [{ name: 'A', value: '|' }] } }).current();
    assert.doesNotMatch(readFileSync(info, 'utf8'), /app1/);
  });

  test('runs once until its credential expires or is refused', async () => {
    const clock = new VirtualClock();
    const runs = file('runs');
    const expirationTimestamp = new Date(clock.now() + 60_000).toISOString();
    const script = `echo run >> ${runs}; ${prints(credential({ token: 'abc', expirationTimestamp }))}`;
    const plugin = source(script, { clock });
    const count = (): number => readFileSync(runs, 'utf8').trim().split('\n').length;
    await Promise.all([plugin.current(), plugin.current()]);
    const held = await plugin.current();
    assert.equal(count(), 1);
    plugin.refused(held);
    await plugin.current();
    assert.equal(count(), 2);
    clock.jumpWall(55_000);
    await plugin.current();
    assert.equal(count(), 3);
  });

  test('shows its own messages', async () => {
    const plugin = source(`echo 'open the browser' >&2; ${prints(credential({ token: 'a' }))}`);
    await plugin.current();
    assert.match(plugin.told(), /open the browser/);
  });

  test('that leaves a process behind does not hold up the command', async () => {
    const script = `sleep 600 > /dev/null 2>&1 & ${prints(credential({ token: 'abc' }))}`;
    assert.deepEqual(await source(script).current(), { type: 'token', token: 'abc' });
  });
});

suite('an exec plugin is refused', () => {
  test('that hangs, with all its processes', async () => {
    const pid = file('pid');
    const script = `sleep 600 & echo $! > ${pid}; wait`;
    assert.match(await refusal(script, { timeoutMs: 300 }), /did not end within 300 ms/);
    // The signal was sent before the rejection; the kernel may need a moment.
    const isRunning = (): boolean => {
      try {
        const stat = readFileSync(`/proc/${readFileSync(pid, 'utf8').trim()}/stat`, 'utf8');
        return !/\) [ZX] /.test(stat);
      } catch {
        return false;
      }
    };
    while (isRunning()) await new Promise((resolve) => setImmediate(resolve));
  });

  test('that prints without end', async () => {
    assert.match(await refusal('yes hunter2'), /printed more than/);
  });

  test('that fails, with how it ended', async () => {
    assert.match(await refusal('echo hunter2; exit 3'), /ended with exit code 3/);
    assert.match(await refusal('kill -TERM $$'), /ended with signal SIGTERM/);
  });

  test('that does not exist or cannot be run, with its hint', async () => {
    const plugin = { command: '/nowhere/plugin', installHint: 'Install it with x.' };
    assert.match(await refusal('', { plugin }), /there is no such file.*Install it with x\./);
    writeFileSync(file('plain'), 'text');
    chmodSync(file('plain'), 0o600);
    assert.match(await refusal('', { plugin: { command: file('plain') } }), /permission denied/);
    assert.match(await refusal('', { plugin: { args: ['a\0b'] } }), /Cannot get a credential/);
  });

  test('that must ask questions where there is no terminal', async () => {
    const plugin = { interactiveMode: 'Always' } as const;
    assert.match(await refusal('exit 0', { plugin }), /not a terminal/);
  });

  for (const [what, printed, pattern] of [
    ['no JSON', 'hunter2', /not JSON/],
    ['nothing', '', /not JSON/],
    ['another kind', credential({ token: 'hunter2' }, { kind: 'Token' }), /kind/],
    ['another version', credential({}, { apiVersion: `${apiVersion}beta1` }), /apiVersion/],
    ['no status', credential({}, { status: undefined }), /no status/],
    ['no credential', credential({}), /neither a token/],
    ['an empty token', credential({ token: '' }), /neither a token/],
    ['a token that is no text', credential({ token: 1 }), /neither a token/],
    ['a certificate without a key', credential({ clientCertificateData: 'C' }), /without a key/],
    ['no time', credential({ token: 'hunter2', expirationTimestamp: 'soon' }), /not a time/],
  ] as const) {
    test(`that prints ${what}`, async () => {
      assert.match(await refusal(prints(printed)), pattern);
    });
  }
});
