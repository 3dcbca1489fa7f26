// The kinds of policies that are federated, as the setting kubernetes.policyKinds lists them. Pure.

import { ValueProblem } from '../../core/config/config-values.ts';
import { kubePath } from '../../core/kube/kube-path.ts';

export interface PolicyKind {
  readonly group: string;
  readonly version: string;
  /** The resource, such as networkpolicies. */
  readonly plural: string;
  readonly kind: string;
  readonly isNamespaced: boolean;
}

export const defaultPolicyKinds = [
  'networking.k8s.io/v1/networkpolicies/NetworkPolicy',
  'crd.antrea.io/v1beta1/networkpolicies/NetworkPolicy',
  'crd.antrea.io/v1beta1/clusternetworkpolicies/ClusterNetworkPolicy:cluster',
  'policy.networking.k8s.io/v1alpha1/adminnetworkpolicies/AdminNetworkPolicy:cluster',
].join(',');

/** Each kind is a reflector for each member. */
const mostKinds = 16;

const label = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
/** A group has a dot: the core group, with Secrets and Pods, has no policies. */
const form = new RegExp(
  `^(${label}(?:\\.${label})+)/(v[1-9][0-9]*(?:(?:alpha|beta)[1-9][0-9]*)?)/(${label})/([A-Z][A-Za-z0-9]{0,62})(?::(namespaced|cluster))?$`,
);

/**
 * Groups whose objects grant rights or run code. A site that may write them could give itself any right, so no
 * setting makes them policies.
 */
const refusedGroups: ReadonlySet<string> = new Set([
  'rbac.authorization.k8s.io',
  'admissionregistration.k8s.io',
  'apiextensions.k8s.io',
  'apiregistration.k8s.io',
  'certificates.k8s.io',
  'clusters.hansa.dev',
]);

/** Comma-separated entries; none at all turns federated policies off. */
export function parsePolicyKinds(text: string): readonly PolicyKind[] {
  const entries = text.split(',').map((entry) => entry.trim());
  const kinds = entries.filter((entry) => entry !== '').map(parseKind);
  if (kinds.length > mostKinds) throw new ValueProblem(`at most ${mostKinds} kinds`);
  const ids = new Set(kinds.map(idOfKind));
  if (ids.size < kinds.length) throw new ValueProblem('each resource once, in one version');
  return kinds;
}

function parseKind(entry: string): PolicyKind {
  const [, group, version, plural, kind, scope = 'namespaced'] = form.exec(entry) ?? [];
  if (group === undefined || version === undefined || plural === undefined || kind === undefined) {
    throw new ValueProblem(
      'a list of GROUP/VERSION/RESOURCE/KIND, with :cluster for kinds without a namespace, for example networking.k8s.io/v1/networkpolicies/NetworkPolicy',
    );
  }
  if (refusedGroups.has(group)) throw new ValueProblem(`kinds of other groups than ${group}`);
  return { group, version, plural, kind, isNamespaced: scope === 'namespaced' };
}

/** RESOURCE.GROUP, which is also the name of its CRD. */
export const idOfKind = ({ group, plural }: Pick<PolicyKind, 'group' | 'plural'>): string =>
  `${plural}.${group}`;

/** As an entry of the setting. */
export const textOfKind = ({ group, version, plural, kind, isNamespaced }: PolicyKind): string =>
  `${group}/${version}/${plural}/${kind}${isNamespaced ? '' : ':cluster'}`;

export const apiVersionOf = ({ group, version }: PolicyKind): string => `${group}/${version}`;

/** The collection in the whole cluster. */
export const allOfKind = ({ group, version, plural }: PolicyKind): string =>
  kubePath`/apis/${group}/${version}/${plural}`;

/** The collection that holds objects of this namespace. */
export function collectionOf(kind: PolicyKind, namespace: string): string {
  const { group, version, plural, isNamespaced } = kind;
  return isNamespaced
    ? kubePath`/apis/${group}/${version}/namespaces/${namespace}/${plural}`
    : allOfKind(kind);
}

export const pathOfPolicy = (kind: PolicyKind, namespace: string, name: string): string =>
  `${collectionOf(kind, namespace)}${kubePath`/${name}`}`;
