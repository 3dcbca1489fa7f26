import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Resource } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import { forge } from '../../core/identity/x509/test-forge.ts';
import { type AdmissionParts, admitCluster } from './admit-cluster.ts';
import { specOf, type WrittenSpec } from './test-clusters.ts';

const issuer = 'https://issuer.example';
const apiServer = 'https://app1.example:6443';
const peer = { trustDomain: 'bruges.example', cluster: 'app1' };
const ca = certificatePem(forge({ ca: true }).der);

const parts: AdmissionParts = {
  settings: { baseDomain: 'kube-fed.svc.cluster.local', credentialsDir: '/etc/hansa/clusters' },
  trustDomain: 'lubeck.example',
  siteAudience: 'hansa://lubeck.example',
  local: () => ({
    name: undefined,
    expectation: { collection: 'auth.local-cluster', name: 'local', at: 'absent' },
  }),
  othersWithPrefix: () => [],
  all: () => [],
  use: () => ({ collection: 'auth.credential-use', name: 'last', at: 'absent' }),
};

interface Options {
  readonly name?: string;
  readonly live?: WrittenSpec;
  readonly parts?: Partial<AdmissionParts>;
}

function admit(spec: WrittenSpec, options: Options = {}): readonly string[] {
  const warnings: string[] = [];
  const { name = 'app1', live } = options;
  admitCluster(
    { metadata: { name } as Resource['metadata'], spec: specOf(spec) },
    live && { spec: specOf(live) },
    { ...parts, ...options.parts },
    (text) => warnings.push(text),
  );
  return warnings;
}

function refusalOf(spec: WrittenSpec, options: Options = {}): string {
  try {
    admit(spec, options);
  } catch (caught) {
    assert.ok(caught instanceof HansaError && caught.code === 'HANSA_INVALID', String(caught));
    const [cause] = caught.details?.causes ?? [];
    assert.ok(caught.message.includes(String(cause?.field)));
    return `${String(cause?.field)}: ${String(cause?.message)}`;
  }
  return 'admitted';
}

describe('a Cluster is admitted', () => {
  const admitted: Record<string, WrittenSpec> = {
    'with an issuer that publishes its keys': { issuer },
    'with an API server and its CA': { issuer, apiServer, caBundle: ca },
    'with the CA that an API server made for itself, beside its own certificate': {
      issuer,
      apiServer,
      caBundle: certificatePem(forge({ ca: false }).der) + ca,
    },
    'with an issuer that is no URL, where the API server has the keys': {
      issuer: 'kubernetes/serviceaccount',
      apiServer,
    },
    'with files below the folder for them': {
      issuer,
      apiServer,
      caFile: 'app1/ca.pem',
      credential: { tokenFile: 'app1/token' },
    },
    'with a path in the URL of the API server': {
      issuer,
      apiServer: 'https://rancher.example/k8s/clusters/c-1',
    },
    'of a peer': { issuer: 'kubernetes/serviceaccount', peer },
    'of a peer, whose site is asked': { issuer, peer, validation: { mode: 'hybrid' } },
    'with a webhook authenticator': {
      issuer,
      callers: { webhookAuthenticators: [{ caller: 'token:app2', prefix: 'app1:' }] },
    },
  };
  for (const [what, spec] of Object.entries(admitted)) {
    test(`${what}, without a warning`, () => assert.deepEqual(admit(spec), []));
  }

  test('with a CA that it has already, even if it could not be read', () => {
    const spec = { issuer, apiServer, caBundle: 'no certificate' };
    assert.deepEqual(admit(spec, { live: spec }), []);
  });
});

describe('a Cluster is refused', () => {
  const noFiles = {
    settings: { baseDomain: 'kube-fed.svc.cluster.local', credentialsDir: undefined },
  };
  const refused: Record<string, [WrittenSpec, RegExp, Options?]> = {
    'with the credential of another API server': [
      { issuer, apiServer, credential: { tokenFile: 'app2/token' } },
      /^spec\.credential\.tokenFile: .*cluster app2 uses "app2\/token" for another API server/,
      {
        parts: {
          all: () => [
            {
              metadata: { name: 'app2' },
              spec: specOf({
                issuer,
                apiServer: 'https://app2.example',
                credential: { tokenFile: 'app2/token' },
              }),
            } as never,
          ],
        },
      },
    ],
    'of this site itself as a peer': [
      { issuer, peer: { ...peer, trustDomain: 'lubeck.example' } },
      /^spec\.peer\.trustDomain: .*lubeck\.example is this site/,
    ],
    'of a peer with an API server': [{ issuer, peer, apiServer }, /^spec\.apiServer: /],
    'of a peer with a CA': [{ issuer, peer, caBundle: ca }, /^spec\.caBundle: /],
    'of a peer with a credential': [{ issuer, peer, credential: {} }, /^spec\.credential: /],
    'of a peer with audiences of its API server': [
      { issuer, peer, apiAudiences: [issuer] },
      /^spec\.apiAudiences: /,
    ],
    'of a peer as the local cluster': [{ issuer, peer, local: true }, /^spec\.local: /],
    'of a peer with ServiceAccounts that call this site': [
      { issuer, peer, callers: { acceptAPIServerAudience: true } },
      /^spec\.callers\.acceptAPIServerAudience: /,
    ],
    'in mode hybrid without an API server': [
      { issuer, validation: { mode: 'hybrid' } },
      /^spec\.validation\.mode: .*set apiServer, or mode jwks/,
    ],
    'in mode tokenreview without an API server': [
      { issuer, validation: { mode: 'tokenreview' } },
      /^spec\.validation\.mode: /,
    ],
    'with neither an API server nor an https issuer': [
      { issuer: 'kubernetes/serviceaccount' },
      /^spec\.issuer: .*must then be an https URL/,
    ],
    'with an http issuer and no API server': [
      { issuer: 'http://issuer.example' },
      /^spec\.issuer: /,
    ],
    'with a query in the issuer and no API server': [
      { issuer: 'https://issuer.example/?a=b' },
      /^spec\.issuer: /,
    ],
    'with a user in the URL of the API server': [
      { issuer, apiServer: 'https://me:secret@app1.example' },
      /^spec\.apiServer: (?!.*secret)/,
    ],
    'with a URL of the API server that is none': [
      { issuer, apiServer: 'https://[app1/' },
      /^spec\.apiServer: /,
    ],
    'with a proxy that is no URL': [
      { issuer, apiServer, proxyURL: 'http://[proxy/' },
      /^spec\.proxyURL: /,
    ],
    'with a CA that is no PEM': [
      { issuer, apiServer, caBundle: 'no certificate' },
      /^spec\.caBundle: .*no certificate in PEM/,
    ],
    'with a CA that cannot be read': [
      { issuer, apiServer, caBundle: ca.replace(/\n.{20}/, '\nAAAAAAAAAAAAAAAAAAAA') },
      /^spec\.caBundle: .*cannot be read/,
    ],
    'with a private key beside its CA': [
      {
        issuer,
        apiServer,
        caBundle: `${ca}-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n`,
      },
      /^spec\.caBundle: .*private key/,
    ],
    'with hundreds of authorities': [
      { issuer, apiServer, caBundle: ca.repeat(65) },
      /^spec\.caBundle: .*the limit is 64/,
    ],
    'with a CA file and no API server': [{ issuer, caFile: 'ca.pem' }, /^spec\.caFile: /],
    'with a CA file where the site reads no files': [
      { issuer, apiServer, caFile: 'ca.pem' },
      /^spec\.caFile: .*auth\.credentialsDir/,
      { parts: noFiles },
    ],
    'with a token file where the site reads no files': [
      { issuer, apiServer, credential: { tokenFile: 'token' } },
      /^spec\.credential\.tokenFile: .*auth\.credentialsDir/,
      { parts: noFiles },
    ],
    'with a client certificate where the site reads no files': [
      {
        issuer,
        apiServer,
        credential: { clientCertificate: { certFile: 'crt', keyFile: 'key' } },
      },
      /^spec\.credential\.clientCertificate: .*auth\.credentialsDir/,
      { parts: noFiles },
    ],
    'with a renewal that is due at once': [
      {
        issuer,
        apiServer,
        credential: { renew: { durationSeconds: 600, renewBeforeSeconds: 600 } },
      },
      /^spec\.credential\.renew\.renewBeforeSeconds: /,
    ],
    'with a short duration and the default time of renewal': [
      { issuer, apiServer, credential: { renew: { durationSeconds: 3600 } } },
      /^spec\.credential\.renew\.renewBeforeSeconds: .*172800 is not less than/,
    ],
    'with a prefix that would make names of Kubernetes itself': [
      {
        issuer,
        callers: {
          webhookAuthenticators: [
            { caller: 'token:a', prefix: 'app1:' },
            { caller: 'token:b', prefix: 'system:' },
          ],
        },
      },
      /^spec\.callers\.webhookAuthenticators\[1\]\.prefix: /,
    ],
    'as the second local cluster': [
      { issuer, local: true },
      /^spec\.local: .*app9 is the local cluster/,
      { parts: { local: () => ({ ...parts.local(), name: 'app9' }) } },
    ],
    'with a name that makes its host too long': [
      { issuer },
      /^metadata\.name: .*the limit is 253/,
      { parts: { settings: { ...parts.settings, baseDomain: `${'a.'.repeat(120)}example` } } },
    ],
  };
  for (const [what, [spec, message, options]] of Object.entries(refused)) {
    test(what, () => assert.match(refusalOf(spec, options), message));
  }
});

describe('a Cluster gets a warning', () => {
  const warned: Record<string, [WrittenSpec, RegExp, Options?]> = {
    'with a name that no Service can have': [{ issuer }, /begins with a letter/, { name: '1app' }],
    'with a long revocation lag': [
      { issuer, apiServer, validation: { maxRevocationLagSeconds: 3600 } },
      /up to 3600 seconds/,
    ],
    'with allowUntilLag and no lag': [
      {
        issuer,
        apiServer,
        validation: { maxRevocationLagSeconds: 0, onUnreachable: 'allowUntilLag' },
      },
      /allowUntilLag has no effect/,
    ],
    'with a long lag for outages': [
      {
        issuer,
        apiServer,
        validation: {
          mode: 'tokenreview',
          maxRevocationLagSeconds: 3600,
          onUnreachable: 'allowUntilLag',
        },
      },
      /up to 3600 seconds/,
    ],
    'where it accepts tokens of its API server': [
      { issuer, callers: { acceptAPIServerAudience: true } },
      /prefer tokens for the audience hansa:\/\/lubeck\.example/,
    ],
    'where the audience of the site is one of the API server': [
      { issuer, apiAudiences: ['hansa://lubeck.example'] },
      /is the audience of this site/,
    ],
    'with a credential and no API server': [
      { issuer, credential: { jwtSVID: { audience: 'a' } } },
      /spec\.credential: it has no effect/,
    ],
    'with a renewal of a credential that is not renewed': [
      { issuer, apiServer, credential: { inCluster: true, renew: {} } },
      /spec\.credential\.renew: it has no effect/,
    ],
    'with a prefix that the same caller gets for another cluster': [
      { issuer, callers: { webhookAuthenticators: [{ caller: 'token:a', prefix: 'x:' }] } },
      /for cluster app2 too/,
      { parts: { othersWithPrefix: () => ['app2'] } },
    ],
  };
  for (const [what, [spec, message, options]] of Object.entries(warned)) {
    test(what, () => {
      const warnings = admit(spec, options);
      assert.equal(warnings.length, 1);
      assert.match(warnings[0] ?? '', message);
    });
  }
});
