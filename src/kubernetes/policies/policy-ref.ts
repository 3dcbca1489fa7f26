// Names a federated policy: its kind, namespace and name, which are the same in all members. Pure.

import { createHash } from 'node:crypto';
import { idOfKind, type PolicyKind } from './policy-kinds.ts';

export interface PolicyRef {
  readonly group: string;
  /** The resource, such as networkpolicies. */
  readonly plural: string;
  /** Empty for a policy of the whole cluster. */
  readonly namespace: string;
  readonly name: string;
}

export const refOf = (
  { group, plural }: PolicyKind,
  { namespace = '', name }: { readonly namespace?: string; readonly name: string },
): PolicyRef => ({ group, plural, namespace, name });

/** RESOURCE.GROUP/NAMESPACE/NAME. None of the parts contains a slash. */
export const keyOfPolicy = (ref: PolicyRef): string =>
  `${idOfKind(ref)}/${ref.namespace}/${ref.name}`;

/** Undefined for a key of another form. */
export function policyOfKey(key: string): PolicyRef | undefined {
  const [, plural, group, namespace = '', name] =
    /^([^./]+)\.([^/]+)\/([^/]*)\/([^/]+)$/.exec(key) ?? [];
  return plural === undefined || group === undefined || name === undefined
    ? undefined
    : { group, plural, namespace, name };
}

/** In the caches of reflectors. */
export const cacheKeyOf = ({ namespace, name }: PolicyRef): string =>
  namespace === '' ? name : `${namespace}/${name}`;

/** Names of policies have up to 253 characters, and a record needs a name of its own for each kind and namespace. */
export function recordNameOf(ref: PolicyRef): string {
  return `policy-${createHash('sha256').update(keyOfPolicy(ref)).digest('hex').slice(0, 40)}`;
}
