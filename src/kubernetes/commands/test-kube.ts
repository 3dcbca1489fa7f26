// Test fixture: an HTTPS server that keeps Kubernetes objects by path, as far as commands need it. Interop tests
// use a real API server.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { serve, testCa } from '../../core/kube/test-api-server.ts';

export interface StoredObject {
  apiVersion?: string;
  kind?: string;
  metadata: {
    name: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  spec?: Record<string, unknown>;
  [field: string]: unknown;
}

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: StoredObject | undefined;
  readonly isDryRun: boolean;
  /** A merge patch, not an apply. */
  readonly isMerge: boolean;
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export interface TestKube {
  readonly server: string;
  /** A kubeconfig with one context, `it`. */
  readonly kubeconfig: object;
  /** By path. */
  readonly objects: Map<string, StoredObject>;
  readonly calls: Call[];
  /** Puts an object there as a user does. */
  put(path: string, object: Partial<StoredObject>): void;
}

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
export const issuer = 'https://kubernetes.default.svc';
const tokenOf = (namespace: string, name: string): string =>
  `${part({ alg: 'RS256' })}.${part({ iss: issuer, aud: [issuer], exp: 4_000_000_000, sub: `system:serviceaccount:${namespace}:${name}` })}.c2ln`;
export const accountToken = tokenOf('hansa-system', 'hansa');

export const failure = (code: number, reason: string, message: string): Answer => ({
  status: code,
  body: { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message },
});

const ours = '/apis/clusters.hansa.dev/';
const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/';
const version = 'clusters.hansa.dev/v1alpha1';

/** `answer` says what the server does otherwise. */
export async function startKube(
  answer: (call: Call) => Answer | undefined = () => undefined,
): Promise<TestKube> {
  const objects = new Map<string, StoredObject>();
  const calls: Call[] = [];
  const server = await serve((request, response) => void handle(request, response));
  let revision = 1;
  const store = (path: string, object: StoredObject): StoredObject => {
    const known = objects.get(path);
    const stored = {
      ...object,
      metadata: {
        uid: known?.metadata.uid ?? `uid-${revision}`,
        ...object.metadata,
        resourceVersion: String(++revision),
      },
      ...(path.startsWith(crds) && {
        status: { conditions: [{ type: 'Established', status: 'True' }] },
      }),
    };
    objects.set(path, stored);
    return stored;
  };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const url = new URL(request.url ?? '', 'https://localhost');
    const call: Call = {
      method: request.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      body: text === '' ? undefined : (JSON.parse(text) as StoredObject),
      isDryRun: url.searchParams.get('dryRun') === 'All',
      isMerge: request.headers['content-type'] === 'application/merge-patch+json',
    };
    calls.push(call);
    const { status, body } = answer(call) ?? respond(objects, store, call);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  const href = server.endpoint.server.href.replace(/\/$/, '');
  const cluster = {
    server: href,
    'certificate-authority-data': Buffer.from(testCa).toString('base64'),
  };
  return {
    server: href,
    objects,
    calls,
    put: (path, object) => {
      const name = path.slice(path.lastIndexOf('/') + 1);
      const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
      const metadata = { name, ...(namespace && { namespace }), ...object.metadata };
      store(path, { apiVersion: 'v1', kind: 'Thing', ...object, metadata });
    },
    kubeconfig: {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: { token: 'admin-token' } }],
      contexts: [{ name: 'it', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'it',
    },
  };
}

type Objects = Map<string, StoredObject>;
type Store = (path: string, object: StoredObject) => StoredObject;

function respond(objects: Objects, store: Store, call: Call): Answer {
  const { method, path, body, isDryRun } = call;
  const missing = failure(404, 'NotFound', 'not found');
  if (path.startsWith(ours) && !hasCrd(objects, path)) return missing;
  const namespace = /\/namespaces\/([^/]+)\/[^/]+/.exec(path)?.[1];
  const hasNamespace = namespace === undefined || objects.has(`/api/v1/namespaces/${namespace}`);
  const ok = (value: unknown): Answer => ({ status: 200, body: value });
  switch (method) {
    case 'GET':
      return read(objects, call) ?? missing;
    case 'PATCH': {
      if (!hasNamespace || body === undefined) return missing;
      if (isDryRun) return ok(body);
      const merged = call.isMerge ? mergedMetadata(objects.get(path), body) : body;
      if (!path.endsWith('/status'))
        return merged === undefined ? missing : ok(store(path, merged));
      const whole = path.slice(0, -'/status'.length);
      const known = objects.get(whole);
      return known === undefined ? missing : ok(store(whole, { ...known, status: body['status'] }));
    }
    case 'POST': {
      if (path.endsWith('/token')) {
        const account = body?.metadata;
        const token = tokenOf(account?.namespace ?? '', account?.name ?? '');
        return ok({ ...body, status: { token } });
      }
      const place = `${path}/${String(body?.metadata.name)}`;
      if (objects.has(place)) return failure(409, 'AlreadyExists', 'it exists');
      return ok(store(place, body as StoredObject));
    }
    case 'PUT': {
      const known = objects.get(path);
      if (known === undefined || body === undefined) return missing;
      if (known.metadata.resourceVersion !== body.metadata.resourceVersion) {
        return failure(409, 'Conflict', 'the object has been modified');
      }
      return ok(store(path, body));
    }
    default:
      return remove(objects, call) ?? missing;
  }
}

/** Commands patch only labels and annotations; null removes one. */
function mergedMetadata(
  known: StoredObject | undefined,
  { metadata }: StoredObject,
): StoredObject | undefined {
  if (known === undefined) return undefined;
  const merged = (field: 'labels' | 'annotations'): Record<string, string> =>
    Object.fromEntries(
      Object.entries({ ...known.metadata[field], ...metadata[field] }).filter(
        ([, value]) => value !== null,
      ),
    );
  return {
    ...known,
    metadata: { ...known.metadata, labels: merged('labels'), annotations: merged('annotations') },
  };
}

function hasCrd(objects: Objects, path: string): boolean {
  const plural = path.slice(`/apis/${version}/`.length).replace(/^namespaces\/[^/]+\//, '');
  const [collection = ''] = plural.split('/');
  return objects.has(`${crds}${collection}.clusters.hansa.dev`);
}

function read(objects: Objects, { path, query }: Call): Answer | undefined {
  const found = objects.get(path);
  if (found !== undefined) return { status: 200, body: found };
  const known = discovery[path];
  if (known !== undefined) return { status: 200, body: known };
  if (!path.endsWith('s')) return undefined;
  const items = [...objects]
    .filter(([place]) => {
      const collection = place.slice(0, place.lastIndexOf('/'));
      return collection === path || collection.replace(/\/namespaces\/[^/]+\//, '/') === path;
    })
    .map(([, object]) => object)
    .filter(({ metadata }) => isSelected(metadata.labels, query.get('labelSelector')));
  const [, plural = ''] = /\/([^/]+)$/.exec(path) ?? [];
  const list = { apiVersion: 'v1', kind: `${kinds[plural] ?? 'Thing'}List`, metadata: {}, items };
  return { status: 200, body: list };
}

const kinds: Readonly<Record<string, string>> = {
  clusterrolebindings: 'ClusterRoleBinding',
  clusterroles: 'ClusterRole',
  rolebindings: 'RoleBinding',
  roles: 'Role',
  serviceaccounts: 'ServiceAccount',
  services: 'Service',
};

function isSelected(labels: Record<string, string> | undefined, selector: string | null): boolean {
  return (selector ?? '')
    .split(',')
    .filter((each) => each !== '')
    .every((each) => {
      const [key = '', value] = each.split('=');
      return labels?.[key] === value;
    });
}

function remove(objects: Objects, { path, body }: Call): Answer | undefined {
  const known = objects.get(path);
  if (known === undefined) return undefined;
  const { preconditions } = (body ?? {}) as { preconditions?: { resourceVersion?: string } };
  const wanted = preconditions?.resourceVersion;
  if (wanted !== undefined && wanted !== known.metadata.resourceVersion) {
    return failure(409, 'Conflict', 'the object has been modified');
  }
  objects.delete(path);
  if (path.startsWith(crds)) {
    const [plural = ''] = known.metadata.name.split('.');
    for (const place of objects.keys()) {
      if (place.startsWith(ours) && place.includes(`/${plural}/`)) objects.delete(place);
    }
  }
  return {
    status: 200,
    body: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' },
  };
}

const resource = (name: string): object => ({ name, namespaced: true, verbs: ['list', 'delete'] });
const discovery: Readonly<Record<string, unknown>> = {
  '/apis': {
    groups: [
      { preferredVersion: { groupVersion: 'rbac.authorization.k8s.io/v1' } },
      { preferredVersion: { groupVersion: 'coordination.k8s.io/v1' } },
    ],
  },
  '/api/v1': {
    resources: ['configmaps', 'events', 'secrets', 'serviceaccounts', 'services'].map(resource),
  },
  '/apis/rbac.authorization.k8s.io/v1': { resources: ['roles', 'rolebindings'].map(resource) },
  '/apis/coordination.k8s.io/v1': { resources: [resource('leases')] },
  '/apis/admissionregistration.k8s.io/v1': { resources: [{ name: 'validatingadmissionpolicies' }] },
  '/.well-known/openid-configuration': { issuer },
};
