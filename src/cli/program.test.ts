import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Command } from 'commander';
import { errorCatalog } from '../core/errors/error.ts';
import { systemClock, systemRandom } from '../core/clock/system.ts';
import { createCli } from './cli.ts';
import { exitCodeOf, exitCodes } from './exit-codes.ts';
import { outputFormatsOf } from './output/output.ts';
import { processIo } from './process-io.ts';
import { createProgram } from './program.ts';
import { run } from './test-io.ts';
import { allPlanes } from '../test-planes.ts';

/** What the help shows; other programs and generators call the rest. */
function visibleCommands(command: Command): Command[] {
  const children = command.createHelp().visibleCommands(command);
  return [command, ...children.filter((child) => child.name() !== 'help').flatMap(visibleCommands)];
}

function pathOf(command: Command): string[] {
  const path: string[] = [];
  for (let at: Command | null = command; at?.parent; at = at.parent) path.unshift(at.name());
  return path;
}

suite('help', () => {
  const cli = createCli(
    { ...processIo(), clock: systemClock, random: systemRandom },
    { planes: allPlanes, version: '1.2.3' },
  );
  for (const each of visibleCommands(createProgram(cli))) {
    const path = pathOf(each);
    test(`of ${['hansa', ...path].join(' ')} has a description and examples`, async () => {
      const { code, stdout, stderr } = await run([...path, '--help']);
      assert.equal(code, 0);
      assert.equal(stderr, '');
      assert.match(stdout, /Examples:\n {2}\S/);
      assert.notEqual(each.description(), '');
    });

    const isRoot = path.length === 0;
    test(`of ${['hansa', ...path].join(' ')} ${isRoot ? 'lists the' : 'has one line for'} global options`, async () => {
      const { stdout } = await run([...path, '--help']);
      assert.equal(/^ {2}--token-file <file>/m.test(stdout), isRoot);
      assert.equal(stdout.match(/^Global options.*: hansa --help$/gm)?.length ?? 0, isRoot ? 0 : 1);
    });
  }

  /** They print something of a format of its own, or nothing that a program would read. */
  const unformatted = new Map([
    ['server', 'it runs until it is stopped'],
    ['agent run', 'it runs until it is stopped'],
    ['spire-sidecar', 'it runs until it is stopped'],
    ['describe', 'it is for people; get has the formats'],
    ['explain', 'it is for people'],
    ['completion', 'it prints a script'],
    ['audit export', 'it prints a log that audit verify reads'],
    ['audit proof', 'it prints a proof in JSON'],
    ['audit checkpoint', 'it prints a signed note'],
    ['trust bundle show', 'it prints a SPIFFE bundle or PEM'],
  ]);

  test('offers json and yaml for every command that prints a result', () => {
    const program = createProgram(cli);
    const lacking = visibleCommands(program)
      .filter(({ commands }) => commands.length === 0)
      .filter(({ options }) => {
        const formats = options.flatMap((option) => outputFormatsOf(option) ?? []);
        return !formats.includes('json') || !formats.includes('yaml');
      })
      .map((command) => pathOf(command).join(' '));
    assert.deepEqual(lacking.toSorted(), [...unformatted.keys()].toSorted());
  });

  test('is what no arguments give', async () => {
    const { code, stdout } = await run([]);
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: hansa/);
  });
});

suite('a command line that is not understood', () => {
  const wrong: [args: string[], message: RegExp][] = [
    [['gte', 'roles'], /^Unknown command 'gte'\. Did you mean get\?   /],
    [['get'], /^Missing required argument 'kind'\. The kinds are sites, .*\.   /],
    [
      ['access', 'revoke'],
      /^Missing required argument 'name'\. See hansa access revoke --help\.   /,
    ],
    [['access', 'token', 'lst'], /The commands of hansa access token are create\./],
    [
      ['get', 'roles', '-n', 'x'],
      /^Unknown option '-n'\. The resources of a site have no namespaces\./,
    ],
    [['get', 'roles', '--token-file', 't'], /^--token-file needs --site: the admin socket/],
    [
      ['explain', 'hansa_nope'],
      /^There is no error code HANSA_NOPE\. To list them: hansa explain error-codes/,
    ],
    [['watch', 'role/a', '-l', 'b=c'], /^Give either a name or a selector, not both\./],
    [['kubeconfig', '--server', 'http://x'], /^--server is "http:\/\/x": expected an https URL/],
    [['explain', '55'], /^There is no exit code 55\./],
    [['apply', '-f', '-'], /^There is no object in standard input\./],
    [['audit', 'verify', 'none'], /^Cannot read .*none: there is no such file or folder\./],
    [['audit', 'verify', 'none', '--key', 'x'], /^--key: .* looks like NAME\+0123abcd\+BASE64/],
    [['get', 'roles', '--colour'], /Unknown option '--colour'/],
    [['get', 'rolez'], /There is no kind "rolez"\. Did you mean roles\?/],
    [['get', 'zebras'], /The kinds are sites, /],
    [['get', 'roles', '-o', 'jsn'], /-o is "jsn": expected .* Did you mean json\?/],
    [['get', 'roles', '-o', 'jsonpath'], /needs a template/],
    [['get', 'roles', '-o', 'jsonpath={.a'], /a \{ has no \}/],
    [['get', 'roles', '-o', 'json=x'], /-o is "json=x"/],
    [['get', 'role/a/b'], /"role\/a\/b" is not KIND\/NAME/],
    [['get', 'role', 'a', '-l', 'b=c'], /either names or a selector/],
    [['get', 'roles', '--site', 'http://x'], /--site is "http:\/\/x": expected an https URL/],
    [['get', 'roles', '--site', 'https://x', '--ca-file', 'none.pem'], /Cannot read .*none\.pem/],
    [['wait', 'role/a', '--for', 'ready'], /--for is "ready": expected condition=TYPE/],
    [['wait', 'role/a', '--for', 'delete', '--timeout', 'long'], /a duration such as 30s/],
    [['delete', 'roles'], /Give names, a selector with -l, or --all/],
    [['delete'], /Name a kind and names, or manifests with -f/],
    [['apply'], /Required option '-f, --filename/],
    [['apply', '-f', 'missing.yaml'], /Cannot read missing\.yaml: there is no such file/],
    [['explain', 'HANSA_CONFLCT'], /Did you mean HANSA_CONFLICT\?/],
    [['explain', 'role.spec.rulez'], /Role\.spec has no field rulez\. Did you mean rules\?/],
    [['completion', 'tcsh'], /Allowed choices are bash, zsh, fish/],
    [['audit', 'list', '--since', 'yesterday'], /neither a time .* nor a duration/],
    [['audit', 'show', '-1'], /Expected a whole number/],
    [['audit', 'show', 'x'], /Expected a whole number/],
  ];
  for (const [args, message] of wrong) {
    test(`hansa ${args.join(' ')} ends with 2, one message and nothing on standard output`, async () => {
      const { code, stdout, stderr } = await run(args);
      assert.match(stderr, message);
      assert.equal(code, 2, stderr);
      assert.equal(stdout, '');
      assert.match(stderr, /\(HANSA_USAGE\)\n$/);
      assert.doesNotMatch(stderr, /\n\s+at /, 'no stack trace');
    });
  }
});

suite('exit codes', () => {
  test('give every error code a number that has a meaning', () => {
    const known = new Set<number>(Object.values(exitCodes).map(({ code }) => code));
    for (const code of Object.keys(errorCatalog) as (keyof typeof errorCatalog)[]) {
      assert.ok(known.has(exitCodeOf(code)), code);
      assert.notEqual(exitCodeOf(code), 0, code);
    }
  });

  test('keep the numbers that scripts rely on', () => {
    assert.equal(exitCodeOf('HANSA_USAGE'), 2);
    assert.equal(exitCodeOf('HANSA_INVALID'), 3);
    assert.equal(exitCodeOf('HANSA_NOT_FOUND'), 4);
    assert.equal(exitCodeOf('HANSA_CONFLICT'), 5);
    assert.equal(exitCodeOf('HANSA_UNAUTHENTICATED'), 6);
    assert.equal(exitCodeOf('HANSA_FORBIDDEN'), 7);
    assert.equal(exitCodeOf('HANSA_UNREACHABLE'), 8);
    assert.equal(exitCodeOf('HANSA_CONDITION_NOT_MET'), 9);
    assert.equal(exitCodeOf('HANSA_UNHEALTHY'), 10);
    assert.equal(exitCodeOf('HANSA_AUDIT_INVALID'), 11);
    assert.equal(exitCodeOf('HANSA_STORE_LOCKED'), 12);
    assert.equal(exitCodeOf('HANSA_CANCELLED'), 13);
  });

  test('are explained', async () => {
    const { stdout } = await run(['explain', 'exit-codes']);
    for (const { code, meaning } of Object.values(exitCodes)) {
      assert.match(stdout, new RegExp(`^${code} +${meaning.slice(0, 20)}`, 'm'));
    }
  });
});

suite('a site that cannot be reached', () => {
  test('ends with 8 and says what to do', async () => {
    const { code, stderr } = await run(['get', 'sites', '--data-dir', 'x']);
    assert.equal(code, 8);
    assert.match(
      stderr,
      /Cannot reach the site at \/nowhere\/x\/admin\.sock: there is no such socket\. Start/,
    );
  });

  test('is looked for where HANSA_DATA_DIR says', async () => {
    const { stderr } = await run(['get', 'sites'], { env: { HANSA_DATA_DIR: '/srv/lubeck' } });
    assert.match(stderr, /\/srv\/lubeck\/admin\.sock/);
  });

  test('has no socket path that the system would cut off', async () => {
    const { code, stderr } = await run(['get', 'sites', '--data-dir', `/${'x'.repeat(120)}`]);
    assert.equal(code, 2);
    assert.match(stderr, /at most 107 bytes/);
  });

  test('has no kubeconfig before its first start', async () => {
    const { code, stdout, stderr } = await run(['kubeconfig']);
    assert.equal(code, 8);
    assert.equal(stdout, '');
    assert.match(stderr, /There is no site in \/nowhere\/hansa-data yet/);
  });
});

suite('config', () => {
  test('show explains every value and its source', async () => {
    const { code, stdout } = await run(['config', 'show', '--api', '127.0.0.1:1'], {
      env: { HANSA_LOG_LEVEL: 'debug' },
    });
    assert.equal(code, 0);
    assert.match(stdout, /^api: 127\.0\.0\.1:1\n {4}from flag --api; default 127\.0\.0\.1:7443;/m);
    assert.match(stdout, /^logLevel: debug\n {4}from variable HANSA_LOG_LEVEL;/m);
    assert.match(stdout, /^trustDomain: \(not set: /m);
  });

  test('show -o yaml is a configuration with the same values', async () => {
    const shown = await run(['config', 'show', '-o', 'yaml', '--metrics', 'off']);
    assert.match(shown.stdout, /^metrics: off$/m);
    assert.match(shown.stdout, /^limits:\n {2}maxRequestBytes: 3145728$/m);
  });

  test('check ends with 3 and names key, value and what is accepted', async () => {
    const { code, stdout, stderr } = await run(['config', 'check', '--log-level', 'loud']);
    assert.equal(code, 3);
    assert.equal(stdout, '');
    assert.match(stderr, /logLevel is "loud" \(flag --log-level\): expected one of debug, /);
  });

  test('check says where a file cannot be read', async () => {
    const { code, stderr } = await run(['config', 'check', '--config', 'none.yaml']);
    assert.equal(code, 3);
    assert.match(
      stderr,
      /Cannot read the configuration \/nowhere\/none\.yaml: there is no such file/,
    );
  });

  test('server refuses a wrong value before it starts anything', async () => {
    const { code, stderr } = await run(['server', '--trust-domain', 'Lübeck']);
    assert.equal(code, 3);
    assert.match(stderr, /trustDomain is "Lübeck"/);
  });
});

suite('explain', () => {
  test('tells meaning, remedy and exit code of an error', async () => {
    const { stdout } = await run(['explain', 'HANSA_CONFLICT']);
    assert.match(stdout, /^HANSA_CONFLICT\nmeaning .*Another writer changed the object/);
    assert.match(stdout, /^exit code +5$/m);
  });

  test('lists the kinds where no subject is given', async () => {
    const { code, stdout } = await run(['explain']);
    assert.equal(code, 0);
    assert.match(stdout, /^NAME +SHORT +KIND +WHAT IT IS\n/);
    assert.match(stdout, /^rolebindings +rb +RoleBinding +Gives a role to /m);
  });

  test('knows a code in lower case and without its prefix, and exit codes by number', async () => {
    const { stdout } = await run(['explain', 'HANSA_NOT_FOUND']);
    assert.equal((await run(['explain', 'hansa_not_found'])).stdout, stdout);
    assert.equal((await run(['explain', 'not-found'])).stdout, stdout);
    assert.match(
      (await run(['explain', '4'])).stdout,
      /^4 {2}The object does not exist\.\nHANSA_NOT_FOUND /,
    );
    assert.match((await run(['explain', 'error-codes'])).stdout, /^HANSA_INTERNAL /m);
  });

  test('walks from a kind through lists to a field', async () => {
    const { stdout } = await run(['explain', 'role.spec.rules.verbs']);
    assert.match(stdout, /^KIND: +Role$/m);
    assert.match(stdout, /^FIELD: +spec\.rules\.verbs <\[\]string> -required-$/m);
  });
});

suite('completion', () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    test(`for ${shell} knows commands, kinds and flags, and no hidden command`, async () => {
      const { stdout } = await run(['completion', shell]);
      assert.match(stdout, /\bkubeconfig\b/);
      assert.match(stdout, /\brolebindings\b/);
      assert.match(stdout, shell === 'fish' ? /-l field-selector/ : /--field-selector/);
      assert.doesNotMatch(stdout, /\bgenerate\b/);
    });
  }
});
