// A workload of SPIRE and a workload of a site call each other over mutual TLS, both by go-spiffe:
// each has its SVID and the other's bundle from its own Workload API.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  type Daemon,
  execute,
  hansa,
  type Ran,
  startDaemon,
  temporaryFolder,
} from '../e2e/daemon.ts';
import {
  missingSpire,
  type SpireAgent,
  type SpireServer,
  startSpire,
  startSpireAgent,
} from './spire.ts';
import { missingTools, requireTool } from './tool.ts';

const skip = missingSpire('spire-server', 'spire-agent') || (await missingTools('go-spiffe'));
const uid = process.getuid?.() ?? 0;
const db = 'spiffe://lubeck.example/db';
const web = 'spiffe://hamburg.example/web';

suite('a workload of SPIRE and one of a site', { skip }, () => {
  let site: Daemon;
  let spire: SpireServer;
  let agent: SpireAgent;
  const running: ChildProcess[] = [];

  before(async () => {
    [site, spire] = await Promise.all([
      startDaemon(join(temporaryFolder(), 'lubeck')),
      startSpire('hamburg.example'),
    ]);
    await federate();
    await spire.run(
      'entry',
      'create',
      '-parentID=spiffe://hamburg.example/agent',
      `-spiffeID=${web}`,
      `-selector=unix:uid:${uid}`,
      '-federatesWith=spiffe://lubeck.example',
    );
    agent = await startSpireAgent(spire);
    await apply('WorkloadEntry', 'db', {
      spiffeID: db,
      selectors: [`unix:uid:${uid}`],
      federatesWith: ['hamburg.example'],
    });
  });
  after(async () => {
    for (const child of running) child.kill('SIGTERM');
    await agent?.stop();
    await Promise.all([spire?.stop(), site?.signal('SIGTERM')]);
  });

  const apply = async (kind: string, name: string, spec: object): Promise<void> => {
    const object = { apiVersion: 'hansa.dev/v1alpha1', kind, metadata: { name }, spec };
    const ran = await hansa(['apply', '-f', '-', '--data-dir', site.dataDir], {
      stdin: JSON.stringify(object),
    });
    assert.equal(ran.code, 0, ran.stderr);
  };
  const federate = async (): Promise<void> => {
    await apply('SPIFFEFederation', 'hamburg.example', {
      bundleSource: {
        httpsSpiffe: {
          bundleEndpointURL: spire.bundleEndpoint,
          endpointSpiffeID: 'spiffe://hamburg.example/spire/server',
          bundleBootstrap: await spire.bundle(),
        },
      },
    });
    const path = join(spire.folder, 'lubeck.json');
    const shown = await hansa(['trust', 'bundle', 'show', '--data-dir', site.dataDir]);
    await writeFile(path, shown.stdout);
    const { federation } = site.endpoints as unknown as { readonly federation: string };
    await spire.run(
      'federation',
      'create',
      '-trustDomain=lubeck.example',
      `-bundleEndpointURL=${federation}/`,
      '-bundleEndpointProfile=https_spiffe',
      '-endpointSpiffeID=spiffe://lubeck.example/hansa/site',
      `-trustDomainBundlePath=${path}`,
      '-trustDomainBundleFormat=spiffe',
    );
  };

  const ofSite = (): string => `unix://${join(site.dataDir, 'workload.sock')}`;
  const ofSpire = (): string => `unix://${agent.socket}`;

  /** Resolves to its address. */
  const serve = async (socket: string, authorized: string): Promise<string> => {
    const child = spawn(await requireTool('go-spiffe'), ['server', '127.0.0.1:0', authorized], {
      env: { ...process.env, SPIFFE_ENDPOINT_SOCKET: socket },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    running.push(child);
    const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
    return (JSON.parse(line) as { readonly address: string }).address;
  };
  const call = async (socket: string, address: string, authorized: string): Promise<Ran> =>
    execute(await requireTool('go-spiffe'), ['client', `https://${address}/`, authorized], {
      env: { SPIFFE_ENDPOINT_SOCKET: socket },
    });

  test('the workload of SPIRE calls that of the site', async () => {
    const address = await serve(ofSite(), web);
    const { code, stdout, stderr } = await call(ofSpire(), address, db);
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(web));
  });

  test('the workload of the site calls that of SPIRE', async () => {
    const address = await serve(ofSpire(), db);
    const { code, stdout, stderr } = await call(ofSite(), address, web);
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(db));
  });

  test('a workload of the site that expects another identity refuses that of SPIRE', async () => {
    const address = await serve(ofSpire(), db);
    const { code } = await call(ofSite(), address, 'spiffe://hamburg.example/other');
    assert.notEqual(code, 0);
  });
});
