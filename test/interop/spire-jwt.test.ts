// JWT-SVIDs and SPIRE: `spire-agent api` as a client of a site's Workload API, and JWT-SVIDs that a
// site issues and a federated SPIRE validates, and the reverse.

import assert from 'node:assert/strict';
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
import { until } from '../e2e/until.ts';
import { type SpireAgent, type SpireServer, startSpireBeside, startSpireAgent } from './spire.ts';
import { missingTools, requireTool } from './tool.ts';

const uid = process.getuid?.() ?? 0;
const db = 'spiffe://lubeck.example/db';
const web = 'spiffe://hamburg.example/web';

const skip = await missingTools('spire-server', 'spire-agent');

suite('JWT-SVIDs and SPIRE', { skip }, () => {
  let site: Daemon;
  let spire: SpireServer;
  let agent: SpireAgent;

  before(async () => {
    site = await startDaemon(join(temporaryFolder(), 'lubeck'));
    spire = await startSpireBeside(site, 'hamburg.example');
    const path = join(spire.folder, 'lubeck.json');
    await writeFile(path, await run('trust', 'bundle', 'show'));
    await spire.run(
      'bundle',
      'set',
      '-id=spiffe://lubeck.example',
      '-format=spiffe',
      `-path=${path}`,
    );
    await spire.run(
      'entry',
      'create',
      '-parentID=spiffe://hamburg.example/agent',
      `-spiffeID=${web}`,
      `-selector=unix:uid:${uid}`,
      '-federatesWith=spiffe://lubeck.example',
    );
    agent = await startSpireAgent(spire);
    await apply('SPIFFEFederation', 'hamburg.example', {
      bundleSource: { static: { bundle: await spire.bundle() } },
    });
    await run(
      'wait',
      '--timeout=2m',
      'spiffefederation',
      'hamburg.example',
      '--for',
      'condition=Ready',
    );
    await apply('WorkloadEntry', 'db', {
      spiffeID: db,
      selectors: [`unix:uid:${uid}`],
      federatesWith: ['hamburg.example'],
    });
    await untilRegistered();
  });
  after(async () => {
    await agent?.stop();
    await Promise.all([spire?.stop(), site?.signal('SIGTERM')]);
  });

  const run = async (...args: readonly string[]): Promise<string> => {
    const ran = await hansa([...args, '--data-dir', site.dataDir]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  const apply = async (kind: string, name: string, spec: object): Promise<void> => {
    const object = { apiVersion: 'hansa.dev/v1alpha1', kind, metadata: { name }, spec };
    const ran = await hansa(['apply', '-f', '-', '--data-dir', site.dataDir], {
      stdin: JSON.stringify(object),
    });
    assert.equal(ran.code, 0, ran.stderr);
  };

  const ofSite = (): string => join(site.dataDir, 'workload.sock');
  const api = async (socket: string, ...args: readonly string[]): Promise<Ran> =>
    execute(await requireTool('spire-agent'), ['api', ...args, '-socketPath', socket]);
  /** An agent of SPIRE asks its server for its entries every few seconds. */
  const untilRegistered = (): Promise<void> =>
    until(async () => (await api(agent.socket, 'fetch', 'jwt', '-audience', 'reports')).code === 0);
  const fetchToken = async (socket: string): Promise<string> => {
    const { code, stdout, stderr } = await api(socket, 'fetch', 'jwt', '-audience', 'reports');
    assert.equal(code, 0, stderr);
    const token = /^\s*(eyJ\S+)$/m.exec(stdout)?.[1];
    assert.notEqual(token, undefined, stdout);
    return token as string;
  };
  const validate = (socket: string, token: string, audience = 'reports'): Promise<Ran> =>
    api(socket, 'validate', 'jwt', '-audience', audience, '-svid', token);

  test('the client of SPIRE fetches a token from the site, with the bundles', async () => {
    const { code, stdout, stderr } = await api(ofSite(), 'fetch', 'jwt', '-audience', 'reports');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /token\(spiffe:\/\/lubeck\.example\/db\):/);
    assert.match(stdout, /bundle\(spiffe:\/\/lubeck\.example\):/);
    assert.match(stdout, /bundle\(spiffe:\/\/hamburg\.example\):/);
  });

  test('the client of SPIRE has a token validated by the site, and refused for another audience', async () => {
    const token = await fetchToken(ofSite());
    const good = await validate(ofSite(), token);
    assert.equal(good.code, 0, good.stderr);
    assert.match(good.stdout, /SPIFFE ID\s*: spiffe:\/\/lubeck\.example\/db/);
    const bad = await validate(ofSite(), token, 'db');
    assert.notEqual(bad.code, 0);
    assert.match(bad.stdout + bad.stderr, /audience; JWT-SVID §3\.2/);
  });

  test('a token of SPIRE is believed by the site', async () => {
    const { code, stdout, stderr } = await validate(ofSite(), await fetchToken(agent.socket));
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`SPIFFE ID\\s*: ${web}`));
  });

  test('a token of the site is believed by SPIRE', async () => {
    const { code, stdout, stderr } = await validate(agent.socket, await fetchToken(ofSite()));
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`SPIFFE ID\\s*: ${db}`));
  });

  test('a token of SPIRE is refused by the site as soon as the workload federates with nobody', async () => {
    const token = await fetchToken(agent.socket);
    await apply('WorkloadEntry', 'db', { spiffeID: db, selectors: [`unix:uid:${uid}`] });
    const { code, stdout, stderr } = await validate(ofSite(), token);
    assert.notEqual(code, 0);
    assert.match(stdout + stderr, /no usable bundle of its trust domain hamburg\.example/);
  });
});
