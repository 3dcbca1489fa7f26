// The configuration that the SPIRE operator compiles, judged by `spire-server validate`, and the rules of
// SpireServer, judged by a real kube-apiserver: it refuses what the controller refuses, with the same words, and
// stores the compiled objects as they are wanted.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { crdOf } from '../../src/api/documents/crd.ts';
import { spireServerKind } from '../../src/api/kinds/spire-server.ts';
import { compileServerConf, spirePaths } from '../../src/kubernetes/spire/compile-server-conf.ts';
import { compileObjects } from '../../src/kubernetes/spire/compile-objects.ts';
import { differences } from '../../src/kubernetes/spire/differences.ts';
import { readSpireServer } from '../../src/kubernetes/spire/read-spire-server.ts';
import {
  federations,
  hostileFederations,
  limitedFederation,
  many,
  namespace,
  refusedFederations,
  serverFacts,
  specOf,
  spireServer,
} from '../../src/kubernetes/spire/test-spire-servers.ts';
import { execute, temporaryFolder } from '../e2e/daemon.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { Kubectl } from './kubectl.ts';
import { missingTools, requireTool } from './tool.ts';
import { makeWebPki } from './web-pki.ts';

const withoutSpire = await missingTools('spire-server');

suite('spire-server validate accepts the compiled server.conf', { skip: withoutSpire }, () => {
  const folder = temporaryFolder();
  const certificates = join(folder, 'certificates');
  mkdirSync(certificates);
  const { certificateFile, keyFile } = makeWebPki(certificates);
  cpSync(certificateFile, join(certificates, 'tls.crt'));
  cpSync(keyFile, join(certificates, 'tls.key'));

  /** Its files are in the container; here they are in a folder of the test. */
  async function validate(name: string, server: object): Promise<string> {
    const { spec, problems } = readSpireServer(server);
    if (spec === undefined) throw new Error(problems.join());
    const text = compileServerConf(spec, namespace)
      .text.replaceAll(spirePaths.certificates, certificates)
      .replaceAll(spirePaths.data, folder)
      .replaceAll(spirePaths.socket, join(folder, 'api.sock'));
    const file = join(folder, `${name.replaceAll(/\W/g, '-')}.conf`);
    writeFileSync(file, text);
    const program = await requireTool('spire-server');
    const { code, stdout, stderr } = await execute(program, ['validate', '-config', file]);
    assert.equal(code, 0, `${stdout}${stderr}\n${text}`);
    return text;
  }

  const trustDomains = ['a.example', 'a_b-c.9', 'x'.repeat(255)];
  for (const [profile, federation] of [
    ['no federation', undefined],
    ...Object.entries(federations),
  ])
    for (const trustDomain of trustDomains) {
      const name = `${String(profile)} of ${trustDomain.slice(0, 20)}`;
      test(`with ${name}`, async () => {
        await validate(name, spireServer(federation as object as never, { trustDomain }));
      });
    }

  test('with every other setting', async () => {
    const spec = {
      logLevel: 'debug',
      logFormat: 'json',
      jwtIssuer: 'https://issuer.a.example',
      caValidity: '48h',
      defaultX509Validity: '30m',
      defaultJWTValidity: '1h30m',
      caKeyType: 'rsa-2048',
      jwtKeyType: 'ec-p384',
      caSubject: { country: 'DE', organization: 'Hansa', commonName: 'a.example' },
      keyManager: 'memory',
      nodeAttestors: ['k8s_psat', 'join_token'],
      datastore: { databaseType: 'postgres', connectionString: 'dbname=spire', maxIdleConns: 0 },
    };
    await validate('other settings', spireServer(federations['https_spiffe'], spec));
  });

  test('with texts that would end a string in HCL', async () => {
    const evil = 'a"\n}\nplugins { KeyManager "x" {} }\n# ${env} \\ \u2028 {';
    const caSubject = { organization: evil, commonName: evil.repeat(4) };
    await validate('evil', spireServer(federations['https_spiffe'], { caSubject }));
  });
});

const withoutKube = await missingTools('etcd', 'kube-apiserver', 'kubectl');

suite('an API server with the CRD of SpireServer', { skip: withoutKube }, () => {
  let kube: KubeApiserver;
  let kubectl: Kubectl;

  before(async () => {
    kube = await startKubeApiserver([crdOf(spireServerKind())]);
    kubectl = await Kubectl.with(kube.kubeconfig);
    await kubectl.ok(['create', 'namespace', namespace]);
  });
  after(async () => {
    await kubectl?.close();
    await kube?.stop();
  });

  const dryRun = (object: object) =>
    kubectl.run(['apply', '--dry-run=server', '-o', 'json', '-f', '-'], {
      input: JSON.stringify(object),
    });

  for (const [name, federation] of Object.entries({
    ...federations,
    'limited namespaces': limitedFederation,
  })) {
    test(`accepts ${name}, with the defaults that the controller reads`, async () => {
      const { code, stdout, stderr } = await dryRun(spireServer(federation));
      assert.equal(code, 0, stderr);
      const { spec } = JSON.parse(stdout) as { readonly spec: unknown };
      assert.deepEqual(spec, readSpireServer(spireServer(federation)).spec);
    });
  }

  test('refuses hostile texts in each field, as the controller does', async () => {
    for (const [what, field, federation] of hostileFederations) {
      const { code, stderr } = await dryRun(spireServer(federation));
      assert.notEqual(code, 0, `${what} in ${field}`);
      assert.ok(stderr.includes(field), `${what} in ${field}: ${stderr.slice(0, 500)}`);
    }
  });

  for (const [rule, federation] of refusedFederations) {
    test(`refuses ${rule}, with the words of the controller`, async () => {
      const { code, stderr } = await dryRun(spireServer(federation));
      assert.notEqual(code, 0);
      const { problems } = readSpireServer(spireServer(federation));
      for (const problem of problems) {
        const field = problem.slice(0, problem.indexOf(': '));
        // It does not say a second time that rules were not asked.
        if (!problem.includes('some validation rules were not checked')) {
          assert.ok(stderr.includes(field), `${field} in ${stderr}`);
        }
        // A rule in CEL. The others are in the words of Kubernetes.
        const words = /: Invalid value: ([a-zA-Z][^"]*)$/.exec(problem)?.[1];
        if (words !== undefined && !words.startsWith('null: ')) {
          assert.ok(stderr.includes(words), `${words} in ${stderr}`);
        }
      }
    });
  }

  for (const [name, federation] of Object.entries(federations)) {
    test(`stores all objects with ${name} as they are wanted`, async () => {
      const exposure = { host: 'federation.a.example' };
      const spec = specOf({
        ...federation,
        exposure,
        networkPolicy: { fromCIDRs: ['10.0.0.0/8'] },
      });
      const facts = { ...serverFacts(new Set(['Ingress'] as const)), sidecarImage: 'hansa:1' };
      const { wanted } = compileObjects(spec, facts);
      const list = { apiVersion: 'v1', kind: 'List', items: wanted };
      const flags = ['apply', '--server-side', '--force-conflicts', '-o', 'json', '-f', '-'];
      const stored = JSON.parse(await kubectl.ok(flags, { input: JSON.stringify(list) })) as {
        readonly items: readonly unknown[];
      };
      assert.equal(stored.items.length, wanted.length);
      for (const [at, live] of stored.items.entries()) {
        assert.deepEqual(differences(wanted[at], live), [], wanted[at]?.kind);
      }
    });
  }

  test('refuses a second SpireServer', async () => {
    const { code, stderr } = await dryRun({ ...spireServer(), metadata: { name: 'second' } });
    assert.notEqual(code, 0);
    assert.match(stderr, /name cluster/);
  });

  test('takes the limit of trust domains from the schema', async () => {
    const federation = { bundleEndpoint: {}, federatesWith: many(51) };
    assert.notEqual((await dryRun(spireServer(federation))).code, 0);
    await kubectl.ok(['apply', '-f', '-'], { input: JSON.stringify(crdOf(spireServerKind(60))) });
    for (;;) {
      const { code } = await dryRun(spireServer(federation));
      if (code === 0) break;
    }
  });
});
