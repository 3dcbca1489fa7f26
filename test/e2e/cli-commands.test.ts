// Runs the commands of `hansa` against one site as a user does, and checks output, errors and exit
// codes.

import assert from 'node:assert/strict';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parse } from 'yaml';
import { refuses, roleManifest as role, succeeds } from './cli-outcome.ts';
import {
  type Daemon,
  execute,
  Follower,
  hansa,
  launcher,
  type Ran,
  startDaemon,
  temporaryFolder,
} from './daemon.ts';

const folder = temporaryFolder();
const dataDir = join(folder, 'lubeck');
let site: Daemon;

before(async () => {
  site = await startDaemon(dataDir);
});
after(() => site.signal('SIGTERM'));

const run = (...args: string[]): Promise<Ran> => hansa([...args, '--data-dir', dataDir]);
const apply = (manifest: string, ...args: string[]): Promise<Ran> =>
  hansa(['apply', '-f', '-', '--data-dir', dataDir, ...args], { stdin: manifest });

suite('a site alone', () => {
  test('says when it is ready, where it listens and what to do next', () => {
    assert.match(site.greeting, /^lubeck\.example is ready \(\d+\.\d s\)$/m);
    assert.match(site.greeting, /^ {2}api +https:\/\/127\.0\.0\.1:\d+ /m);
    assert.match(site.greeting, /^next: /m);
  });

  test('is one object', async () => {
    assert.match(await succeeds(run('get', 'sites')), /^site +lubeck\.example +True /m);
    const name = ['-o', "jsonpath='{.status.trustDomain}'".replaceAll("'", '')];
    assert.equal(await succeeds(run('get', 'site', 'site', ...name)), 'lubeck.example\n');
    assert.match(
      await succeeds(run('describe', 'site/site')),
      /^ {2}Trust Domain: lubeck\.example$/m,
    );
  });

  test('refuses a second daemon on its folder, and is not disturbed by it', async () => {
    const second = hansa([
      'server',
      '--data-dir',
      dataDir,
      '--api',
      '127.0.0.1:0',
      '--federation',
      'off',
      '--metrics',
      'off',
    ]);
    await refuses(second, 12, /\(HANSA_STORE_LOCKED\)$/m);
    await succeeds(run('get', 'sites'));
  });

  test('refuses another trust domain than the one it was made with', async () => {
    const other = temporaryFolder();
    const first = await startDaemon(other);
    await first.signal('SIGTERM');
    const wrong = [
      'server',
      '--data-dir',
      other,
      '--trust-domain',
      'bruges.example',
      '--api',
      '127.0.0.1:0',
      '--federation',
      'off',
      '--metrics',
      'off',
    ];
    await refuses(
      hansa(wrong),
      3,
      /lubeck\.example.*bruges\.example|bruges\.example.*lubeck\.example/,
    );
  });

  test('needs a trust domain for its first start', async () => {
    const empty = join(temporaryFolder(), 'new');
    await refuses(hansa(['server', '--data-dir', empty]), 3, /--trust-domain/);
  });
});

suite('apply and delete', () => {
  test('create, leave alone and change', async () => {
    assert.equal(await succeeds(apply(role('a', '[get]'))), 'role.hansa.dev/a created\n');
    assert.equal(await succeeds(apply(role('a', '[get]'))), 'role.hansa.dev/a unchanged\n');
    assert.equal(
      await succeeds(apply(role('a', '[list]'), '--dry-run')),
      'role.hansa.dev/a configured (dry run)\n',
    );
    assert.equal(
      await succeeds(run('get', 'role', 'a', '-o', 'jsonpath={.spec.rules[0].verbs[0]}')),
      'get\n',
    );
    assert.equal(await succeeds(apply(role('a', '[list]'))), 'role.hansa.dev/a configured\n');
    assert.equal(await succeeds(run('delete', 'role', 'a')), 'role.hansa.dev/a deleted\n');
    await refuses(run('get', 'role', 'a'), 4, /"a" not found {3}\(HANSA_NOT_FOUND\)/);
    await succeeds(run('delete', 'role', 'a', '--ignore-not-found'));
  });

  test('apply several documents, go on after a refusal and end with its code', async () => {
    const broken = role('b', 'get');
    const { code, stdout, stderr } = await apply(
      [role('c', '[get]'), broken, role('d', '[get]')].join('---\n'),
    );
    assert.equal(code, 3, stderr);
    assert.equal(stdout, 'role.hansa.dev/c created\nrole.hansa.dev/d created\n');
    assert.match(stderr, /standard input:\d+: cannot apply role\.hansa\.dev\/b: .*spec\.rules/);
    assert.match(stderr, /1 of 3 objects were not applied/);
  });

  test('tell where a value that fits no pattern is explained in words', async () => {
    const entry = (spec: object): string =>
      JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'WorkloadEntry',
        metadata: { name: 'web' },
        spec: { spiffeID: 'spiffe://lubeck.example/web', selectors: ['unix:uid:0'], ...spec },
      });
    await refuses(
      apply(entry({ selectors: ['unix:uid:0', 'docker:label:app'] })),
      3,
      /selectors\[1\].*write a property of a process.*All forms: hansa explain workloadentry\.spec\.selectors {3}\(HANSA_INVALID\)/,
    );
    await refuses(
      apply(entry({ x509SvidTtl: 60 })),
      3,
      /x509SvidTtl: field not declared in schema\. To list the fields: hansa explain workloadentry\.spec\./,
    );
  });

  test('end with 5 where another manager owns the field, and take it over when told to', async () => {
    await succeeds(apply(role('shared', '[get]'), '--field-manager', 'gitops'));
    await refuses(apply(role('shared', '[list]')), 5, /conflict.*gitops[^]*--force-conflicts/i);
    await succeeds(apply(role('shared', '[list]'), '--force-conflicts'));
  });

  test('ask before several objects go, and do it by label with --yes', async () => {
    await succeeds(apply(role('x1', '[get]', '{team: ops}')));
    await succeeds(apply(role('x2', '[get]', '{team: ops}')));
    await refuses(run('delete', 'roles', '-l', 'team=ops'), 2, /Delete 2 objects .* Add --yes/);
    const gone = await succeeds(run('delete', 'roles', '-l', 'team=ops', '--yes'));
    assert.equal(gone, 'role.hansa.dev/x1 deleted\nrole.hansa.dev/x2 deleted\n');
    assert.equal(await succeeds(run('get', 'roles', '-l', 'team=ops', '-o', 'name')), '');
  });

  test('wait for finalizers, or do not', async () => {
    await succeeds(
      apply(role('held', '[get]').replace('labels: {}', 'finalizers: [example.com/hold]')),
    );
    await succeeds(run('delete', 'role', 'held', '--no-wait'));
    await refuses(
      run('wait', 'role/held', '--for=delete', '--timeout=200ms'),
      9,
      /its finalizers are not done: example\.com\/hold/,
    );
    const waiting = run('wait', 'role/held', '--for=delete', '--timeout=60s');
    await succeeds(apply(role('held', '[get]').replace('labels: {}', 'finalizers: []')));
    assert.equal(await succeeds(waiting), 'role.hansa.dev/held deleted\n');
  });
});

suite('the examples', () => {
  test('are accepted as they are, but for the bad ones, which are refused field by field', async () => {
    await succeeds(run('apply', '-f', 'examples/site', '-f', 'examples/access'));
    const bad = run('apply', '-f', 'examples/bad');
    await refuses(
      bad,
      3,
      /"Nobody" is invalid:\n {2}metadata\.name: .*\n {2}spec\.rules\[0\]\.kinds: .*\n {2}spec\.rules\[0\]\.verbs: .* {3}\(HANSA_INVALID\)\n$/,
    );
    await succeeds(run('delete', '-f', 'examples/access', '--yes'));
  });
});

suite('reading', () => {
  test('lists every page of a long list', async () => {
    const many = Array.from({ length: 510 }, (_, i) => role(`page-${i}`, '[get]', '{page: "1"}'));
    await succeeds(apply(many.join('---\n')));
    const names = await succeeds(run('get', 'roles', '-l', 'page=1', '-o', 'name'));
    assert.equal(names.trim().split('\n').length, 510);
    const list = JSON.parse(await succeeds(run('get', 'roles', '-l', 'page=1', '-o', 'json'))) as {
      items: unknown[];
    };
    assert.equal(list.items.length, 510);
    await succeeds(run('delete', 'roles', '-l', 'page=1', '--yes'));
  });

  test('gives yaml that can be applied again', async () => {
    await succeeds(apply(role('again', '[get]')));
    const yaml = await succeeds(run('get', 'role', 'again', '-o', 'yaml'));
    assert.equal((parse(yaml) as { kind: string }).kind, 'Role');
    assert.doesNotMatch(yaml, /managedFields/);
    assert.match(
      await succeeds(run('get', 'role', 'again', '-o', 'yaml', '--show-managed-fields')),
      /managedFields/,
    );
  });

  test('says so where there is nothing, on standard error', async () => {
    const { code, stdout, stderr } = await run('get', 'roles', '-l', 'no=such');
    assert.deepEqual([code, stdout, stderr], [0, '', 'There are no roles.\n']);
  });

  test('shows what there is where one of several names is missing, and ends with 4', async () => {
    for (const [format, shown] of [
      [[], /^viewer /m],
      [['-o', 'name'], /^role\.hansa\.dev\/viewer\n$/],
      [['-o', 'json'], /"name": "viewer"/],
    ] as const) {
      const { code, stdout, stderr } = await run('get', 'roles', 'viewer', 'nosuch', ...format);
      assert.match(stdout, shown);
      assert.match(stderr, /"nosuch" not found {3}\(HANSA_NOT_FOUND\)\n$/);
      assert.equal(code, 4);
    }
    const described = await run('describe', 'role', 'nosuch', 'viewer');
    assert.match(described.stdout, /^Name: +viewer$/m);
    assert.equal(described.code, 4);
    const { stdout, stderr } = await run('get', 'roles', 'no', 'nosuch');
    assert.equal(stdout, '');
    assert.match(stderr, /"nosuch" not found[^]*"no" not found/);
  });

  test('watches until it is interrupted, and ends with 130', async () => {
    const watch = new Follower(['watch', 'roles', '-o', 'json', '--data-dir', dataDir]);
    await watch.until(/"name":"viewer"/);
    await succeeds(apply(role('seen', '[get]')));
    assert.match(await watch.until(/"name":"seen"/), /^\{"type":"ADDED"/);
    await succeeds(run('delete', 'role', 'seen'));
    assert.match(await watch.until(/DELETED/), /"name":"seen"/);
    assert.equal(await watch.interrupt(), 130);
  });

  test('waits for conditions', async () => {
    assert.equal(
      await succeeds(run('wait', 'site/site', '--for=condition=Ready')),
      'site.hansa.dev/site condition met\n',
    );
    await refuses(
      run('wait', 'role/none', '--for=condition=Ready'),
      4,
      /There is no role\.hansa\.dev\/none/,
    );
    await refuses(
      run('wait', 'site/site', '--for=condition=Ready=False', '--timeout=100ms'),
      9,
      /waiting for site\.hansa\.dev\/site: Ready is True \([^)]+\): [^.]+\. +\(HANSA_/,
    );
    await refuses(
      run('wait', 'site/site', '--for=condition=Frozen', '--timeout=100ms'),
      9,
      /it has no condition Frozen/,
    );
  });
});

suite('over TLS', () => {
  const remote = (...args: string[]): Promise<Ran> =>
    hansa([
      ...args,
      '--site',
      site.endpoints.api,
      '--ca-file',
      join(dataDir, 'ca.pem'),
      '--token-file',
      join(folder, 'token'),
    ]);

  before(async () => {
    const token = await succeeds(run('access', 'token', 'create', 'reader', '--role', 'viewer'));
    writeFileSync(join(folder, 'token'), token, { mode: 0o600 });
  });

  test('a token reads what its role allows, and no more', async () => {
    assert.match(await succeeds(remote('get', 'sites')), /^site /m);
    await refuses(remote('delete', 'role', 'viewer'), 7, /\(HANSA_FORBIDDEN\)$/m);
  });

  test('a site whose certificate does not verify gets no token', async () => {
    const other = temporaryFolder();
    const stranger = await startDaemon(other);
    const args = [
      'get',
      'sites',
      '--site',
      site.endpoints.api,
      '--ca-file',
      join(other, 'ca.pem'),
      '--token-file',
      join(folder, 'token'),
    ];
    await refuses(hansa(args), 8, /its certificate does not verify against .*ca\.pem/);
    await stranger.signal('SIGTERM');
  });

  test('no credential, or a revoked one, ends with 6', async () => {
    const args = [
      'get',
      'sites',
      '--site',
      site.endpoints.api,
      '--ca-file',
      join(dataDir, 'ca.pem'),
    ];
    await refuses(hansa(args), 6, /requires a credential\. Give --token-file.*UNAUTHENTICATED\)$/m);
    await succeeds(run('access', 'revoke', 'reader', '--yes'));
    await refuses(remote('get', 'sites'), 6, /\(HANSA_UNAUTHENTICATED\)$/m);
  });

  test('a listener that is not the api is told from a missing object', async () => {
    const { protocol, host } = new URL(site.endpoints.metrics);
    assert.equal(protocol, 'http:');
    const args = [
      'get',
      'sites',
      '--site',
      `https://${host}`,
      '--ca-file',
      join(dataDir, 'ca.pem'),
    ];
    await refuses(hansa(args), 8, /the server there does not speak TLS/);
  });

  test('a kubeconfig names files and this program, and holds no secret', async () => {
    const text = await succeeds(run('kubeconfig'));
    const config = parse(text) as {
      clusters: { cluster: Record<string, string> }[];
      users: { user: { exec: { command: string; args: string[] } } }[];
    };
    assert.deepEqual(config.clusters[0]?.cluster, {
      server: site.endpoints.api,
      'certificate-authority': join(dataDir, 'ca.pem'),
    });
    const { command, args } = config.users[0]?.user.exec ?? { command: '', args: [] };
    assert.equal(command, launcher);
    const credential = await succeeds(execute(command, args, { env: { HOME: folder } }));
    assert.equal((JSON.parse(credential) as { kind: string }).kind, 'ExecCredential');
  });
});

suite('audit', () => {
  test('tells who did what, and shows one event', async () => {
    await succeeds(apply(role('told', '[get]')));
    const list = JSON.parse(
      await succeeds(run('audit', 'list', '--name', 'told', '-o', 'json')),
    ) as { events: { index: number; verb: string; actor: { via: string } }[] };
    assert.equal(list.events[0]?.verb, 'apply');
    assert.equal(list.events[0]?.actor.via, 'socket');
    assert.match(
      await succeeds(run('audit', 'show', String(list.events[0]?.index))),
      /^name: told$/m,
    );
    for (const kind of ['Role', 'roles', 'role']) {
      const text = await succeeds(run('audit', 'list', '--name', 'told', '--kind', kind));
      assert.match(text, / Role\/told /);
    }
    await refuses(run('audit', 'show', '999999'), 4, /There is no event 999999/);
  });

  test('verifies here, as an export elsewhere, and for one event', async () => {
    assert.match(
      await succeeds(run('audit', 'verify')),
      /^lubeck\.example: \d+ events, verified\./,
    );
    const file = join(folder, 'export');
    await succeeds(run('audit', 'export', '--file', file));
    const key = (await succeeds(run('audit', 'checkpoint', '--key'))).trim();
    await succeeds(hansa(['audit', 'verify', file, '--key', key]));
    const proof = join(folder, 'proof');
    writeFileSync(proof, await succeeds(run('audit', 'proof', '3')));
    assert.match(
      await succeeds(hansa(['audit', 'verify', proof, '--key', key])),
      /^event 3 is in the log of lubeck\.example/,
    );
    await refuses(run('audit', 'export', '--file', file), 2, /exists already/);
  });

  test('compares a proof with an earlier checkpoint, or says how to get one that can be compared', async () => {
    const earlier = join(folder, 'earlier.checkpoint');
    await succeeds(run('access', 'token', 'create', 'later', '--role', 'viewer'));
    writeFileSync(earlier, await succeeds(run('audit', 'checkpoint')));
    await refuses(
      hansa(['audit', 'verify', join(folder, 'proof'), '--checkpoint', earlier]),
      2,
      /has no consistency proof from \d+\. Get one that has from the site/,
    );
    const proven = join(folder, 'proven.proof');
    writeFileSync(proven, await succeeds(run('audit', 'proof', '3', '--checkpoint', earlier)));
    await succeeds(hansa(['audit', 'verify', proven, '--checkpoint', earlier]));
  });

  test('refuses an export in which one letter was changed, with 11', async () => {
    const changed = join(folder, 'changed');
    writeFileSync(
      changed,
      readFileSync(join(folder, 'export'), 'utf8').replace('"verb":"create"', '"verb":"delete"'),
    );
    await refuses(
      hansa(['audit', 'verify', changed]),
      11,
      /record \d+ was changed: .*\(HANSA_AUDIT_INVALID\)$/m,
    );
  });

  test('refuses a log that does not continue a checkpoint of another', async () => {
    const other = temporaryFolder();
    const stranger = await startDaemon(other);
    const checkpoint = join(folder, 'stranger.checkpoint');
    writeFileSync(checkpoint, await succeeds(hansa(['audit', 'checkpoint', '--data-dir', other])));
    await stranger.signal('SIGTERM');
    for (const what of [[], [join(folder, 'proof')]]) {
      await refuses(
        run('audit', 'verify', ...what, '--checkpoint', checkpoint),
        11,
        /no signature by the key .*\(HANSA_AUDIT_INVALID\)$/m,
      );
    }
  });
});

suite('doctor', () => {
  test('finds a healthy site healthy, and warns of the key beside the store', async () => {
    const text = await succeeds(run('doctor'));
    assert.match(text, /^✓ daemon +ready/m);
    assert.match(text, /^! key +the key-encryption key is in the same folder as the secrets/m);
    assert.doesNotMatch(text, /^✗/m);
  });

  test('names what is open to others and the command that closes it, and ends with 10', async () => {
    chmodSync(join(dataDir, 'secrets'), 0o755);
    try {
      const { code, stdout } = await run('doctor');
      assert.equal(code, 10);
      assert.match(stdout, /^✗ files +.*secrets has mode 0755, wider than 0700\n {2}chmod 0700 /m);
    } finally {
      chmodSync(join(dataDir, 'secrets'), 0o700);
    }
  });
});

suite('doctor of a stopped site', () => {
  test('misses ca.pem, which the next start writes again', async () => {
    const own = temporaryFolder();
    const first = await startDaemon(own);
    await first.signal('SIGTERM');
    const written = readFileSync(join(own, 'ca.pem'), 'utf8');
    rmSync(join(own, 'ca.pem'));
    const { code, stdout } = await hansa(['doctor', '--data-dir', own]);
    assert.equal(code, 10, stdout);
    assert.match(stdout, /^✗ authority +.*ca\.pem does not exist$/m);
    const second = await startDaemon(own);
    assert.equal(readFileSync(join(own, 'ca.pem'), 'utf8'), written);
    await second.signal('SIGTERM');
  });
});

suite('stopping', () => {
  test('SIGTERM ends a site with 0; kill -9 loses nothing that was acknowledged', async () => {
    const own = temporaryFolder();
    const first = await startDaemon(own);
    const applied = await hansa(['apply', '-f', '-', '--data-dir', own], {
      stdin: role('kept', '[get]'),
    });
    assert.equal(applied.code, 0, applied.stderr);
    assert.equal(await first.signal('SIGKILL'), 'SIGKILL');
    await refuses(hansa(['get', 'roles', '--data-dir', own]), 8, /the daemon no longer runs/);
    const doctor = await hansa([
      'doctor',
      '--data-dir',
      own,
      '--api',
      '127.0.0.1:0',
      '--federation',
      'off',
      '--metrics',
      'off',
    ]);
    assert.match(doctor.stdout, /^✓ store +revision \d+, \d+ audit events$/m);
    const offline = await hansa(['audit', 'verify', '--data-dir', own]);
    assert.match(offline.stdout, /^lubeck\.example: \d+ events, verified\./, offline.stderr);
    const second = await startDaemon(own);
    assert.match(await succeeds(hansa(['get', 'role', 'kept', '--data-dir', own])), /^kept /m);
    await succeeds(hansa(['audit', 'verify', '--data-dir', own]));
    assert.equal(await second.signal('SIGTERM'), 0);
  });
});
