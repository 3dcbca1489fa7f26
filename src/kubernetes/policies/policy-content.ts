// The content of a policy: what a user writes, without what a cluster or the tools of a cluster add. Its hash
// names a version. Pure.

import { createHash } from 'node:crypto';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import { manager, policyAnnotations } from '../names.ts';

export interface PolicyContent {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** All other fields, such as spec. */
  readonly fields: JsonRecord;
}

/** Of the canonical JSON. An object has at most about 1.5 MiB in etcd. */
export const maxContentBytes = 512 * 1024;

/**
 * Tools keep books on the objects that they manage in one cluster. In another cluster, the same tool would take
 * the policy for its own, and delete it because it is not in its books.
 */
const bookkeepingDomains: ReadonlySet<string> = new Set([
  'kubectl.kubernetes.io',
  'meta.helm.sh',
  'argocd.argoproj.io',
  'kustomize.toolkit.fluxcd.io',
  'helm.toolkit.fluxcd.io',
  'reconcile.fluxcd.io',
  'kapp.k14s.io',
  'objectset.rio.cattle.io',
  'fleet.cattle.io',
  'config.kubernetes.io',
  'config.k8s.io',
  'internal.config.kubernetes.io',
  'velero.io',
]);
const bookkeepingKeys: ReadonlySet<string> = new Set([
  'app.kubernetes.io/managed-by',
  'deprecated.daemonset.template.generation',
]);

const federated: ReadonlySet<string> = new Set(policyAnnotations);

/** Whether a label or annotation belongs to the object in one cluster, and not to the version. */
export function isOfCluster(key: string): boolean {
  const slash = key.indexOf('/');
  const domain = slash < 0 ? '' : key.slice(0, slash);
  return (
    federated.has(key) ||
    domain === manager ||
    bookkeepingDomains.has(domain) ||
    bookkeepingKeys.has(key)
  );
}

/** Whether an annotation says that the policy is federated. */
export function isFederated(annotations: JsonRecord): boolean {
  return policyAnnotations.some((key) => annotations[key] === 'true');
}

/** Of an object as a cluster sends it. */
export function contentOf(object: JsonRecord): PolicyContent {
  const { apiVersion: _apiVersion, kind: _kind, metadata, status: _status, ...fields } = object;
  const meta = isRecord(metadata) ? metadata : {};
  return { labels: ofVersion(meta['labels']), annotations: ofVersion(meta['annotations']), fields };
}

function ofVersion(value: unknown): Readonly<Record<string, string>> {
  return picked(value, (key) => !isOfCluster(key));
}

/** Labels or annotations that stay with the object in its cluster. */
export function ofCluster(value: unknown): Readonly<Record<string, string>> {
  return picked(value, isOfCluster);
}

function picked(
  value: unknown,
  isWanted: (key: string) => boolean,
): Readonly<Record<string, string>> {
  const pairs = Object.entries(isRecord(value) ? value : {}).filter(
    (pair): pair is [string, string] => typeof pair[1] === 'string' && isWanted(pair[0]),
  );
  return Object.fromEntries(pairs);
}

/** Undefined where it is too large to be federated. */
export function hashOfContent(content: PolicyContent): string | undefined {
  const text = canonicalJson(content);
  return Buffer.byteLength(text) > maxContentBytes
    ? undefined
    : createHash('sha256').update(text).digest('hex');
}

/** Fields in the order of their names. The value is JSON that was parsed with a limit of its depth. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isRecord(value)) return JSON.stringify(value ?? null);
  const parts = Object.keys(value)
    .toSorted()
    .filter((key) => value[key] !== undefined)
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`);
  return `{${parts.join(',')}}`;
}
