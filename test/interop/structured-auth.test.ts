// A real kube-apiserver with the structured authentication configuration that `hansa cluster auth-config`
// prints accepts the JWT-SVID of the site, and no other token of the same issuer. The site needs no stored
// credential.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { siteUser } from '../../src/core/kube/manifests/manifest.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import { credentialOf, forge, purposes } from '../../src/core/identity/x509/test-forge.ts';
import { hansa, type Ran, temporaryFolder } from '../e2e/daemon.ts';
import { freePort } from '../e2e/free-ports.ts';
import { until } from '../e2e/until.ts';
import { serviceAccountIssuer } from './kube-apiserver.ts';
import { Kubectl } from './kubectl.ts';
import {
  clustersPath,
  hostOf,
  registerCluster,
  type ReviewCluster,
  reviewOf,
  type ReviewStatus,
  reviewsPath,
  startReviewCluster,
} from './review-cluster.ts';
import { type Site, startSite } from './site.ts';
import { missingTools } from './tool.ts';
import { makeWebPki } from './web-pki.ts';
import type { WireAnswer, WireClient } from './wire.ts';

const trustDomain = 'lubeck.example';
const audience = 'app1';

suite(
  'an API server that trusts the OIDC issuer of the site',
  {
    skip: await missingTools('etcd', 'kube-apiserver', 'kubectl'),
  },
  () => {
    let site: Site;
    let cluster: ReviewCluster;
    let trap: Trap;
    /** Of the site itself, for the audience of the cluster. */
    let siteSvid: string;

    before(async () => {
      const folder = temporaryFolder();
      mkdirSync(join(folder, 'pki'));
      const pki = makeWebPki(join(folder, 'pki'));
      const port = await freePort();
      const issuer = `https://localhost:${port}`;
      site = await startSite({
        flags: [
          `--web=127.0.0.1:${port}`,
          `--serving-cert-cert-file=${pki.certificateFile}`,
          `--serving-cert-key-file=${pki.keyFile}`,
          `--jwt-issuer=${issuer}`,
        ],
      });
      const authConfig = async (part: string): Promise<string> => {
        const options = ['--audience', audience, '--issuer-ca-file', pki.rootFile, '--part', part];
        const printed = await run('cluster', 'auth-config', ...options);
        assert.equal(printed.code, 0, printed.stderr);
        return printed.stdout;
      };
      const file = join(folder, 'authentication.yaml');
      writeFileSync(file, await authConfig('configuration'));
      cluster = await startReviewCluster([`--authentication-config=${file}`]);
      const kubectl = await Kubectl.with(cluster.kube.kubeconfig);
      await kubectl.ok(['apply', '-f', '-'], { input: await authConfig('access') });
      await kubectl.close();
      trap = await startTrap();
      siteSvid = await trap.bearerFor(site.client, specFor(trap, audience));
    });
    after(async () => {
      trap?.server.close();
      await cluster?.stop();
      await site?.stop();
    });

    const run = (...args: readonly string[]): Promise<Ran> =>
      hansa([...args, '--data-dir', site.dataDir]);
    const mint = async (id: string): Promise<Ran> =>
      run('svid', 'mint', `spiffe://${trustDomain}/${id}`, '--audience', audience);
    const ask = (token: string, method: string, path: string, body?: object): Promise<WireAnswer> =>
      cluster.kube.client.send({
        method,
        path,
        headers: { authorization: `Bearer ${token.trim()}` },
        ...(body && { body: JSON.stringify(body) }),
      });
    const whoAmI = (token: string): Promise<WireAnswer> =>
      ask(token, 'POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {});
    const specFor = (at: { readonly url: string; readonly ca: string }, to: string) => ({
      issuer: serviceAccountIssuer,
      apiServer: at.url,
      caBundle: at.ca,
      credential: { jwtSVID: { audience: to } },
    });

    test('lets the site review tokens without a stored credential', async () => {
      await registerCluster(site.client, 'app1', specFor(cluster.kube, audience));
      const { status, text } = await site.client.send({
        method: 'POST',
        path: reviewsPath,
        headers: { host: hostOf('app1') },
        body: reviewOf(await cluster.token()),
      });
      assert.equal(status, 201, text);
      const review = JSON.parse(text) as { readonly status: ReviewStatus };
      assert.equal(review.status.authenticated, true, text);
    });

    test('knows the site by its SPIFFE ID, with no rights beyond reviews', async () => {
      const { status, text } = await whoAmI(siteSvid);
      assert.equal(status, 201, text);
      const { userInfo } = (JSON.parse(text) as { status: { userInfo: { username: string } } })
        .status;
      assert.equal(userInfo.username, siteUser(trustDomain));
      for (const path of ['/api/v1/secrets', '/api/v1/namespaces', '/api/v1/nodes'])
        assert.equal((await ask(siteSvid, 'GET', path)).status, 403, path);
    });

    test('gets the only JWT-SVIDs for its audience', async () => {
      const { status, text } = await trap.register(site.client, specFor(trap, audience));
      assert.equal(status, 422, text);
      assert.match(text, /cluster app1 uses \\"app1\\" for another API server/);
    });

    test('refuses the JWT-SVID of the site for another audience', async () => {
      const token = await trap.bearerFor(site.client, specFor(trap, 'other'));
      const { status, text } = await whoAmI(token);
      assert.equal(status, 401, text);
    });

    test('refuses the JWT-SVID of a workload for the same audience', async () => {
      const { code, stdout, stderr } = await mint('batch');
      assert.equal(code, 0, stderr);
      const { status, text } = await whoAmI(stdout);
      assert.equal(status, 401, text);
    });

    test('cannot be deceived by a JWT-SVID for the ID of the site, which only the site itself gets', async () => {
      const { code, stdout, stderr } = await mint('hansa/site');
      assert.notEqual(code, 0, stdout);
      assert.doesNotMatch(stdout, /ey/);
      assert.match(stderr, /hansa/);
    });
  },
);

interface Trap {
  readonly url: string;
  readonly ca: string;
  readonly server: Server;
  /** Creates a Cluster with this trap as API server. */
  register(admin: WireClient, spec: TrapSpec): Promise<WireAnswer>;
  /** The bearer token that the site sends to an API server of this Cluster. */
  bearerFor(admin: WireClient, spec: TrapSpec): Promise<string>;
}

/** Of a Cluster whose API server is asked with a JWT-SVID of the site. */
interface TrapSpec {
  readonly credential: { readonly jwtSVID: { readonly audience: string } };
}

/** An API server that keeps the credentials which it is shown, and answers nothing. */
async function startTrap(): Promise<Trap> {
  const root = forge({ ca: true });
  const leaf = forge({
    issuer: root,
    ca: false,
    dnsNames: ['localhost'],
    purposes: [purposes.server],
  });
  const { certificateChain: cert, privateKey: key } = credentialOf(leaf);
  const shown: string[] = [];
  const server = createServer({ cert, key }, ({ headers }, response) => {
    response.writeHead(403).end();
    shown.push((headers.authorization ?? '').replace('Bearer ', ''));
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  let count = 0;
  const register: Trap['register'] = (admin, spec) => {
    const metadata = { name: `trap-${(count += 1)}` };
    const cluster = { apiVersion: 'hansa.dev/v1alpha1', kind: 'Cluster', metadata, spec };
    return admin.send({ method: 'POST', path: clustersPath, body: JSON.stringify(cluster) });
  };
  return {
    url: `https://localhost:${(server.address() as AddressInfo).port}`,
    ca: certificatePem(root.der),
    server,
    register,
    bearerFor: async (admin, spec) => {
      const answer = await register(admin, spec);
      assert.equal(answer.status, 201, answer.text);
      const { audience: wanted } = spec.credential.jwtSVID;
      const find = (): string | undefined => shown.find((token) => audienceOf(token) === wanted);
      await until(() => find() !== undefined, 'the site shows its JWT-SVID');
      await admin.send({ method: 'DELETE', path: `${clustersPath}/trap-${count}` });
      return find() as string;
    },
  };
}

/** Undefined where it is not a JWT for one audience. */
function audienceOf(token: string): string | undefined {
  const [, payload = ''] = token.split('.');
  const { aud = [] } = JSON.parse(Buffer.from(payload, 'base64url').toString() || '{}') as {
    readonly aud?: readonly string[];
  };
  return aud.length === 1 ? aud[0] : undefined;
}
