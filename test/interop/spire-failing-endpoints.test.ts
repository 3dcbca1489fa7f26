// A SPIRE server that a site operates federates with endpoints that fail, each in its own way. The status of the
// SpireServer and `hansa doctor` say what is wrong with each and what to do, and the others go on. Real
// kube-apiserver, StatefulSet controller and spire-server.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { FailingEndpoints, type Fault } from './failing-endpoints.ts';
import { FailingNames } from './failing-names.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kubectl',
    'spire-server',
  ));

const webName = 'endpoints.example';
/** In the separate host of the Pods, which nothing else sees. */
const rootsFile = '/mnt/roots.pem';

/** The reason in the status of the relationship, and words of its message: what is wrong, and what to do. */
const expected: Readonly<Partial<Record<Fault, readonly [reason: string, ...words: RegExp[]]>>> = {
  'no-such-host': ['NeverFetched', /no such host/, /DNS record of its host/],
  'name-server-fails': ['NeverFetched', /lookup name-server-fails\.example/, /DNS record/],
  'name-server-silent': ['NeverFetched', /lookup name-server-silent\.example/, /DNS record/],
  unreachable: ['NeverFetched', /connection refused/, /firewalls/],
  'not-json': ['NeverFetched', /invalid character '<'/, /Correct bundleEndpointUrl/],
  'server-error': ['NeverFetched', /unexpected status 503\./, /Check the SPIRE server/],
  expired: ['NeverFetched', /has expired/, /renew the certificate/],
  'wrong-id': [
    'NeverFetched',
    /unexpected ID "spiffe:\/\/wrong-id\.example\/web"/,
    /endpointSpiffeId/,
  ],
  'wrong-bootstrap': ['NeverFetched', /unknown authority/, /hansa spire bootstrap/],
  'no-bootstrap': ['FetchFailed', /has no bundle/, /hansa spire bootstrap/],
  'other-domain': ['OtherBundle', /serves the bundle of spiffe:\/\/elsewhere\.example/, /Correct/],
  'no-authority': ['OtherBundle', /without X\.509 authorities/, /Correct bundleEndpointUrl/],
  'other-domain-web': [
    'OtherBundle',
    /serves the bundle of spiffe:\/\/elsewhere\.example/,
    /Correct/,
  ],
  'expired-web': ['FetchFailed', /has expired/, /renew the certificate/],
  'other-name-web': ['FetchFailed', /is valid for other\.example/, /Use a name of the certificate/],
  'unknown-ca-web': [
    'FetchFailed',
    /unknown authority/,
    /certificate of a CA that this SPIRE server/,
  ],
};
const faults = Object.keys(expected) as readonly Fault[];
const sound = ['sound', 'sound-web'] as const satisfies readonly Fault[];

suite('A SPIRE server that federates with failing endpoints', { skip }, () => {
  let etcd: Etcd;
  let site: OperatorSite;
  let a: OperatedSpire;
  let endpoints: FailingEndpoints;
  let names: FailingNames;

  before(async () => {
    etcd = await startEtcd();
    site = await OperatorSite.start();
    const pods = { env: { SSL_CERT_FILE: rootsFile }, machineNames: [webName], asksMachine: true };
    a = await site.add('a', etcd, pods);
    const { host } = a.spire.kubelet;
    endpoints = new FailingEndpoints(host.gateway);
    names = await FailingNames.start(host.gateway);
    const write = 'printf %s "$1" > "$2"';
    await host.run('sh', ['-c', write, 'sh', endpoints.webRoot, rootsFile]);
    const all = [...sound, ...faults].map((fault) => endpoints.relationship(fault, webName));
    await a.federate(await Promise.all(all));
    await until(() => a.has('pod/spire-server-0'), 'the Pod is made');
    await a.spire.ready();
  });
  after(async () => {
    endpoints?.stop();
    names?.stop();
    await site?.stop();
    await etcd?.stop();
  });

  for (const name of sound) {
    test(`has a fresh bundle of ${name}.example`, async () => {
      await a.untilEntry(
        `${name}.example`,
        (entry) => entry?.state === 'Fresh' && entry.reason === undefined,
      );
    });
  }

  for (const name of faults) {
    const [reason = '', ...words] = expected[name] ?? [];
    test(`says what to do about ${name}.example`, async () => {
      const entry = await a.untilEntry(`${name}.example`, (found) => found?.reason === reason);
      assert.equal(entry?.state, 'Failed');
      for (const each of words) assert.match(entry.message ?? '', each);
    });
  }

  test('names the failures in its conditions', async () => {
    const found = await a.untilCondition('FederationRelationshipsReady', 'False', 'Failed');
    const all = sound.length + faults.length;
    const words = `^${sound.length} of ${all} trust domains have a fresh bundle\\.`;
    assert.match(found.message, new RegExp(words));
    const warnings = await a.untilCondition('FederationWarnings', 'True', 'NotBootstrapped');
    assert.match(warnings.message, /no-bootstrap\.example/);
    await a.untilCondition('FederationServiceReady', 'True', 'Ready');
  });

  test('lets doctor name each failure with what to do', async () => {
    const { code, stdout } = await site.tryRun('doctor', '--spire', 'a');
    assert.notEqual(code, 0);
    // Without line breaks.
    const found = stdout.replaceAll(/\s+/g, ' ');
    for (const name of faults) {
      const [, , advice = /$^/] = expected[name] ?? [];
      const at = found.indexOf(`${name}.example is Failed`);
      assert.notEqual(at, -1, stdout);
      assert.match(found.slice(at, at + 1000), advice);
    }
    for (const name of sound) assert.match(found, new RegExp(`${name}\\.example is Fresh`));
  });

  test('counts the failures by their class', async () => {
    const metrics = await site.metrics();
    for (const [name, failure] of [
      ['no-such-host', 'dns'],
      ['name-server-silent', 'dns'],
      ['unreachable', 'connect'],
      ['not-json', 'malformed'],
      ['server-error', 'http'],
      ['expired', 'identity'],
    ] as const) {
      const labels = `server="a",trust_domain="${name}.example",class="${failure}"`;
      assert.match(metrics, new RegExp(`refresh_errors\\{${labels}\\} [1-9]`));
    }
  });
});
