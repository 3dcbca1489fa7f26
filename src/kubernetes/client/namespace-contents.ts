// Lists what a namespace still contains, of all kinds that the API server serves, so that `hansa cluster leave`
// deletes a namespace only if nothing of a user is in it.

import { isRecord } from '../../core/json/is-record.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';

/** Kubernetes and OpenShift create these in each namespace. */
const ofKubernetes: ReadonlySet<string> = new Set([
  'serviceaccounts/default',
  'serviceaccounts/builder',
  'serviceaccounts/deployer',
  'configmaps/kube-root-ca.crt',
  'configmaps/openshift-service-ca.crt',
]);
/** They tell what happened, and go by themselves. */
const notCounted: ReadonlySet<string> = new Set(['events']);

/** Enough to show; the rest is not counted. */
const pageSize = 20;

/**
 * Names as `configmaps/settings`. A kind that cannot be listed counts as `KIND/?`: what is not known may be a
 * user's.
 */
export async function namespaceContents(
  kube: KubeClient,
  namespace: string,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const base of await groupPaths(kube)) {
    const plurals = await namespacedPlurals(kube, base);
    if (plurals === undefined) found.push(`${base}/?`);
    for (const plural of plurals ?? []) {
      const names = await namesIn(kube, `${base}${kubePath`/namespaces/${namespace}/${plural}`}`);
      found.push(...(names ?? ['?']).map((name) => `${plural}/${name}`));
    }
  }
  return [...new Set(found)].filter((name) => !ofKubernetes.has(name));
}

/** One version of each group. */
async function groupPaths(kube: KubeClient): Promise<readonly string[]> {
  const { groups } = (await json(kube, '/apis')) ?? {};
  const preferred = (Array.isArray(groups) ? groups : []).flatMap((group: unknown) => {
    const version = isRecord(group) ? group['preferredVersion'] : undefined;
    const name = isRecord(version) ? version['groupVersion'] : undefined;
    return typeof name === 'string' && /^[a-z0-9.-]+\/[a-z0-9]+$/.test(name)
      ? [`/apis/${name}`]
      : [];
  });
  return ['/api/v1', ...preferred];
}

/** Undefined where the group cannot be read, as one of an extension server that is down. */
async function namespacedPlurals(
  kube: KubeClient,
  base: string,
): Promise<readonly string[] | undefined> {
  const resources = (await json(kube, base))?.['resources'];
  if (!Array.isArray(resources)) return undefined;
  return resources.flatMap((resource: unknown) => {
    if (!isRecord(resource) || resource['namespaced'] !== true) return [];
    const { name, verbs } = resource;
    const canList = Array.isArray(verbs) && verbs.includes('list') && verbs.includes('delete');
    return typeof name === 'string' && canList && !notCounted.has(name) ? [name] : [];
  });
}

async function namesIn(kube: KubeClient, path: string): Promise<readonly string[] | undefined> {
  const list = await json(kube, path, { limit: String(pageSize) });
  // Go writes null for an empty list.
  const items = list && (list['items'] ?? []);
  if (!Array.isArray(items)) return undefined;
  return items.map((item: unknown) => {
    const metadata = isRecord(item) ? item['metadata'] : undefined;
    return isRecord(metadata) ? String(metadata['name']) : '?';
  });
}

async function json(
  kube: KubeClient,
  path: string,
  query: Readonly<Record<string, string>> = {},
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const { status, body } = await kube.request({ method: 'GET', path, query });
  // Discovery still lists a CRD for a moment after it was deleted.
  if (status === 404) return { resources: [], items: [] };
  if (status !== 200) return undefined;
  try {
    const value = parseBoundedJson(body);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
