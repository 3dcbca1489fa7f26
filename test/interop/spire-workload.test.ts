// A workload of SPIRE and a workload of a site call each other over mutual TLS, both with
// go-spiffe. Each gets its SVID and the bundle of the other side from its own Workload API. SPIRE's
// client also calls the Workload API of the site.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { execute, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { db, type SpirePair, startSpirePair, web } from './spire-pair.ts';
import { missingTools, requireTool } from './tool.ts';

const skip = await missingTools('spire-server', 'spire-agent', 'go-spiffe');

suite('a workload of SPIRE and one of a site', { skip }, () => {
  let pair: SpirePair;
  let folder: string;

  before(async () => {
    folder = temporaryFolder();
    pair = await startSpirePair(join(folder, 'lubeck'));
  });
  after(() => pair?.stop());

  /** Resolves to its URL. */
  const serve = async (side: 'site' | 'spire', authorized: string): Promise<string> => {
    const server = await pair.follow(side, 'server', '127.0.0.1:0', authorized);
    const { address } = await server.next<{ readonly address: string }>();
    return `https://${address}/`;
  };

  test('the workload of SPIRE calls that of the site', async () => {
    const { code, stdout, stderr } = await pair.judge(
      'spire',
      'client',
      await serve('site', web),
      db,
    );
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(web));
  });

  test('the workload of the site calls that of SPIRE', async () => {
    const { code, stdout, stderr } = await pair.judge(
      'site',
      'client',
      await serve('spire', db),
      web,
    );
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(db));
  });

  test('a workload of the site that expects another identity refuses that of SPIRE', async () => {
    const url = await serve('spire', db);
    const { code } = await pair.judge('site', 'client', url, 'spiffe://hamburg.example/other');
    assert.notEqual(code, 0);
  });

  test('spire-agent api fetch x509 writes what openssl believes, of both trust domains', async () => {
    const written: Record<'site' | 'spire', string> = {
      site: join(folder, 'site'),
      spire: join(folder, 'spire'),
    };
    for (const side of ['site', 'spire'] as const) {
      await mkdir(written[side]);
      const { code, stderr } = await pair.api(side, 'fetch', 'x509', '-write', written[side]);
      assert.equal(code, 0, stderr);
    }
    const verify = async (bundle: string, svid: string): Promise<number> => {
      const chain = join(svid, 'svid.0.pem');
      const { code } = await execute('openssl', [
        'verify',
        '-x509_strict',
        '-CAfile',
        bundle,
        '-untrusted',
        chain,
        chain,
      ]);
      return code;
    };
    assert.equal(await verify(join(written.site, 'bundle.0.pem'), written.site), 0);
    const federated = join(written.site, 'federated_bundle.0.0.pem');
    assert.equal(await verify(federated, written.spire), 0);
    assert.notEqual(await verify(federated, written.site), 0);
    const ofSite = join(written.spire, 'federated_bundle.0.0.pem');
    assert.equal(await verify(ofSite, written.site), 0);
  });

  test('spire-agent healthcheck finds the site as well as its own agent', async () => {
    for (const side of ['site', 'spire'] as const) {
      const { code, stdout, stderr } = await execute(await requireTool('spire-agent'), [
        'healthcheck',
        '-socketPath',
        pair.sockets[side],
      ]);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /Agent is healthy/);
    }
  });

  test('spire-agent api watch is told of every change', async () => {
    const program = await requireTool('spire-agent');
    const child = spawn(program, ['api', 'watch', '-socketPath', pair.sockets.site], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
    });
    try {
      // It prints in pieces.
      await until(() => new RegExp(`Received 1 svid[^]*SPIFFE ID:\\s+${db}`).test(shown));
      await pair.apply('WorkloadEntry', 'also', {
        spiffeID: 'spiffe://lubeck.example/also',
        selectors: [`unix:uid:${process.getuid?.() ?? 0}`],
      });
      const both = /Received 2 svids[^]*SPIFFE ID:\s+spiffe:\/\/lubeck\.example\/also/;
      await until(() => both.test(shown));
    } finally {
      child.kill('SIGTERM');
    }
  });
});
