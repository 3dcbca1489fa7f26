// An entry has a DNS name that the site later uses for its own advertised URL. The site removes the
// name from SVIDs.

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Daemon, hansa, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

test('a DNS name that the site takes later goes out of SVIDs, and the entry says why', async (t) => {
  const folder = temporaryFolder();
  const dataDir = join(folder, 'lubeck');
  const site = (...args: readonly string[]) => hansa([...args, '--data-dir', dataDir]);
  const dnsNamesOfSvid = async (): Promise<string> => {
    const tls = join(folder, 'tls');
    const { code, stderr } = await site('svid', 'watch', '--once', '--write', tls);
    assert.equal(code, 0, stderr);
    return new X509Certificate(readFileSync(join(tls, 'svid.pem'))).subjectAltName ?? '';
  };
  let daemon: Daemon = await startDaemon(dataDir);
  t.after(() => daemon.signal('SIGTERM'));
  const manifest = `apiVersion: hansa.dev/v1alpha1
kind: WorkloadEntry
metadata: {name: web}
spec:
  spiffeID: spiffe://lubeck.example/web
  selectors: ["unix:uid:${process.getuid?.() ?? 0}"]
  dnsNames: [portal.lubeck.example, web.lubeck.example]
`;
  const applied = await hansa(['apply', '-f', '-', '--data-dir', dataDir], { stdin: manifest });
  assert.equal(applied.code, 0, applied.stderr);
  assert.match(await dnsNamesOfSvid(), /DNS:portal\.lubeck\.example/);

  await daemon.signal('SIGTERM');
  daemon = await startDaemon(dataDir, ['--advertise', 'https://portal.lubeck.example:8443']);
  const names = await dnsNamesOfSvid();
  assert.doesNotMatch(names, /portal/);
  assert.match(names, /DNS:web\.lubeck\.example/);
  let told = '';
  await until(async () => {
    told = (await site('get', 'workloadentry', 'web', '-o', 'json')).stdout;
    return told.includes('NameOfSite');
  });
  assert.match(told, /SVIDs do not contain portal\.lubeck\.example/);
  const labelled = manifest.replace('{name: web}', '{name: web, labels: {zone: harbour}}');
  const again = await hansa(['apply', '-f', '-', '--data-dir', dataDir], { stdin: labelled });
  assert.equal(again.code, 0, again.stderr);
  const other = manifest.replace('{name: web}', '{name: other}');
  const refused = await hansa(['apply', '-f', '-', '--data-dir', dataDir], { stdin: other });
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /a name of the site itself/);
});
