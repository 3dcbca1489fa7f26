import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type ConfigKeys, configKey } from '../../core/config/config-key.ts';
import { parseChoice } from '../../core/config/config-values.ts';
import { definePlaneSettings } from '../../core/config/plane-settings.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseConfigFile } from './file.ts';
import { configTable, flagOf, variableOf } from './keys.ts';
import { allPlanes } from '../../test-planes.ts';
import type { TrustSettings } from '../../trust/settings.ts';
import { type ConfigInputs, type LoadedConfig, loadConfig, sourceText } from './config.ts';

function load(inputs: Partial<ConfigInputs> & { yaml?: string }): LoadedConfig {
  const { yaml, ...rest } = inputs;
  const file = yaml === undefined ? {} : { file: parseConfigFile('/etc/hansa/site.yaml', yaml) };
  return loadConfig({ planes: allPlanes, flags: {}, env: {}, cwd: '/srv', ...file, ...rest });
}

function trustOf({ config }: LoadedConfig): TrustSettings {
  return config.planes.get('trust') as TrustSettings;
}

function refusal(inputs: Parameters<typeof load>[0]): string {
  try {
    load(inputs);
  } catch (error) {
    assert.ok(error instanceof HansaError);
    assert.equal(error.code, 'HANSA_CONFIG_INVALID');
    return error.message;
  }
  return assert.fail('the configuration was accepted');
}

suite('defaults', () => {
  test('are the listeners on loopback but for federation, and a data folder below the working folder', () => {
    const { config } = load({});
    assert.equal(config.dataDir, '/srv/hansa-data');
    assert.deepEqual(config.api, { host: '127.0.0.1', port: 7443 });
    assert.deepEqual(config.federation, { host: '0.0.0.0', port: 8443 });
    assert.deepEqual(config.metrics, { host: '127.0.0.1', port: 9464 });
    assert.equal(config.trustDomain, undefined);
    assert.equal(config.limits.maxRequestBytes, 3 * 1024 * 1024);
  });
});

suite('trusted proxies', () => {
  const proxies = (from: Parameters<typeof load>[0]) =>
    load(from).config.trustedProxies.map(String);

  test('are none by default', () => {
    assert.deepEqual(proxies({}), []);
  });

  test('are ranges with commas between them, from a flag, a variable or a file', () => {
    const text = '192.0.2.10/32, 2001:db8::/64';
    const expected = ['192.0.2.10/32', '2001:db8::/64'];
    assert.deepEqual(proxies({ flags: { 'federation.trustedProxies': text } }), expected);
    assert.deepEqual(proxies({ env: { HANSA_FEDERATION_TRUSTED_PROXIES: text } }), expected);
    assert.deepEqual(proxies({ yaml: `federation:\n  trustedProxies: ${text}\n` }), expected);
    const beside = `federation: 127.0.0.1:1\nfederation.trustedProxies: ${text}\n`;
    assert.deepEqual(proxies({ yaml: beside }), expected);
  });

  for (const [text, why] of [
    ['192.0.2.10', /it has no length, as in 192\.0\.2\.0\/24/],
    ['192.0.2.10/24', /bits set beyond its length/],
    ['192.0.2.0/24,', /of "" it has no length/],
    ['proxy.example/32', /not an IP address/],
    ['0.0.0.0/0', /0\.0\.0\.0\/0 contains every address/],
    ['::/0', /::\/0 contains every address/],
    [Array(65).fill('192.0.2.0/24').join(), /at most 64 ranges/],
  ] as const) {
    test(`refuse ${text.slice(0, 20)}`, () => {
      assert.match(refusal({ flags: { 'federation.trustedProxies': text } }), why);
    });
  }
});

suite('precedence', () => {
  test('a flag wins over a variable, a variable over the file, the file over the default', () => {
    const yaml = 'api: 127.0.0.1:1\nfederation: 127.0.0.1:1\nmetrics: 127.0.0.1:1\n';
    const { config, settings } = load({
      flags: { api: '127.0.0.1:3' },
      env: { HANSA_API: '127.0.0.1:2', HANSA_FEDERATION: '127.0.0.1:2' },
      yaml,
    });
    assert.equal(config.api.port, 3);
    assert.deepEqual(config.federation, { host: '127.0.0.1', port: 2 });
    assert.deepEqual(config.metrics, { host: '127.0.0.1', port: 1 });
    const sources = new Map(settings.map((s) => [s.key, sourceText(s.source)]));
    assert.equal(sources.get('api'), 'flag --api');
    assert.equal(sources.get('federation'), 'variable HANSA_FEDERATION');
    assert.equal(sources.get('metrics'), '/etc/hansa/site.yaml:3');
    assert.equal(sources.get('logLevel'), 'default');
  });

  test('an empty variable counts as not set', () => {
    assert.equal(load({ env: { HANSA_LOG_LEVEL: '' } }).config.logLevel, 'info');
  });

  test('a path in the file is relative to the file, one in a flag to the working folder', () => {
    const { config } = load({ yaml: 'dataDir: data\nkeyFile: ../key\n' });
    assert.equal(config.dataDir, '/etc/hansa/data');
    assert.equal(config.keyFile, '/etc/key');
    assert.equal(load({ flags: { dataDir: 'lubeck' } }).config.dataDir, '/srv/lubeck');
  });

  test('nested keys of the file are dotted keys', () => {
    const { config } = load({ yaml: 'limits:\n  maxRequestBytes: 64Ki\n  drainSeconds: 3\n' });
    assert.equal(config.limits.maxRequestBytes, 65536);
    assert.equal(config.limits.drainSeconds, 3);
  });
});

suite('every key', () => {
  test('has a flag and a variable of its own', () => {
    assert.equal(flagOf('limits.maxRequestBytes'), '--limits-max-request-bytes');
    assert.equal(variableOf('limits.maxRequestBytes'), 'HANSA_LIMITS_MAX_REQUEST_BYTES');
    const names = [...configTable(allPlanes).keys()];
    assert.equal(new Set(names.map(flagOf)).size, names.length);
  });

  test('shows its value in a form that it accepts again', () => {
    for (const { key, value } of load({ flags: { trustDomain: 'lubeck.example' } }).settings) {
      if (value === undefined) continue;
      const again = load({ flags: { [key]: value } }).settings.find((s) => s.key === key);
      assert.equal(again?.value, value, key);
    }
  });
});

suite('settings of the trust plane', () => {
  const web = {
    web: '0.0.0.0:443',
    'servingCert.certFile': 'tls.crt',
    'servingCert.keyFile': 'tls.key',
  };

  test('are those that the specifications recommend, where nothing is given', () => {
    const trust = trustOf(load({ flags: web }));
    assert.equal(trust.refreshHintSeconds, 300);
    assert.equal(trust.maxFederations, 50);
    assert.ok(trust.web?.from === 'files');
    assert.equal(trust.web.fileSyncSeconds, 300);
  });

  const acme = {
    'acme.directoryUrl': 'https://acme.example/dir',
    'acme.domainName': 'web.example',
  };
  const atOdds: Record<string, [flags: Record<string, string>, why: RegExp]> = {
    'a web listener without a certificate': [{ web: web.web }, /web needs a certificate/],
    'a certificate without its key': [
      { 'servingCert.certFile': 'tls.crt' },
      /servingCert\.certFile needs servingCert\.keyFile/,
    ],
    'an ACME server without a name': [
      { 'acme.directoryUrl': acme['acme.directoryUrl'], 'acme.tosAccepted': 'true' },
      /acme\.directoryUrl needs acme\.domainName/,
    ],
    'an ACME server whose terms were not accepted': [acme, /acme needs acme\.tosAccepted: true/],
    'a certificate from two places': [
      { ...web, ...acme, 'acme.tosAccepted': 'true' },
      /servingCert\.certFile and acme exclude each other/,
    ],
    'an authority above without its key': [
      { 'ca.upstreamCertFile': 'ca.pem' },
      /ca\.upstreamCertFile needs ca\.upstreamKeyFile/,
    ],
  };
  for (const [what, [flags, why]] of Object.entries(atOdds)) {
    test(`refuse ${what}`, () => assert.match(refusal({ flags }), why));
  }

  test('honour MAX_FEDERATED_CLUSTERS, but for a variable of our own', () => {
    const theirs = { MAX_FEDERATED_CLUSTERS: '70' };
    const loaded = load({ env: theirs });
    assert.equal(trustOf(loaded).maxFederations, 70);
    const source = loaded.settings.find(({ key }) => key === 'maxFederations')?.source;
    assert.equal(source && sourceText(source), 'variable MAX_FEDERATED_CLUSTERS');
    const both = load({ env: { ...theirs, HANSA_MAX_FEDERATIONS: '80' } });
    assert.equal(trustOf(both).maxFederations, 80);
    assert.match(
      refusal({ env: { MAX_FEDERATED_CLUSTERS: 'many' } }),
      /maxFederations is "many" \(variable MAX_FEDERATED_CLUSTERS\)/,
    );
  });
});

suite('a wrong value', () => {
  const wrong: [key: Parameters<typeof flagOf>[0], value: string, accepted: RegExp][] = [
    ['api', 'localhost', /HOST:PORT, for example 127\.0\.0\.1:7443/],
    ['api', '127.0.0.1:65536', /a port from 0 .* to 65535/],
    ['api', ':7443', /0\.0\.0\.0 listens on every address/],
    ['api', '::1:7443', /\[::1\]:7443/],
    ['api', 'off', /HOST:PORT/],
    ['api', 'https://127.0.0.1:7443', /HOST:PORT/],
    ['metrics', 'yes', /; or off/],
    ['trustDomain', 'Lübeck', /a trust domain name such as lubeck\.example/],
    ['trustDomain', 'spiffe://lubeck.example', /a trust domain name/],
    ['advertise', 'http://lubeck.example', /an https URL/],
    ['advertise', 'https://user:secret@lubeck.example', /no user, query or fragment/],
    ['logLevel', 'verbose', /one of debug, info, warn, error/],
    ['limits.maxRequestBytes', '3GiB', /3Mi/],
    ['limits.maxRequestBytes', '-1', /bytes from 1024/],
    ['limits.drainSeconds', '1.5', /a whole number from 0 to 3600/],
    ['bundle.refreshHintSeconds', '59', /a whole number from 60 to 3600/],
    ['bundle.refreshHintSeconds', '3601', /a whole number from 60 to 3600/],
    ['servingCert.fileSyncInterval', '29', /a whole number from 30 to 3600/],
    ['servingCert.fileSyncInterval', '3601', /a whole number from 30 to 3600/],
    ['maxFederations', '0', /a whole number from 1 to/],
    ['keyFile', '', /a path/],
  ];
  for (const [key, value, accepted] of wrong) {
    test(`${key} ${JSON.stringify(value)} names key, value, source and what is accepted`, () => {
      const message = refusal({ flags: { [key]: value } });
      assert.ok(
        message.includes(`${key} is ${JSON.stringify(value)} (flag ${flagOf(key)})`),
        message,
      );
      assert.match(message, accepted);
    });
  }

  test('of the data folder is one whose sockets have too long a path', () => {
    const dataDir = `/srv/${'d'.repeat(90)}`;
    assert.match(refusal({ flags: { dataDir } }), /at most 107 bytes.*has 109.*symbolic link/);
    assert.equal(load({ flags: { dataDir: `/srv/${'d'.repeat(88)}` } }).config.dataDir.length, 93);
  });

  test('counts bytes, not letters, of the data folder', () => {
    assert.match(refusal({ flags: { dataDir: `/srv/${'ü'.repeat(60)}` } }), /107 bytes/);
  });

  test('does not hide another: all are listed', () => {
    const message = refusal({ flags: { api: 'x', logLevel: 'y' }, yaml: 'colour: blue\n' });
    assert.match(message, /api is "x"/);
    assert.match(message, /logLevel is "y"/);
    assert.match(message, /no key colour/);
  });
});

suite('the file', () => {
  test('may be empty or hold comments only', () => {
    assert.equal(load({ yaml: '' }).config.logLevel, 'info');
    assert.equal(load({ yaml: '# nothing yet\n' }).config.logLevel, 'info');
  });

  test('is refused with a suggestion where a key is unknown', () => {
    assert.match(
      refusal({ yaml: 'api: 127.0.0.1:1\ntrustdomain: x\n' }),
      /site\.yaml:2: there is no key trustdomain; did you mean trustDomain\?/,
    );
    assert.match(
      refusal({ yaml: 'limits: {maxRequestByte: 1}' }),
      /mean limits\.maxRequestBytes\?/,
    );
    assert.match(refusal({ yaml: 'colour: blue' }), /keys are dataDir, trustDomain/);
  });

  test('is refused with the line where it is malformed', () => {
    assert.match(refusal({ yaml: 'api: "x\nmetrics: off\n' }), /site\.yaml:\d+: /);
    assert.match(
      refusal({ yaml: 'api: 127.0.0.1:1\napi: 127.0.0.1:2\n' }),
      /site\.yaml:2: .*unique/,
    );
    assert.match(refusal({ yaml: '- api\n' }), /site\.yaml:1: the file must be a map/);
    assert.match(refusal({ yaml: 'api: [1]\n' }), /api must be a single value, not a list/);
    assert.match(refusal({ yaml: 'api:\n' }), /api has no value; leave the key out/);
    assert.match(refusal({ yaml: `# ${'x'.repeat(300_000)}` }), /larger than/);
  });

  test('takes scalars as they are written', () => {
    assert.match(refusal({ yaml: 'limits: {drainSeconds: 0x10}' }), /drainSeconds is "0x10"/);
    assert.equal(load({ yaml: 'metrics: off' }).config.metrics, 'off');
  });
});

suite('variables', () => {
  test('that look like a misspelt key raise a warning, others none', () => {
    const { warnings } = load({
      env: { HANSA_TRUSTDOMAIN: 'x', HANSA_SERVICE_HOST: '10.0.0.1', PATH: '/bin' },
    });
    assert.deepEqual(warnings, [
      'unknown variable HANSA_TRUSTDOMAIN; did you mean HANSA_TRUST_DOMAIN?',
    ]);
  });
});

suite('a rotation that may outrun those who fetch the bundle', () => {
  const warningsWith = (bundle: number, ca: number | undefined): readonly string[] =>
    load({
      yaml: `bundle: {refreshHintSeconds: ${bundle}}\n${ca === undefined ? '' : `ca: {spreadSeconds: ${ca}}\n`}`,
    }).warnings;

  test('raises a warning that names both keys and what to do', () => {
    assert.deepEqual(warningsWith(300, 299), [
      'ca.spreadSeconds (299) is less than bundle.refreshHintSeconds (300): a new authority may sign before peers have fetched it. Remove ca.spreadSeconds, or set it to 600 or more.',
    ]);
  });

  test('is none where there is time enough, or nothing is said', () => {
    assert.deepEqual(warningsWith(300, 300), []);
    assert.deepEqual(warningsWith(3600, undefined), []);
  });
});

suite('keys of a plane', () => {
  const colour = configKey({
    placeholder: 'COLOUR',
    meaning: 'The colour of the harbour.',
    default: 'blue',
    parse: parseChoice(['blue', 'red']),
  });
  const harbour = (keys: ConfigKeys) => ({
    name: 'harbour',
    settings: definePlaneSettings({
      keys,
      read: (values) => values,
      problems: (values, site, remembered) =>
        values['harbour.colour'] === 'red' ? [`${site.dataDir} is blue${remembered('x')}`] : [],
      warnings: () => ['the harbour is foggy'],
    }),
  });

  test('become a flag, a variable and a key of the file, and settings of that plane', () => {
    const planes = [harbour({ 'harbour.colour': colour })];
    const { config, settings, warnings } = load({ planes });
    assert.deepEqual(config.planes.get('harbour'), { 'harbour.colour': 'blue' });
    assert.deepEqual(warnings, ['the harbour is foggy']);
    assert.equal(settings.at(-1)?.key, 'harbour.colour');
    const wrong = { HANSA_HARBOUR_COLOUR: 'green' };
    assert.match(refusal({ planes, env: wrong }), /harbour\.colour is "green"/);
    assert.match(refusal({ planes, yaml: 'harbour: {colour: red}' }), /\/srv\/hansa-data is blue/);
  });

  test('stand where they say, and else behind the key before', () => {
    const planes = [harbour({ first: { ...colour, after: 'api' }, second: colour })];
    const names = [...configTable(planes).keys()];
    const at = names.indexOf('api');
    assert.deepEqual(names.slice(at, at + 4), ['api', 'first', 'second', 'federation']);
  });

  test('are refused where another key has the name, or the key before is missing', () => {
    const table = (keys: ConfigKeys) => () => configTable([harbour(keys)]);
    assert.throws(table({ api: colour }), /Key api of harbour: --api exists already/);
    assert.throws(table({ 'data.dir': colour }), /--data-dir exists already/);
    assert.throws(table({ 'api.colour': colour }), /a file cannot hold it and api/);
    assert.throws(table({ limits: colour }), /a file cannot hold it and limits\./);
    assert.throws(table({ x: { ...colour, after: 'nowhere' } }), /there is no key nowhere/);
  });

  test('are unknown without the plane', () => {
    assert.match(refusal({ yaml: 'harbour: {colour: red}' }), /no key harbour\.colour/);
    assert.throws(() => load({ flags: { 'harbour.colour': 'red' } }), TypeError);
  });
});
