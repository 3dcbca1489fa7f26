// `hansa agent run` joins, and then starts again in the same process without the command line. Service
// managers, users and scripts must see one command.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type AgentProcess, startAgent } from './agent-process.ts';
import { type Daemon, hansa, launcher, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

const folder = temporaryFolder();
const siteData = join(folder, 'lubeck');
let site: Daemon;
let agent: AgentProcess;
let secret: string;

async function newSecret(token: string): Promise<string> {
  const made = await hansa(['join', 'token', 'create', token, '--data-dir', siteData]);
  assert.equal(made.code, 0, made.stderr);
  return made.stdout;
}

const joining = (token: string, name: string) => ({
  url: site.endpoints.federation,
  trustDomain: 'lubeck.example',
  caFile: join(siteData, 'ca.pem'),
  token,
  name,
  secret,
});

const ofProcess = (file: string): string => readFileSync(`/proc/${agent.pid}/${file}`, 'utf8');

suite('the process of hansa agent run', () => {
  before(async () => {
    site = await startDaemon(siteData);
    secret = await newSecret('machines');
    agent = await startAgent(join(folder, 'crane-1'), joining('machines', 'crane-1'));
  });
  after(() => Promise.all([agent.signal('SIGKILL'), site.signal('SIGKILL')]));

  test('is the one that was started', async () => {
    const { stdout } = await hansa(['agent', 'status', '-o', 'json', '--data-dir', agent.dataDir]);
    const status = JSON.parse(stdout) as { readonly pid: number };
    assert.equal(status.pid, agent.pid);
  });

  test('shows the words of the user in a list of processes, and no secret', () => {
    const words = ofProcess('cmdline').split('\0');
    const at = words.indexOf('agent');
    assert.deepEqual(words.slice(at, at + 3), ['agent', 'run', `--data-dir=${agent.dataDir}`]);
    for (const file of ['cmdline', 'environ']) {
      assert.ok(!ofProcess(file).includes(secret.trim()), file);
    }
  });

  test('keeps the options of Node from the launcher', () => {
    const words = ofProcess('cmdline').split('\0');
    for (const flag of ['--disable-sigusr1', '--expose-gc']) assert.ok(words.includes(flag), flag);
  });

  test('ends with 0 after SIGTERM, and with 130 after SIGINT', async () => {
    const one = await startAgent(join(folder, 'crane-2'), joining('machines', 'crane-2'));
    assert.equal(await one.signal('SIGTERM'), 0, one.log());
    assert.match(one.log(), /agent has stopped/);
    const again = await startAgent(one.dataDir);
    assert.equal(await again.signal('SIGINT'), 130, again.log());
    assert.match(again.log(), /agent has stopped/);
  });

  test('takes the secret from standard input, and prints only its greeting on standard output', async () => {
    const to = joining('machines', 'crane-3');
    const child = spawn(
      launcher,
      `agent run --data-dir ${folder}/crane-3 --server ${to.url} --trust-domain ${to.trustDomain} --bundle ${to.caFile} --token ${to.token} --name ${to.name} --secret-file /dev/stdin`.split(
        ' ',
      ),
      { stdio: [openSync(`${agent.dataDir}.secret`, 'r'), 'pipe', 'pipe'] },
    );
    const printed = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (text: string) => {
        printed[name] += text;
      });
    }
    const ended = once(child, 'close');
    await Promise.race([until(() => printed.stdout.includes('next: ')), ended]);
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null], printed.stderr);
    assert.match(printed.stdout, /^spiffe:\/\/lubeck\.example\/hansa\/agent\/crane-3 is ready/);
    const [first = '', ...log] = printed.stderr.trimEnd().split('\n');
    assert.equal(first, 'Joined as spiffe://lubeck.example/hansa/agent/crane-3.');
    // Nothing else, such as a warning of Node.
    for (const line of log) assert.doesNotThrow(() => JSON.parse(line), line);
  });
});
