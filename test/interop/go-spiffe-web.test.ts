// Tests the https_web bundle endpoint of a site with go-spiffe: it fetches from the web listener,
// accepts only a certificate for the right name, and follows changes of the certificate and the
// authorities.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, suite, test } from 'node:test';
import { connect } from 'node:tls';
import {
  type Daemon,
  execute,
  hansa,
  type Ran,
  startDaemon,
  temporaryFolder,
} from '../e2e/daemon.ts';
import { missingTools, requireTool } from './tool.ts';
import { makeWebPki, type WebPki } from './web-pki.ts';

const skip = await missingTools('go-spiffe');

interface Fetched {
  readonly authorities: readonly string[];
  readonly sequence: number;
  readonly refreshHintSeconds: number;
  readonly error?: string;
}

suite('go-spiffe as a client of the web listener', { skip }, () => {
  const folder = temporaryFolder();
  let pki: WebPki;
  let stranger: WebPki;
  let site: Daemon;
  let program: string;

  before(async () => {
    for (const name of ['pki', 'stranger']) mkdirSync(join(folder, name));
    pki = makeWebPki(join(folder, 'pki'));
    stranger = makeWebPki(join(folder, 'stranger'));
    program = await requireTool('go-spiffe');
    site = await startDaemon(join(folder, 'lubeck'), [
      '--web',
      '127.0.0.1:0',
      '--serving-cert-cert-file',
      pki.certificateFile,
      '--serving-cert-key-file',
      pki.keyFile,
    ]);
  });
  after(() => site?.signal('SIGTERM'));

  const webPort = (): string => {
    const { web } = site.endpoints as unknown as { readonly web: string };
    return new URL(web).port;
  };
  const fetchFrom = (url: string, rootFile: string): Promise<Ran> =>
    execute(program, ['bundle', url, 'lubeck.example', rootFile]);
  const presented = async (): Promise<string> => {
    const socket = connect({
      host: '127.0.0.1',
      port: Number(webPort()),
      servername: 'localhost',
      ca: pki.root,
    });
    await once(socket, 'secureConnect');
    const { fingerprint256 } = socket.getPeerCertificate();
    socket.destroy();
    return fingerprint256;
  };

  for (const path of ['/', '/webapi/spiffe/bundle.json']) {
    test(`it fetches and reads the bundle at ${path}`, async () => {
      const url = `https://localhost:${webPort()}${path}`;
      const { code, stdout, stderr } = await fetchFrom(url, pki.rootFile);
      assert.equal(code, 0, stderr);
      const { authorities, refreshHintSeconds } = JSON.parse(stdout) as Fetched;
      assert.equal(authorities.length, 1);
      assert.equal(refreshHintSeconds, 300);
    });
  }

  test('it refuses the site under an authority that it was not told to believe', async () => {
    const { code, stderr } = await fetchFrom(`https://localhost:${webPort()}/`, stranger.rootFile);
    assert.equal(code, 1);
    assert.match(stderr, /certificate signed by unknown authority/);
  });

  test('it refuses the site under another name than that of the certificate', async () => {
    const { code, stderr } = await fetchFrom(`https://127.0.0.1:${webPort()}/`, pki.rootFile);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /doesn't contain any IP SANs|cannot validate certificate for 127\.0\.0\.1/,
    );
  });

  test('it watches on while the certificate is replaced and an authority is added', async () => {
    const url = `https://localhost:${webPort()}/`;
    const child = spawn(program, ['bundle-watch', url, 'lubeck.example', pki.rootFile], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const updates = linesOf(child);
      const first = await updates();
      assert.equal(first.error, undefined);
      const shown = await presented();
      pki.renew();
      while ((await presented()) === shown) await new Promise((again) => setTimeout(again, 20));
      const { code, stderr } = await hansa([
        'trust',
        'rotate',
        'prepare',
        '--data-dir',
        site.dataDir,
      ]);
      assert.equal(code, 0, stderr);
      const second = await updates();
      assert.equal(second.error, undefined);
      assert.equal(second.authorities.length, first.authorities.length + 1);
      assert.ok(second.sequence > first.sequence);
    } finally {
      child.kill('SIGKILL');
    }
  });
});

function linesOf(child: ChildProcess): () => Promise<Fetched> {
  assert(child.stdout);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async () => {
    const { value, done } = await lines.next();
    assert.equal(done, false, 'go-spiffe ended');
    return JSON.parse(value) as Fetched;
  };
}
