import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import type { JsonObject } from '../api/object.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { convertClusters } from './convert-clusters.ts';

class Refused extends Error {}

const convert = (text: string) =>
  convertClusters(parse(text) as JsonObject, (why) => {
    throw new Refused(why);
  });

const required = `
clusters:
  local:
    issuer: https://container.googleapis.com/v1/projects/p/locations/l/clusters/c
  app1:
    issuer: https://kubernetes.default.svc.cluster.local
    api_server: https://app1-cluster.example.com:6443
    ca_cert: /etc/kube-fed/clusters/app1/ca.crt
    token_path: /etc/kube-fed/clusters/app1/token
renewal:
  interval: 1h
  token_duration: 168h
  renew_before: 48h
`;

/** A site with this setting. */
const siteWith = (credentialsDir: string | undefined): SiteClient =>
  ({ request: async () => ({ status: 200, body: { credentialsDir } }) }) as unknown as SiteClient;

suite('the configuration of kube-federated-auth', () => {
  test('becomes one Cluster for each entry', async () => {
    const [local, app1, ...more] = convert(required) ?? [];
    assert.deepEqual(more, []);
    assert.deepEqual(local, {
      object: {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Cluster',
        metadata: { name: 'local' },
        spec: {
          issuer: 'https://container.googleapis.com/v1/projects/p/locations/l/clusters/c',
          local: true,
        },
      },
    });
    assert.deepEqual(await app1?.complete?.(siteWith('/etc/kube-fed/clusters')), {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Cluster',
      metadata: { name: 'app1' },
      spec: {
        issuer: 'https://kubernetes.default.svc.cluster.local',
        apiServer: 'https://app1-cluster.example.com:6443',
        caFile: 'app1/ca.crt',
        credential: {
          tokenFile: 'app1/token',
          renew: { intervalSeconds: 3600, durationSeconds: 604_800, renewBeforeSeconds: 172_800 },
        },
      },
    });
  });

  test('keeps relative paths, and renews nothing where it has no renewal', () => {
    const [app1] = convert('clusters: {app1: {issuer: a, token_path: app1/token}}') ?? [];
    assert.equal(app1?.complete, undefined);
    assert.deepEqual(app1?.object['spec'], {
      issuer: 'a',
      credential: { tokenFile: 'app1/token' },
    });
  });

  const app1 = () => convert(required)?.[1];

  test('with paths elsewhere is refused, with both places', async () => {
    for (const folder of ['/etc/hansa', '/etc/kube-fed/clusters/app1/ca.crt', '/etc/kube-fed/c']) {
      await assert.rejects(async () => app1()?.complete?.(siteWith(folder)), {
        code: 'HANSA_BAD_REQUEST',
        message: new RegExp(`ca_cert is /etc/kube-fed/clusters/app1/ca.crt, but .* ${folder} \\(`),
      });
    }
  });

  test('with a path that leaves the folder is refused', async () => {
    const [sly] =
      convert('clusters: {a: {issuer: a, ca_cert: /etc/kube-fed/clusters/../../shadow}}') ?? [];
    await assert.rejects(async () => sly?.complete?.(siteWith('/etc/kube-fed/clusters')), {
      message: /only reads files below/,
    });
  });

  test('with paths is refused by a site without the setting, with the folder to set', async () => {
    await assert.rejects(async () => app1()?.complete?.(siteWith(undefined)), {
      code: 'HANSA_BAD_REQUEST',
      message: /Set it to .* such as \/etc\/kube-fed\/clusters, and restart/,
    });
  });

  test('that is something else is left to others', () => {
    assert.equal(convert('{apiVersion: v1, kind: Config, clusters: []}'), undefined);
    assert.equal(convert('{kind: token, version: v2}'), undefined);
  });

  for (const [what, text, why] of [
    ['no entry', 'clusters: {}', /clusters has no entry/],
    ['a list', 'clusters: []', /clusters must be an object/],
    ['an empty entry', 'clusters: {a: }', /clusters\.a is missing/],
    ['no issuer', 'clusters: {a: {api_server: https://a}}', /clusters\.a\.issuer is missing/],
    [
      'an unknown field',
      'clusters: {a: {issuer: a, qps: 5}}',
      /clusters\.a\.qps has no counterpart/,
    ],
    ['an unknown section', 'clusters: {a: {issuer: a}}\nserver: {}', /server has no counterpart/],
    ['a number as token', 'clusters: {a: {issuer: a, token_path: 5}}', /token_path must be a text/],
    ['a bad duration', 'clusters: {a: {issuer: a}}\nrenewal: {interval: soon}', /"soon": write a/],
    ['a negative one', 'clusters: {a: {issuer: a}}\nrenewal: {interval: -1h}', /"-1h": write a/],
    ['a short one', 'clusters: {a: {issuer: a}}\nrenewal: {interval: 1500ms}', /whole seconds/],
    ['an unknown renewal', 'clusters: {a: {issuer: a}}\nrenewal: {jitter: 1h}', /renewal\.jitter/],
  ] as const) {
    test(`with ${what} is refused`, () => {
      assert.throws(
        () => convert(text),
        (error) => error instanceof Refused && why.test(error.message),
      );
    });
  }

  test('is not confused by names of object properties', () => {
    const [odd] = convert('clusters: {__proto__: {issuer: a}, constructor: {issuer: b}}') ?? [];
    assert.ok(odd !== undefined);
  });
});
