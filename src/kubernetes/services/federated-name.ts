// Reads from annotations which federated Service a Service or NativeService belongs to.

import { excerpt } from '../../api/values/trust-domain.ts';
import { memberAnnotations, mirrorLabel } from '../names.ts';
import type { ObjectMeta } from '../objects.ts';

/**
 * A federated Service. Its copies have this namespace and name. An exported one has ServiceImports in place of
 * copies (KEP-1645).
 */
export interface FederatedRef {
  readonly scope: 'global' | 'namespaced' | 'exported';
  readonly namespace: string;
  readonly name: string;
}

/** One that annotations name. */
export interface AnnotatedRef extends FederatedRef {
  readonly scope: 'global' | 'namespaced';
}

export interface NameProblem {
  readonly reason: 'ConflictingAnnotations' | 'IllegalName' | 'MirrorService' | 'SystemNamespace';
  readonly message: string;
}

/** At the end of the key of an exported Service. No name of a Service has a dot. */
const exportedSuffix = '.clusterset';

/**
 * Identifies a federated Service. A global one has `*` for its namespace, which is no legal namespace. An exported
 * one has NAME.clusterset for its name, as in its DNS name.
 */
export function keyOfRef({ scope, namespace, name }: FederatedRef): string {
  if (scope === 'exported') return `${namespace}/${name}${exportedSuffix}`;
  return `${scope === 'global' ? '*' : namespace}/${name}`;
}

/** Undefined for keys that `keyOfRef` does not produce. */
export function refOfKey(key: string, systemNamespace: string): FederatedRef | undefined {
  const slash = key.indexOf('/');
  const namespace = key.slice(0, Math.max(slash, 0));
  const name = key.slice(slash + 1);
  if (namespace !== '' && name.endsWith(exportedSuffix)) {
    const own = name.slice(0, -exportedSuffix.length);
    return own === '' ? undefined : { scope: 'exported', namespace, name: own };
  }
  if (namespace === '' || !isServiceName(name)) return undefined;
  return namespace === '*'
    ? { scope: 'global', namespace: systemNamespace, name }
    : { scope: 'namespaced', namespace, name };
}

/** The key of the federated Service whose copy has this namespace and name. */
export function keyOfCopy(namespace: string, name: string, systemNamespace: string): string {
  return `${namespace === systemNamespace ? '*' : namespace}/${name}`;
}

/** Names of Services, which are DNS labels of RFC 1035 in every version of Kubernetes. */
const serviceName = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;

export function isServiceName(text: string): boolean {
  return serviceName.test(text);
}

/** Undefined for what has no such annotation. */
export function federatedRefOf(
  { annotations = {}, labels = {}, namespace = '' }: ObjectMeta,
  systemNamespace: string,
): AnnotatedRef | NameProblem | undefined {
  const found = (['global', 'namespaced'] as const).flatMap((scope) =>
    memberAnnotations[scope].flatMap((key) => {
      const name = annotations[key];
      return name === undefined ? [] : [{ scope, key, name }];
    }),
  );
  const [first, ...others] = found;
  if (first === undefined) return undefined;
  if (labels[mirrorLabel] !== undefined) {
    const message = `Linkerd made this Service for one of another cluster, and copied the annotation ${first.key}. Only the original is a member.`;
    return { reason: 'MirrorService', message };
  }
  const other = others.find(({ scope, name }) => scope !== first.scope || name !== first.name);
  if (other !== undefined) {
    const message = `The annotations ${first.key} and ${other.key} contradict each other. Remove one of them.`;
    return { reason: 'ConflictingAnnotations', message };
  }
  const { scope, key, name } = first;
  if (!isServiceName(name)) {
    const message = `The annotation ${key} has the value ${JSON.stringify(excerpt(name))}, which cannot be the name of a Service. Use at most 63 lower-case letters, digits and hyphens, with a letter first.`;
    return { reason: 'IllegalName', message };
  }
  if (scope === 'namespaced' && namespace === systemNamespace) {
    const message = `The namespace ${systemNamespace} holds the copies of global federated Services. Use another namespace, or an annotation for global ones.`;
    return { reason: 'SystemNamespace', message };
  }
  return { scope, name, namespace: scope === 'global' ? systemNamespace : namespace };
}

export function isRef(
  value: AnnotatedRef | { readonly reason: string } | undefined,
): value is AnnotatedRef {
  return value !== undefined && 'scope' in value;
}
