// Calls every route of a running site without a credential, as viewer, editor and admin, and as
// several sites, and compares the outcome with what the route declares. The test covers new routes
// automatically.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../../src/core/clock/system.ts';
import { Bundle } from '../../src/core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import {
  credentialOf,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../src/core/identity/x509/test-forge.ts';
import { createLog } from '../../src/core/log/json-log.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { loadConfig } from '../../src/server/config/config.ts';
import { type RouteRow, whoMayCall } from '../../src/server/routes/route-rows.ts';
import { type RunningSite, startSite } from '../../src/server/site.ts';
import { allPlanes } from '../../src/test-planes.ts';
import { until } from './until.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'hansa-routes-'));
const names = [
  'nobody',
  'viewer',
  'editor',
  'admin',
  'live peer',
  'suspended peer',
  'unknown site',
];
/** Sites that present a certificate, by the name of the caller. */
const sites = new Map<string, Forged>();
const tokens = new Map<string, string>();
let site: RunningSite;

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

function read(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

let lastAddress = 0;

/** A site refuses an address that failed often, so each call comes from another network. */
function nextAddress(): string {
  lastAddress += 1;
  return `127.${1 + (lastAddress >> 8)}.${lastAddress & 255}.1`;
}

/** Over HTTP/1.1: on a listener as somebody, or on the admin socket as the owner. */
function ask(
  as: string,
  url: string | undefined,
  method: string,
  path: string,
  body?: unknown,
  host?: string,
) {
  const leaf = sites.get(as);
  const credential = leaf && credentialOf(leaf);
  const token = tokens.get(as);
  const options = {
    method,
    path,
    agent: false,
    headers: {
      ...(host === undefined ? {} : { host }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(method === 'GET' ? {} : { 'content-type': 'application/json' }),
    },
  };
  return new Promise<Answer>((resolve, reject) => {
    const sent =
      as === 'admin' && url === site.endpoints.api
        ? requestHttp({ ...options, socketPath: site.endpoints.admin ?? '' })
        : (url?.startsWith('http:') === true ? requestHttp : requestHttps)(url ?? '', {
            ...options,
            rejectUnauthorized: false,
            localAddress: nextAddress(),
            ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
          });
    sent.on('error', reject);
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: read(text) }));
    });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** The gRPC status of a call that ends its half at once. */
function callRpc(as: string, path: string, socketPath?: string): Promise<number> {
  const leaf = sites.get(as);
  const credential = leaf && credentialOf(leaf);
  const session =
    socketPath === undefined
      ? connectHttp2(site.endpoints.federation ?? '', {
          rejectUnauthorized: false,
          ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
        })
      : connectHttp2('http://localhost', { createConnection: () => connectSocket(socketPath) });
  const token = tokens.get(as);
  return new Promise<number>((resolve, reject) => {
    session.on('error', reject);
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    });
    const told = (headers: object): void => {
      const status = (headers as Record<string, unknown>)['grpc-status'];
      if (status !== undefined) resolve(Number(status));
    };
    stream.on('response', told).on('trailers', told).on('error', reject);
    stream.resume();
    stream.end();
  }).finally(() => session.destroy());
}

async function put(
  collection: string,
  name: string,
  object: { readonly metadata: object; readonly [field: string]: unknown },
): Promise<void> {
  const encode = (revision: number): Buffer => {
    const metadata = { ...object.metadata, resourceVersion: String(revision) };
    return Buffer.from(JSON.stringify({ ...object, metadata }));
  };
  await site.store.commit({ put: [{ collection, name, encode }] });
}

/** A site of this state, as the store has it after a handshake. */
async function addPeer(name: string, state: string): Promise<Forged> {
  const root = forgeRoot(name);
  const trustDomain = TrustDomain.parse(name);
  const bundle = encodeSpiffeBundle(new Bundle(trustDomain, [root.certificate]), {
    sequence: 1,
    refreshHintSeconds: 300,
  });
  const made = { name, uid: `uid-of-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' };
  await put('spiffefederations', name, {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'SPIFFEFederation',
    metadata: made,
    spec: { bundleSource: { static: { bundle } } },
  });
  await put('federationpeers', name, {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'FederationPeer',
    metadata: made,
    spec: { url: 'https://127.0.0.1:1', desiredState: state === 'suspended' ? state : 'active' },
    status: { state, role: 'inviter', since: '2026-01-01T00:00:00Z' },
  });
  return forgeLeaf(root, `spiffe://${name}/hansa/site`);
}

before(async () => {
  const loopback = '127.0.0.1:0';
  const flags = {
    dataDir,
    trustDomain: 'lubeck.example',
    api: loopback,
    federation: loopback,
    metrics: loopback,
    advertise: 'https://127.0.0.1:1',
    'jwt.issuer': 'https://lubeck.example',
  };
  const { config } = loadConfig({ planes: allPlanes, flags, env: {}, cwd: dataDir });
  site = await startSite({
    config,
    planes: allPlanes,
    version: 'test',
    clock: systemClock,
    random: systemRandom,
    log: createLog({
      clock: systemClock,
      sink: { write: () => true },
      level: 'error',
      format: 'json',
    }),
    metrics: new MetricsRegistry(),
  });
  for (const role of ['viewer', 'editor']) {
    const made = await ask('admin', site.endpoints.api, 'POST', '/hansa/v1/tokens', {
      name: role,
      role,
    });
    tokens.set(role, String(made.body['token']));
  }
  sites.set('live peer', await addPeer('bruges.example', 'active'));
  sites.set('suspended peer', await addPeer('reval.example', 'suspended'));
  sites.set(
    'unknown site',
    forgeLeaf(forgeRoot('mallory.example'), 'spiffe://mallory.example/hansa/site'),
  );
});

after(async () => {
  await site.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

/** By the access review of Kubernetes, not by the check that is tested. */
async function hasRights(as: string, { access }: RouteRow): Promise<boolean> {
  assert(access.allow === 'rights');
  for (const { verb, kind, subresource, nameFrom, name, nameOf } of access.rights) {
    const object = nameFrom === undefined && nameOf === undefined ? name : 'nothing';
    const { body } = await ask(
      as,
      site.endpoints.api,
      'POST',
      '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
      {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SelfSubjectAccessReview',
        spec: {
          resourceAttributes: {
            group: 'hansa.dev',
            resource: kind.plural,
            verb,
            ...(subresource === undefined ? {} : { subresource }),
            ...(object === undefined ? {} : { name: object }),
          },
        },
      },
    );
    const status = body['status'] as { readonly allowed?: boolean } | undefined;
    assert.equal(typeof status?.allowed, 'boolean', `${as} asks about ${verb} ${kind.kind}`);
    if (status?.allowed !== true) return false;
  }
  return true;
}

/** What the declaration says about the caller. */
async function mayCall(as: string, row: RouteRow): Promise<boolean> {
  const { access } = row;
  const isSite = sites.has(as);
  const isCaller = as === 'admin' || tokens.has(as);
  switch (access.allow) {
    case 'public':
      return true;
    case 'certificate':
      return isSite;
    case 'peer':
      return as === 'live peer' && access.scope === undefined;
    case 'agent':
      return false;
    case 'authenticated':
    case 'path':
      return isCaller;
    case 'credential':
      return access.via.includes('socket') && as === 'admin'
        ? true
        : access.via.includes('token') && tokens.has(as);
    case 'owner':
      return as === 'admin';
    case 'rights':
      return isCaller && hasRights(as, row);
  }
}

/** Routes that depend on the host are called for the cluster `nothing`, like the others for objects. */
function hostFor({ access }: RouteRow): string | undefined {
  if (access.allow !== 'rights') return undefined;
  const isHostBound = access.rights.some(({ nameOf }) => nameOf !== undefined);
  return isHostBound ? 'api.nothing.kube-fed.svc.cluster.local' : undefined;
}

suite('every route of a site', () => {
  test('lets those in who it declares, and no one else', async () => {
    const wrong: string[] = [];
    let called = 0;
    for (const row of site.routes) {
      const path = row.path.replace(/\{\w+\}/g, 'nothing');
      for (const as of names) {
        const expected = await mayCall(as, row);
        let outcome: number;
        let isIn: boolean;
        if (row.listener === 'web') {
          // Off here. Its routes cannot declare anything else.
          assert.equal(row.access.allow, 'public');
          continue;
        } else if (row.listener === 'admin socket') {
          if (as !== 'admin' && !tokens.has(as)) continue;
          outcome = await callRpc(as, path, site.endpoints.admin);
          isIn = outcome !== 7 && outcome !== 16;
        } else if (row.method === 'gRPC') {
          outcome = await callRpc(as, path);
          isIn = outcome !== 7 && outcome !== 16;
        } else {
          const url = site.endpoints[row.listener];
          const base = row.listener === 'metrics' ? url?.replace(/\/metrics$/, '') : url;
          const answer = await ask(as, base, row.method, path, undefined, hostFor(row));
          outcome = answer.status;
          isIn = outcome !== 401 && outcome !== 403;
          // Strangers learn that they are strangers, and callers that they may not.
          if (row.listener === 'api' && !isIn) {
            assert.equal(outcome, as === 'admin' || tokens.has(as) ? 403 : 401, `${as} ${path}`);
          }
        }
        called++;
        if (isIn !== expected) {
          wrong.push(
            `${row.method} ${row.path} (${whoMayCall(row.access)}) answers ${as} with ${outcome}`,
          );
        }
      }
    }
    assert.deepEqual(wrong, []);
    assert.ok(called > 300, `${called} calls`);
  });

  test('is in the generated table, with who may call it', () => {
    const page = readFileSync(join(import.meta.dirname, '../../docs/reference/routes.md'), 'utf8');
    for (const { listener, method, path, access } of site.routes) {
      const line = `| ${listener} | ${method} | \`${path}\` | ${whoMayCall(access)} |`;
      assert.ok(page.includes(line), `docs/reference/routes.md lacks ${line}. Run make docs.`);
    }
  });
});

test('a suspended peer is refused at every enforcement point, and its status says so', async () => {
  const path = '/apis/hansa.dev/v1alpha1/federationpeers';
  const rowsOf = async (name: string): Promise<readonly string[]> => {
    const { body } = await ask('admin', site.endpoints.api, 'GET', `${path}/${name}`);
    const { enforcement = [] } = body['status'] as {
      readonly enforcement?: readonly { readonly point: string; readonly state: string }[];
    };
    return enforcement.map(({ point, state }) => `${point} ${state}`);
  };
  const all = [
    'api',
    'bundle-delivery',
    'connections',
    'ext_authz',
    'join',
    'members',
    'spire-bundles',
    'svid-validation',
    'token-reviews',
  ].map((point) => `${point} enforced`);
  let rows: readonly string[] = [];
  await until(
    async () => {
      rows = await rowsOf('reval.example');
      return rows.join() === all.join();
    },
    () => rows.join(', '),
  );
  assert.deepEqual(await rowsOf('bruges.example'), []);
});
