// `hansa join` against two daemons: with a secret, with an SVID of the other site, and with
// mistakes that users make.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Daemon, hansa, repository, startDaemon, temporaryFolder } from './daemon.ts';

const folder = temporaryFolder();
const data = { lubeck: join(folder, 'lubeck'), bruges: join(folder, 'bruges') };
const at = (name: string): string => join(folder, name);
const daemons: Daemon[] = [];
let server: string;

const lubeck = (...args: readonly string[]) => hansa([...args, '--data-dir', data.lubeck]);
const bruges = (...args: readonly string[]) => hansa([...args, '--data-dir', data.bruges]);
const joinAs = (...args: readonly string[]) =>
  hansa(['join', '--server', server, '--trust-domain', 'lubeck.example', ...args]);
const bySecret = (name: string, into: string, ...more: readonly string[]) =>
  joinAs(
    '--bundle',
    at('lubeck.json'),
    '--token',
    'machines',
    '--name',
    name,
    '--secret-file',
    at('secret'),
    '--write',
    at(into),
    ...more,
  );

async function apply(dataDir: string, manifest: string): Promise<void> {
  const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', dataDir], {
    stdin: manifest,
  });
  assert.equal(code, 0, stderr);
}

suite('hansa join', () => {
  before(async () => {
    daemons.push(
      await startDaemon(data.lubeck),
      await startDaemon(data.bruges, ['--trust-domain', 'bruges.example']),
    );
    server = (daemons[0] as Daemon).endpoints.federation;
    writeFileSync(at('lubeck.json'), (await lubeck('trust', 'bundle', 'show')).stdout);
    const made = await lubeck('join', 'token', 'create', 'machines');
    assert.equal(made.code, 0, made.stderr);
    assert.match(made.stdout, /^hansajoin1\.[\w-]{43}\n$/);
    assert.match(made.stderr, /is not shown again/);
    writeFileSync(at('secret'), made.stdout);
    const bundle = (await bruges('trust', 'bundle', 'show')).stdout.trim();
    await apply(
      data.lubeck,
      `apiVersion: hansa.dev/v1alpha1
kind: SPIFFEFederation
metadata: {name: bruges.example}
spec: {bundleSource: {static: {bundle: '${bundle}'}}}
`,
    );
    const token = await lubeck('apply', '-f', join(repository, 'examples/join/ci-runners.yaml'));
    assert.equal(token.code, 0, token.stderr);
    await apply(
      data.bruges,
      `apiVersion: hansa.dev/v1alpha1
kind: WorkloadEntry
metadata: {name: runner}
spec: {spiffeID: "spiffe://bruges.example/ci/runner", selectors: ["unix:uid:${process.getuid?.() ?? 0}"]}
`,
    );
    for (const [kind, name] of [
      ['spiffefederation', 'bruges.example'],
      ['jointoken', 'ci-runners'],
      ['jointoken', 'machines'],
    ] as const) {
      const { code, stderr } = await lubeck(
        'wait',
        '--timeout=2m',
        kind,
        name,
        '--for',
        'condition=Ready',
      );
      assert.equal(code, 0, stderr);
    }
  });
  after(() => Promise.all(daemons.map((daemon) => daemon.signal('SIGTERM'))));

  test('by a secret writes what openssl believes, for its owner alone', async () => {
    const { code, stdout, stderr } = await bySecret('crane-1', 'crane-1');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /spiffe:\/\/lubeck\.example\/hansa\/agent\/crane-1, valid until /);
    const identity = at('crane-1');
    assert.deepEqual(readdirSync(identity).toSorted(), [
      'bundle.pem',
      'join.json',
      'svid.key',
      'svid.pem',
    ]);
    for (const file of readdirSync(identity)) {
      assert.equal(statSync(join(identity, file)).mode & 0o777, 0o600, file);
    }
    const certificate = new X509Certificate(readFileSync(join(identity, 'svid.pem')));
    const key = createPrivateKey(readFileSync(join(identity, 'svid.key')));
    assert.ok(certificate.checkPrivateKey(key));
    const files = ['-CAfile', join(identity, 'bundle.pem'), join(identity, 'svid.pem')];
    assert.match(execFileSync('openssl', ['verify', ...files]).toString(), /: OK/);
  });

  test('by the SVID of the own site’s socket, at a site that is known by its fingerprint', async () => {
    const fingerprint = (await lubeck('trust', 'bundle', 'fingerprint')).stdout.trim();
    const socket = join(data.bruges, 'workload.sock');
    const { code, stdout, stderr } = await joinAs(
      '--fingerprint',
      fingerprint,
      '--token',
      'ci-runners',
      '--socket',
      socket,
      '--write',
      at('ci'),
      '-o',
      'json',
    );
    assert.equal(code, 0, stderr);
    const { spiffeId } = JSON.parse(stdout) as { readonly spiffeId: string };
    assert.equal(spiffeId, 'spiffe://lubeck.example/hansa/bot/ci');
    const listed = (await lubeck('join', 'list')).stdout;
    assert.match(listed, /ci +ci-runners +spiffe:\/\/bruges\.example\/ci\/runner/);
    const audited = (await lubeck('audit', 'list', '-o', 'json')).stdout;
    assert.match(audited, /"verb": ?"bot\.join"/);
  });

  test('by an SVID in files', async () => {
    const minted = await bruges('svid', 'mint', 'spiffe://bruges.example/ci/x', '--write', at('x'));
    assert.equal(minted.code, 0, minted.stderr);
    const files = ['--svid', join(at('x'), 'svid.pem'), '--key', join(at('x'), 'svid.key')];
    const { code, stderr } = await joinAs(
      '--bundle',
      join(data.lubeck, 'ca.pem'),
      '--token',
      'ci-runners',
      ...files,
      '--write',
      at('ci-x'),
    );
    assert.equal(code, 0, stderr);
  });

  test('renews, and a copy of the folder from before does not', async () => {
    await bySecret('crane-2', 'crane-2');
    cpSync(at('crane-2'), at('stolen'), { recursive: true });
    const first = readFileSync(join(at('crane-2'), 'svid.pem'), 'utf8');
    const { code, stderr } = await hansa(['join', 'renew', '--write', at('crane-2')]);
    assert.equal(code, 0, stderr);
    assert.notEqual(readFileSync(join(at('crane-2'), 'svid.pem'), 'utf8'), first);
    assert.match(readFileSync(join(at('crane-2'), 'join.json'), 'utf8'), /"generation": "2"/);
    const stolen = await hansa(['join', 'renew', '--write', at('stolen')]);
    assert.equal(stolen.code, 7);
    assert.match(stolen.stderr, /The join is rejected/);
    assert.equal((await hansa(['join', 'renew', '--write', at('crane-2')])).code, 0);
    // The operator sees it on the Agent.
    const told = ['agents', 'crane-2', '--for', 'condition=OldSVIDRefused', '--timeout', '30s'];
    const waited = await lubeck('wait', ...told);
    assert.equal(waited.code, 0, waited.stderr);
    const shown = (await lubeck('get', 'agents', 'crane-2', '-o', 'json')).stdout;
    assert.match(shown, /generation 1 tried to renew, and generation 2 is the newest/);
  });

  test('by a token for one machine admits that machine once, with its labels', async () => {
    const flags = ['--single-use', '--agent-name', 'barge-1', '--label', 'quay=north'];
    const made = await lubeck('join', 'token', 'create', 'barge', ...flags);
    assert.equal(made.code, 0, made.stderr);
    writeFileSync(at('barge-secret'), made.stdout);
    const proof = ['--bundle', at('lubeck.json'), '--secret-file', at('barge-secret')];
    const joinBarge = (name: string, into: string) =>
      joinAs(...proof, '--token', 'barge', '--name', name, '--write', at(into));
    const other = await joinBarge('barge-2', 'barge-2');
    assert.equal(other.code, 7);
    assert.match(other.stderr, /^The site at \S+ says: The join is rejected\./);
    const first = await joinBarge('barge-1', 'barge-1');
    assert.equal(first.code, 0, first.stderr);
    const second = await joinBarge('barge-1', 'barge-again');
    assert.equal(second.code, 7);
    assert.match(second.stderr, /the token barge is single-use, and it was used at /);
    assert.ok(!existsSync(at('barge-again')));
    const used = ['jointokens', 'barge', '--for', 'condition=Ready=False', '--timeout', '30s'];
    assert.equal((await lubeck('wait', ...used)).code, 0);
    const token = (await lubeck('get', 'jointokens', 'barge', '-o', 'json')).stdout;
    assert.match(token, /is single-use, and agent\/barge-1 used it at /);
    assert.equal((await lubeck('wait', 'agents', 'barge-1', '--for', 'create')).code, 0);
    const agent = (await lubeck('get', 'agents', 'barge-1', '-o', 'json')).stdout;
    const { metadata } = JSON.parse(agent) as { metadata: { labels: object } };
    assert.deepEqual(metadata.labels, { quay: 'north' });
  });

  test('goes on where it was cut off between two files', async () => {
    await bySecret('crane-3', 'crane-3');
    const file = (name: string): string => join(at('crane-3'), name);
    for (const name of ['svid.pem', 'bundle.pem', 'join.json']) {
      renameSync(file(name), file(`${name}.next`));
    }
    const { code, stderr } = await hansa(['join', 'renew', '--write', at('crane-3')]);
    assert.equal(code, 0, stderr);
    assert.ok(!existsSync(file('join.json.next')));
  });

  test('asks again for the same key where an answer did not arrive', async () => {
    await bySecret('crane-4', 'crane-4');
    // As if nothing but the key had been written.
    cpSync(join(at('crane-4'), 'svid.key'), join(at('again'), 'svid.key.next'), {
      recursive: true,
    });
    const { code, stderr } = await bySecret('crane-4', 'again');
    assert.equal(code, 0, stderr);
  });

  test('never replaces an agent, until the operator forgets it', async () => {
    await bySecret('crane-5', 'crane-5');
    const taken = await bySecret('crane-5', 'other');
    assert.equal(taken.code, 5);
    assert.match(taken.stderr, /There is an agent crane-5 already.*HANSA_ALREADY_EXISTS/s);
    const asBot = await lubeck('join', 'forget', 'crane-5', '--yes');
    assert.equal(asBot.code, 4);
    assert.match(asBot.stderr, /crane-5 is an agent\..*hansa agent forget crane-5/);
    assert.equal((await lubeck('agent', 'forget', 'crane-5', '--yes')).code, 0);
    assert.equal((await bySecret('crane-5', 'other')).code, 0);
    const renewal = await hansa(['join', 'renew', '--write', at('crane-5')]);
    assert.equal(renewal.code, 7);
    assert.equal((await lubeck('agent', 'forget', 'nobody', '--yes')).code, 4);
  });

  test('of a bot ends when the operator forgets the bot', async () => {
    assert.equal((await lubeck('join', 'forget', 'ci', '--yes')).code, 0);
    const renewal = await hansa(['join', 'renew', '--write', at('ci')]);
    assert.equal(renewal.code, 7, renewal.stderr);
    assert.equal((await lubeck('join', 'forget', 'ci', '--yes')).code, 4);
  });

  test('says nothing to a server that is not the site', async () => {
    const wrong = await hansa([
      'join',
      '--server',
      server,
      '--trust-domain',
      'bruges.example',
      '--bundle',
      join(data.bruges, 'ca.pem'),
      '--token',
      'machines',
      '--name',
      'a',
      '--secret-file',
      at('secret'),
      '--write',
      at('wrong'),
    ]);
    assert.equal(wrong.code, 11);
    assert.match(wrong.stderr, /is not spiffe:\/\/bruges\.example\/hansa\/site.*Nothing was sent/s);
    const pinned = await joinAs(
      '--fingerprint',
      'aa:bb',
      '--token',
      'machines',
      '--name',
      'a',
      '--secret-file',
      at('secret'),
      '--write',
      at('wrong'),
    );
    assert.equal(pinned.code, 11);
    assert.match(pinned.stderr, /its bundle has the fingerprint /);
  });

  test('refuses what cannot be meant before it calls anybody', async () => {
    writeFileSync(at('no-secret'), 'swordfish');
    for (const [args, code, words] of [
      [['--token', 'machines', '--name', 'a'], 2, /--write is required/],
      [['--write', at('w')], 2, /--token is required/],
      [['--token', 't', '--role', 'agent', '--write', at('w')], 2, /needs a --name/],
      [['--token', 't', '--role', 'bot', '--name', 'a', '--write', at('w')], 2, /remove --name/],
      [['--token', 't', '--write', at('w')], 2, /exactly one proof/],
      [['--token', 't', '--write', at('w'), '--svid', at('secret')], 2, /exactly one proof/],
      [['--token', 't', '--write', at('w'), '--secret-file', at('none')], 2, /no such file/],
      [['--token', 't', '--write', at('w'), '--secret-file', at('no-secret')], 3, /not the secret/],
      [['--token', 't', '--write', at('w'), '--secret-file', at('secret')], 2, /--bundle with its/],
    ] as const) {
      const ended = await joinAs(...args);
      assert.equal(ended.code, code, `${args.join(' ')}: ${ended.stderr}`);
      assert.match(ended.stderr, words);
      assert.doesNotMatch(ended.stderr, /swordfish/);
    }
    const bad = await hansa([
      'join',
      '--server',
      'http://a',
      '--token',
      't',
      '--secret-file',
      at('secret'),
      '--write',
      at('w'),
    ]);
    assert.match(bad.stderr, /must be the https URL/);
    const again = await bySecret('crane-9', 'crane-1');
    assert.equal(again.code, 2);
    assert.match(again.stderr, /belongs to spiffe:\/\/lubeck\.example\/hansa\/agent\/crane-1/);
  });
});
