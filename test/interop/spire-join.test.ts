// A workload of a real SPIRE joins a site as a bot: with an SVID that spire-server minted, and with
// an SVID from the Workload API of its spire-agent.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type SpireAgent, type SpireServer, startSpireBeside, startSpireAgent } from './spire.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('spire-server', 'spire-agent');
const hamburg = 'hamburg.example';

suite('a workload of SPIRE that joins a site', { skip }, () => {
  let daemon: Daemon;
  let spire: SpireServer;
  let agent: SpireAgent;
  const folder = temporaryFolder();
  const dataDir = join(folder, 'lubeck');
  const lubeck = (...args: readonly string[]) => hansa([...args, '--data-dir', dataDir]);
  const joinAs = (into: string, ...proof: readonly string[]) =>
    hansa([
      'join',
      '--server',
      daemon.endpoints.federation,
      '--trust-domain',
      'lubeck.example',
      '--bundle',
      join(dataDir, 'ca.pem'),
      '--token',
      'ci',
      '--write',
      join(folder, into),
      ...proof,
    ]);

  before(async () => {
    daemon = await startDaemon(dataDir);
    spire = await startSpireBeside(daemon, hamburg);
    agent = await startSpireAgent(spire);
    const manifest = `apiVersion: hansa.dev/v1alpha1
kind: SPIFFEFederation
metadata: {name: ${hamburg}}
spec: {bundleSource: {static: {bundle: '${(await spire.bundle()).replaceAll('\n', ' ')}'}}}
---
apiVersion: hansa.dev/v1alpha1
kind: JoinToken
metadata: {name: ci}
spec:
  method: spiffe
  roles: [bot]
  botName: ci
  spiffe: {allow: [{spiffeID: "spiffe://${hamburg}/ci/*"}]}
`;
    const applied = await hansa(['apply', '-f', '-', '--data-dir', dataDir], { stdin: manifest });
    assert.equal(applied.code, 0, applied.stderr);
    await lubeck('wait', '--timeout=2m', 'spiffefederation', hamburg, '--for', 'condition=Ready');
  });
  after(async () => {
    await agent?.stop();
    await spire?.stop();
    await daemon?.signal('SIGTERM');
  });

  const mint = async (path: string): Promise<readonly string[]> => {
    await spire.run(
      'x509',
      'mint',
      '-spiffeID',
      `spiffe://${hamburg}${path}`,
      '-write',
      spire.folder,
    );
    return ['--svid', join(spire.folder, 'svid.pem'), '--key', join(spire.folder, 'key.pem')];
  };

  test('joins by an SVID that was minted', async () => {
    const { code, stdout, stderr } = await joinAs('minted', ...(await mint('/ci/minted')));
    assert.equal(code, 0, stderr);
    assert.match(stdout, /spiffe:\/\/lubeck\.example\/hansa\/bot\/ci, valid until /);
    const { stdout: audited } = await lubeck('audit', 'list', '-o', 'json');
    assert.match(audited, /spiffe:\/\/hamburg\.example\/ci\/minted/);
  });

  test('is refused with another identity', async () => {
    const { code, stderr } = await joinAs('refused', ...(await mint('/web')));
    assert.equal(code, 7, stderr);
  });

  test('joins by what its agent gives it', async () => {
    await spire.run(
      'entry',
      'create',
      '-parentID',
      `spiffe://${hamburg}/agent`,
      '-spiffeID',
      `spiffe://${hamburg}/ci/runner`,
      '-selector',
      `unix:uid:${process.getuid?.() ?? 0}`,
    );
    await until(async () => {
      const { code } = await joinAs('fetched', '--socket', agent.socket);
      return code === 0;
    });
    const { stdout } = await lubeck('join', 'list');
    assert.match(stdout, /spiffe:\/\/hamburg\.example\/ci\/runner/);
  });
});
