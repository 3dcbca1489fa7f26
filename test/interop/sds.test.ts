// Envoy's secret discovery service, called with Envoy's own messages (go-control-plane) by
// processes that the site attests. An Envoy that was configured for SPIRE finds the same names.

import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { after, before, suite, type TestContext, test } from 'node:test';
import { federationGrantKind } from '../../src/api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../src/api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { until } from '../e2e/until.ts';
import { missingTools } from './tool.ts';
import { LineReader, startWorkloadSite, type WorkloadSite } from './workload-site.ts';

interface Shown {
  readonly name: string;
  readonly uri?: string;
  readonly serial?: string;
  /** How many, by trust domain. */
  readonly authorities?: Readonly<Record<string, number>>;
  readonly matchers?: readonly string[];
}

interface Response {
  readonly version: string;
  readonly nonce: string;
  readonly secrets: readonly Shown[];
  readonly removed?: readonly string[] | null;
  readonly code?: string;
  readonly error?: string;
}

const skip = await missingTools('sds');
const web = 'spiffe://bruges.example/web';
const own = { 'lubeck.example': 1 };

suite('an Envoy that asks for secrets', { skip }, () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  let spire: WorkloadSite;
  let envoy: string;
  let stranger: string;

  class Judge {
    readonly #child: ChildProcess;
    readonly #lines: LineReader;

    constructor(t: TestContext, dialect: 'stream' | 'delta', names: readonly string[]) {
      this.#child = spawn(envoy, [dialect, lubeck.socket, ...names], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      this.#lines = new LineReader(this.#child);
      t.after(() => this.#child.kill('SIGKILL'));
    }

    next(): Promise<Response> {
      return this.#lines.next<Response>();
    }

    say(...words: readonly string[]): void {
      this.#child.stdin?.write(`${words.join(' ')}\n`);
    }
  }

  const fetch = async (program: string, ...names: readonly string[]): Promise<Response> => {
    const { lines, stderr } = await lubeck.run(program, 'fetch', lubeck.socket, ...names);
    assert.equal(lines.length, 1, stderr);
    return lines[0] as Response;
  };
  const grant = async (spec: object = {}): Promise<void> => {
    const { status, text } = await lubeck.apply(federationGrantKind, 'bruges-db', {
      peer: 'bruges.example',
      scopes: ['read'],
      offers: ['db'],
      nodeInstances: { ids: [web] },
      networks: { unrestricted: true },
      sourceCIDRs: { unrestricted: true },
      ...spec,
    });
    assert.ok(status < 300, text);
  };
  const revoke = () => lubeck.delete(federationGrantKind.plural, 'bruges-db');

  before(async () => {
    lubeck = await startWorkloadSite('lubeck.example');
    bruges = await startWorkloadSite('bruges.example');
    spire = await startWorkloadSite('spire.example');
    envoy = await lubeck.program('envoy', 'sds');
    stranger = await lubeck.program('stranger', 'sds');
    const entry = (name: string) =>
      lubeck.apply(workloadEntryKind, name, {
        spiffeID: `spiffe://lubeck.example/${name}`,
        selectors: [`unix:path:${envoy}`],
        federatesWith: ['*'],
      });
    const made = [
      await entry('db'),
      await entry('log'),
      await lubeck.apply(serviceOfferKind, 'db', { spiffeID: 'spiffe://lubeck.example/db' }),
      await lubeck.apply(federationPeerKind, 'bruges.example', {
        url: 'https://bruges.example:8443',
      }),
    ];
    for (const answer of made) assert.equal(answer.status, 201, answer.text);
    for (const site of [bruges, spire]) await lubeck.federateWith(site);
    await lubeck.setPeerState('bruges.example', 'active');
  });
  after(async () => {
    for (const site of [lubeck, bruges, spire]) await site.stop();
  });

  test('gets its SVID and key as default, and each by its identity', async () => {
    const log = 'spiffe://lubeck.example/log';
    const { secrets } = await fetch(envoy, 'default', log);
    assert.deepEqual(
      secrets.map(({ name, uri }) => [name, uri]),
      [
        ['default', 'spiffe://lubeck.example/db'],
        [log, log],
      ],
    );
  });

  test('gets how its own trust domain is verified, under both names', async () => {
    for (const name of ['ROOTCA', 'spiffe://lubeck.example']) {
      assert.deepEqual((await fetch(envoy, name)).secrets, [
        { name, authorities: own, matchers: [] },
      ]);
    }
  });

  test('gets of a peer only whom a grant names, and nothing without one', async () => {
    const name = 'spiffe://bruges.example';
    assert.deepEqual((await fetch(envoy, name)).secrets, []);
    await grant();
    const authorities = { 'bruges.example': 1 };
    assert.deepEqual((await fetch(envoy, name)).secrets, [{ name, authorities, matchers: [web] }]);
    await grant({ nodeInstances: { unrestricted: true } });
    assert.deepEqual((await fetch(envoy, name)).secrets, [{ name, authorities, matchers: [] }]);
    await revoke();
  });

  test('gets all trust domains at once, each with its own authorities', async () => {
    const all = async () => (await fetch(envoy, 'ALL')).secrets;
    const authorities = { ...own, 'spire.example': 1 };
    assert.deepEqual(await all(), [{ name: 'ALL', authorities, matchers: [] }]);
    await grant();
    assert.deepEqual(await all(), [
      {
        name: 'ALL',
        authorities: { ...authorities, 'bruges.example': 1 },
        matchers: ['spiffe://lubeck.example/*', web, 'spiffe://spire.example/*'],
      },
    ]);
    await revoke();
  });

  test('gets everything where it names nothing', async () => {
    const { secrets } = await fetch(envoy);
    assert.deepEqual(
      secrets.map(({ name }) => name),
      [
        'spiffe://lubeck.example',
        'spiffe://spire.example',
        'spiffe://lubeck.example/db',
        'spiffe://lubeck.example/log',
      ],
    );
  });

  test('is told at once of a renewed SVID, and of nothing that it did not ask for', async (t) => {
    const judge = new Judge(t, 'stream', ['default']);
    const first = await judge.next();
    await grant();
    lubeck.clock.move(31 * 60_000);
    const second = await judge.next();
    assert.deepEqual(
      second.secrets.map(({ name }) => name),
      ['default'],
    );
    assert.notEqual(second.secrets[0]?.serial, first.secrets[0]?.serial);
    assert.notEqual(second.version, first.version);
    assert.equal(Number(second.nonce), Number(first.nonce) + 1);
    await revoke();
  });

  test('follows its subscription, and is not disturbed by names that stand for nothing', async (t) => {
    const judge = new Judge(t, 'stream', ['nonsense', 'default']);
    const names = async () => (await judge.next()).secrets.map(({ name }) => name);
    assert.deepEqual(await names(), ['default']);
    judge.say('stale');
    judge.say('names', 'default', 'ROOTCA', 'ALL', 'spiffe://spire.example');
    assert.deepEqual(await names(), ['default', 'ROOTCA', 'ALL', 'spiffe://spire.example']);
    judge.say('names', 'ROOTCA');
    assert.deepEqual(await names(), ['ROOTCA']);
    assert.match(lubeck.log(), /an Envoy requested unknown secrets.*nonsense/);
  });

  test('may ask for as many names as there are', async (t) => {
    const many = Array.from({ length: 1000 }, (_, at) => `spiffe://site-${at}.example`);
    const judge = new Judge(t, 'stream', [...many, 'default']);
    assert.deepEqual(
      (await judge.next()).secrets.map(({ name }) => name),
      ['default'],
    );
    const more = await fetch(envoy, ...many, ...many);
    assert.equal(more.code, 'InvalidArgument');
  });

  test('that rejects a secret keeps its stream, and gets the next', async (t) => {
    const judge = new Judge(t, 'stream', ['ALL']);
    await judge.next();
    judge.say('nack');
    // What comes for this is the next response.
    judge.say('names', 'ROOTCA');
    await judge.next();
    const why = /an Envoy rejected its secrets.*the judge does not like it/;
    await until(() => why.test(lubeck.log()), 'the rejection is told');
    judge.say('names', 'ALL');
    await judge.next();
    await grant();
    const { secrets } = await judge.next();
    assert.equal(secrets[0]?.authorities?.['bruges.example'], 1);
    assert.match(
      lubeck.metrics.expose(),
      /hansa_workload_secret_responses_total\{result="rejected"\} [1-9]/,
    );
    await revoke();
  });

  test('lets nobody of a peer pass from the moment that it is suspended', async (t) => {
    await grant();
    const name = 'spiffe://bruges.example';
    const judge = new Judge(t, 'stream', [name]);
    assert.deepEqual((await judge.next()).secrets[0]?.matchers, [web]);
    await lubeck.setPeerState('bruges.example', 'suspended');
    assert.deepEqual((await judge.next()).secrets, [
      { name, authorities: own, matchers: ['spiffe://nobody.invalid'] },
    ]);
    await lubeck.setPeerState('bruges.example', 'active');
    assert.deepEqual((await judge.next()).secrets[0]?.matchers, [web]);
    await revoke();
  });

  test('is told changes alone in the dialect of changes', async (t) => {
    const judge = new Judge(t, 'delta', ['default', 'ALL', 'nonsense']);
    const names = async () => (await judge.next()).secrets.map(({ name }) => name);
    assert.deepEqual(await names(), ['default', 'ALL']);
    await grant();
    assert.deepEqual(await names(), ['ALL']);
    judge.say('unsubscribe', 'ALL');
    judge.say('subscribe', 'ROOTCA');
    assert.deepEqual(await names(), ['ROOTCA']);
    await revoke();
  });

  test('finds by reflection what the socket serves', async () => {
    const { lines, stderr } = await lubeck.run(stranger, 'reflect', lubeck.socket);
    assert.equal(lines.length, 1, stderr);
    const { methods } = lines[0] as { readonly methods: readonly string[] };
    assert.deepEqual(methods, [
      'SpiffeWorkloadAPI.FetchX509SVID',
      'SpiffeWorkloadAPI.FetchX509Bundles',
      'SpiffeWorkloadAPI.FetchJWTSVID',
      'SpiffeWorkloadAPI.FetchJWTBundles',
      'SpiffeWorkloadAPI.ValidateJWTSVID',
      'envoy.service.auth.v3.Authorization.Check',
      'envoy.service.secret.v3.SecretDiscoveryService.DeltaSecrets',
      'envoy.service.secret.v3.SecretDiscoveryService.StreamSecrets',
      'envoy.service.secret.v3.SecretDiscoveryService.FetchSecrets',
      'grpc.health.v1.Health.Check',
      'grpc.reflection.v1.ServerReflection.ServerReflectionInfo',
    ]);
  });

  test('can be set up as the example says, with names that are served', async () => {
    const { lines, stderr } = await lubeck.run(envoy, 'config', 'examples/envoy/envoy.yaml');
    assert.equal(lines.length, 1, stderr);
    const { names } = lines[0] as { readonly names: readonly string[] };
    assert.deepEqual(names, ['ALL', 'default', 'spiffe://bruges.example']);
  });

  test('is denied where it is no workload of this site', async () => {
    const { code, error } = await fetch(stranger, 'default');
    assert.equal(code, 'PermissionDenied');
    assert.match(error ?? '', /No identity is registered for this process/);
    const { lines } = await lubeck.run(stranger, 'stream', lubeck.socket, 'default');
    assert.equal((lines[0] as Response).code, 'PermissionDenied');
  });

  test('is denied from the moment that its entries are gone', async (t) => {
    const judge = new Judge(t, 'stream', ['default']);
    await judge.next();
    await lubeck.delete(workloadEntryKind.plural, 'db');
    assert.equal((await judge.next()).secrets[0]?.uri, 'spiffe://lubeck.example/log');
    await lubeck.delete(workloadEntryKind.plural, 'log');
    const last = await judge.next();
    assert.equal(last.code, 'PermissionDenied', JSON.stringify(last));
  });
});
