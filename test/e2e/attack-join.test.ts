// A user who may write JoinTokens, Agents and SPIFFEFederations, but no WorkloadEntries, tries to get the
// identities of an agent. So does a cluster with the role of examples/gitops.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Daemon, hansa, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

const folder = temporaryFolder();
const at = (name: string): string => join(folder, name);
let site: Daemon;

const lubeck = (...args: readonly string[]) => hansa([...args, '--data-dir', at('lubeck')]);
const manifest = (kind: string, name: string, spec: object, labels?: object) => ({
  apiVersion: 'hansa.dev/v1alpha1',
  kind,
  metadata: { name, ...(labels && { labels }) },
  spec,
});
const stdin = (...objects: readonly object[]) => ({
  stdin: objects.map((object) => JSON.stringify(object)).join('\n---\n'),
});
const apply = async (...objects: readonly object[]): Promise<void> => {
  const made = await hansa(['apply', '-f', '-', '--data-dir', at('lubeck')], stdin(...objects));
  assert.equal(made.code, 0, made.stderr);
};
/** As the user who may not write WorkloadEntries. */
const asMallory = {
  env: () => ({
    HANSA_SITE: site.endpoints.api,
    HANSA_CA_FILE: at('lubeck/ca.pem'),
    HANSA_TOKEN_FILE: at('mallory'),
  }),
};
const mallory = (args: readonly string[], input?: { readonly stdin: string }) =>
  hansa(args, { env: asMallory.env(), ...input });
const refused = async (object: object, why: RegExp): Promise<void> => {
  const { code, stderr } = await mallory(['apply', '-f', '-'], stdin(object));
  assert.equal(code, 7, stderr);
  assert.match(stderr, why);
};

async function succeeds(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await lubeck(...args);
  assert.equal(code, 0, stderr);
  return stdout;
}

let joins = 0;

async function joinAs(name: string, token: string): Promise<void> {
  const where = ['--server', site.endpoints.federation, '--trust-domain', 'lubeck.example'];
  const by = ['--bundle', at('bundle'), '--token', token, '--secret-file', at(token)];
  const write = ['--name', name, '--write', at(`${name}-${++joins}`)];
  const { code, stderr } = await hansa(['join', ...where, ...by, ...write]);
  assert.equal(code, 0, stderr);
  await until(async () => (await lubeck('agent', 'show', name)).code === 0);
}

const entriesOf = async (name: string): Promise<readonly string[]> => {
  const shown = JSON.parse(await succeeds('agent', 'show', name, '-o', 'json')) as {
    readonly entries: readonly string[];
  };
  return shown.entries;
};

const expiresAt = '2099-01-01T00:00:00Z';
const entriesNeeded =
  /needs the role admin, or a rule with the verbs create and update on all workloadentries/;
const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const key = { use: 'jwt-svid', kid: 'k', ...publicKey.export({ format: 'jwk' }) };
const bundle = JSON.stringify({ keys: [key] });
const federation = (name: string) =>
  manifest('SPIFFEFederation', name, { bundleSource: { static: { bundle } } });

before(async () => {
  site = await startDaemon(at('lubeck'));
  writeFileSync(at('bundle'), await succeeds('trust', 'bundle', 'show'));
  const everything = ['JoinToken', 'Agent', 'SPIFFEFederation'];
  await apply(
    manifest('Role', 'joiners', { rules: [{ kinds: everything, verbs: ['*'] }] }),
    manifest('RoleBinding', 'joiners', {
      role: 'joiners',
      subjects: [{ kind: 'Token', name: 'mallory' }],
    }),
    manifest('WorkloadEntry', 'scale', {
      spiffeID: 'spiffe://lubeck.example/scale',
      selectors: ['unix:uid:4242'],
      agents: { names: ['crane-1'] },
    }),
  );
  const create = ['access', 'token', 'create', 'mallory', '--role', 'viewer', '--ttl', '1h'];
  const token = await succeeds(...create);
  writeFileSync(at('mallory'), token, { mode: 0o600 });
});
after(() => site.signal('SIGTERM'));

suite('a user without the right to write WorkloadEntries', () => {
  test('creates no token for agents, and turns no token into one', async () => {
    const secret = { method: 'secret', expiresAt };
    await refused(manifest('JoinToken', 'm', { ...secret, roles: ['agent'] }), entriesNeeded);
    const named = { ...secret, roles: ['agent'], agentName: 'crane-1' };
    await refused(manifest('JoinToken', 'm', named), entriesNeeded);
    const bot = { ...secret, roles: ['bot'], botName: 'm' };
    const made = await mallory(['apply', '-f', '-'], stdin(manifest('JoinToken', 'm', bot)));
    assert.equal(made.code, 0, made.stderr);
    await refused(manifest('JoinToken', 'm', { ...bot, roles: ['agent', 'bot'] }), entriesNeeded);
  });

  test('learns no secret of a token for agents', async () => {
    writeFileSync(at('machines'), await succeeds('join', 'token', 'create', 'machines'));
    const { code, stderr } = await mallory(['join', 'token', 'secret', 'machines']);
    assert.equal(code, 7, stderr);
    assert.match(stderr, /workloadentries/);
    // A secret of the time when the token was for bots.
    const own = await mallory(['join', 'token', 'secret', 'm']);
    assert.equal(own.code, 0, own.stderr);
    writeFileSync(at('m'), own.stdout);
    await apply(
      manifest('JoinToken', 'm', {
        method: 'secret',
        expiresAt,
        roles: ['agent', 'bot'],
        botName: 'm',
      }),
    );
    await assert.rejects(joinAs('crane-1', 'm'), /The join is rejected/);
  });

  test('gives no entries to a machine that took the name of a forgotten one', async () => {
    await joinAs('crane-1', 'machines');
    assert.deepEqual(await entriesOf('crane-1'), ['scale']);
    const forgotten = await mallory(['agent', 'forget', 'crane-1', '--yes']);
    assert.equal(forgotten.code, 0, forgotten.stderr);
    // A holder of the secret, under the name that is free now.
    await joinAs('crane-1', 'machines');
    assert.deepEqual(await entriesOf('crane-1'), []);
    await until(async () =>
      /Another machine was crane-1 before/.test(
        await succeeds('get', 'workloadentry', 'scale', '-o', 'json'),
      ),
    );
    const taken = manifest('Agent', 'crane-1', { entriesByName: true });
    const patched = await mallory(['apply', '--force-conflicts', '-f', '-'], stdin(taken));
    assert.equal(patched.code, 7, patched.stderr);
    assert.match(patched.stderr, entriesNeeded);
    await succeeds('agent', 'forget', 'crane-1', '--yes');
    const token = ['join', 'token', 'create', 'crane-1', '--agent-name', 'crane-1'];
    writeFileSync(at('crane-1'), await succeeds(...token));
    await joinAs('crane-1', 'crane-1');
    assert.deepEqual(await entriesOf('crane-1'), ['scale']);
  });

  test('declares no trust domain whose machines may join', async () => {
    await apply(
      manifest('JoinToken', 'visby', {
        method: 'spiffe',
        roles: ['agent'],
        spiffe: { allow: [{ spiffeID: 'spiffe://visby.example/machines/*' }] },
      }),
    );
    await refused(
      federation('visby.example'),
      /cannot change spec\.bundleSource because machines join with SVIDs of visby\.example \(JoinToken visby\): .* workloadentries/,
    );
    await apply(federation('visby.example'));
    await refused(
      manifest('SPIFFEFederation', 'visby.example', {
        bundleSource: { httpsWeb: { bundleEndpointURL: 'https://mallory.example/' } },
      }),
      /bundleSource/,
    );
    const other = await mallory(['apply', '-f', '-'], stdin(federation('other.example')));
    assert.equal(other.code, 0, other.stderr);
  });
});
