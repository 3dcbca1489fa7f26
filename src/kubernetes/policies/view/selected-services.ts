// Whether the to or from of a policy selects a federated Service. Pods, nodes and ServiceAccounts are known in their
// own cluster only, so a federated policy that selects nothing else has no effect on traffic between clusters, and
// its users are warned. Pure, total and deterministic.

import {
  type LabelSelectorObject,
  labelSelectorText,
  parseLabelSelector,
} from '../../../api/selectors/label-selector.ts';
import { HansaError } from '../../../core/errors/error.ts';
import { isRecord, type JsonRecord } from '../../../core/json/is-record.ts';
import type { AddressSet } from './address-set.ts';
import type { PolicyKind } from '../policy-kinds.ts';

/** What policies can select of federated Services. */
export interface SelectableServices {
  /** Whether a federated Service has copies with this namespace and name. */
  has(namespace: string, name: string): boolean;
  /** Of the endpoints of all copies. */
  readonly addresses: AddressSet;
  /** The DNS names that lead to federated Services, in lower case. */
  readonly hostnames: readonly string[];
  /** The ExternalEntities of copies. None where no cluster serves that kind. */
  readonly entities: readonly {
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
  }[];
}

export interface SelectionInput {
  readonly kind: Pick<PolicyKind, 'group' | 'plural'>;
  /** Of the policy; empty for one of the whole cluster. */
  readonly namespace: string;
  readonly spec: unknown;
  readonly services: SelectableServices;
  /** The spec of a Group of Antrea, or of a ClusterGroup where the namespace is empty. Undefined: not known. */
  readonly groupOf: (namespace: string, name: string) => JsonRecord | undefined;
}

export interface Selection {
  /** Unknown: it cannot be told, so nobody is warned. */
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: 'Selected' | 'NoPeers' | 'AllPeers' | 'OnlyLocalPeers' | 'UnknownPeers';
  readonly message: string;
}

type Verdict = 'yes' | 'no' | 'unknown';

type JudgePeer = (peer: JsonRecord, input: SelectionInput) => Verdict;

/** The kinds whose rules can be read. */
const forms: ReadonlyMap<string, JudgePeer> = new Map<string, JudgePeer>([
  ['networkpolicies.networking.k8s.io', judgeKubernetesPeer],
  ['networkpolicies.crd.antrea.io', judgeAntreaPeer],
  ['clusternetworkpolicies.crd.antrea.io', judgeAntreaPeer],
  ['adminnetworkpolicies.policy.networking.k8s.io', judgeAdminPeer],
  ['baselineadminnetworkpolicies.policy.networking.k8s.io', judgeAdminPeer],
]);

const outcomes: Readonly<Record<Selection['reason'], Selection>> = {
  Selected: {
    status: 'True',
    reason: 'Selected',
    message: 'A rule selects a federated Service.',
  },
  NoPeers: {
    status: 'True',
    reason: 'NoPeers',
    message: 'It has no rules, so it holds for traffic from and to everywhere.',
  },
  AllPeers: {
    status: 'True',
    reason: 'AllPeers',
    message: 'A rule holds for traffic from or to everywhere.',
  },
  OnlyLocalPeers: {
    status: 'False',
    reason: 'OnlyLocalPeers',
    message:
      'No rule selects a federated Service. Pods and nodes are known in their own cluster only, so the policy has no effect on traffic between clusters. Select federated Services by the addresses of their endpoints, or with Antrea by toServices or by the labels of their ExternalEntities.',
  },
  UnknownPeers: {
    status: 'Unknown',
    reason: 'UnknownPeers',
    message: 'It cannot be told whether a rule selects a federated Service.',
  },
};

export function selectedServices(input: SelectionInput): Selection {
  const { group, plural } = input.kind;
  const judgePeer = forms.get(`${plural}.${group}`);
  if (judgePeer === undefined || !isRecord(input.spec)) return outcomes.UnknownPeers;
  const rules = [
    ...records(input.spec['ingress']).map((rule) => ({ peers: rule['from'], services: undefined })),
    ...records(input.spec['egress']).map((rule) => ({
      peers: rule['to'],
      services: rule['toServices'],
    })),
  ];
  if (rules.length === 0) return outcomes.NoPeers;
  let isUnknown = false;
  for (const { peers, services } of rules) {
    const all = [
      ...records(peers).map((peer) => () => judgePeer(peer, input)),
      ...records(services).map((service) => () => judgeService(service, input)),
    ];
    // The first one decides: there can be thousands, and each costs a look at all federated Services.
    for (const judge of all) {
      const verdict = judge();
      if (verdict === 'yes') return outcomes.Selected;
      isUnknown ||= verdict === 'unknown';
    }
    if (all.length === 0) return outcomes.AllPeers;
  }
  return isUnknown ? outcomes.UnknownPeers : outcomes.OnlyLocalPeers;
}

const records = (value: unknown): readonly JsonRecord[] =>
  Array.isArray(value) ? value.filter(isRecord) : [];

const texts = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : [];

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

const isIn = (isSelected: boolean): Verdict => (isSelected ? 'yes' : 'no');

function judgeKubernetesPeer({ ipBlock }: JsonRecord, { services }: SelectionInput): Verdict {
  return isIn(isRecord(ipBlock) && hasIn(ipBlock, services));
}

const hasIn = (block: JsonRecord, { addresses }: SelectableServices): boolean =>
  addresses.hasIn(text(block['cidr']), texts(block['except']));

/** Peers of AdminNetworkPolicy (policy.networking.k8s.io/v1alpha1). Only egress has addresses and names. */
function judgeAdminPeer(
  { networks, domainNames }: JsonRecord,
  { services }: SelectionInput,
): Verdict {
  return isIn(
    texts(networks).some((cidr) => services.addresses.hasIn(cidr)) ||
      texts(domainNames).some((pattern) => hasName(pattern, services)),
  );
}

/** Names as in Antrea: `*` stands for any characters. */
function hasName(pattern: string, { hostnames }: SelectableServices): boolean {
  const parts = pattern.toLowerCase().replace(/\.$/, '').split('*');
  return hostnames.some((name) => hasParts(name, parts));
}

/** Whether a name begins with the first part, ends with the last, and has the others in between. */
function hasParts(name: string, parts: readonly string[]): boolean {
  const [first = '', ...rest] = parts;
  const last = rest.pop();
  if (last === undefined) return name === first;
  if (!name.startsWith(first) || name.length < first.length + last.length) return false;
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - at >= last.length && name.endsWith(last);
}

/** NetworkPolicyPeer of Antrea (crd.antrea.io/v1beta1). */
function judgeAntreaPeer(peer: JsonRecord, input: SelectionInput): Verdict {
  const { ipBlock, group, fqdn, externalEntitySelector } = peer;
  const { services, namespace } = input;
  if (isRecord(ipBlock)) return isIn(hasIn(ipBlock, services));
  if (text(fqdn) !== '') return isIn(hasName(text(fqdn), services));
  if (text(group) !== '') return judgeGroup(text(group), input, isNested);
  if (!isRecord(externalEntitySelector)) return 'no';
  // These are the namespaces of the pods that the policy applies to, which a site does not read.
  const isOpen = isRecord(peer['namespaces']);
  const found = judgeEntities(externalEntitySelector, peer['namespaceSelector'], namespace, input);
  return isOpen && found === 'yes' ? 'unknown' : found;
}

/** A group with other groups cannot be in a third one. */
const isNested = 1;

function judgeGroup(name: string, input: SelectionInput, depth: number): Verdict {
  const spec = input.groupOf(input.namespace, name);
  if (spec === undefined) return 'unknown';
  const { services } = input;
  if (records(spec['ipBlocks']).some((block) => hasIn(block, services))) return 'yes';
  // It stands for the pods that the selector of a Service selects. Copies have no selector.
  if (isRecord(spec['serviceReference'])) return 'no';
  if (isRecord(spec['externalEntitySelector'])) {
    const { externalEntitySelector, namespaceSelector } = spec;
    return judgeEntities(externalEntitySelector, namespaceSelector, input.namespace, input);
  }
  const children = depth > 0 ? texts(spec['childGroups']) : [];
  const verdicts = children.map((child) => judgeGroup(child, input, depth - 1));
  if (verdicts.includes('yes')) return 'yes';
  return verdicts.includes('unknown') ? 'unknown' : 'no';
}

/** Without a selector for namespaces, they are those of `namespace`, or of all where that is empty. */
function judgeEntities(
  selector: JsonRecord,
  namespaceSelector: unknown,
  namespace: string,
  { services }: SelectionInput,
): Verdict {
  const matches = matcherOf(selector);
  if (matches === undefined) return 'no';
  const found = services.entities.filter(({ labels }) => matches(labels));
  if (!isRecord(namespaceSelector)) {
    return isIn(found.some((entity) => namespace === '' || entity.namespace === namespace));
  }
  const inNamespace = matcherOf(namespaceSelector);
  if (found.length === 0 || inNamespace === undefined) return 'no';
  const isSelected = found.some((entity) => inNamespace({ [nameLabel]: entity.namespace }));
  // Of a namespace, only its name is read.
  return keysOf(namespaceSelector).every((key) => key === nameLabel) ? isIn(isSelected) : 'unknown';
}

/** Kubernetes sets it on each namespace. */
const nameLabel = 'kubernetes.io/metadata.name';

const keysOf = ({ matchLabels, matchExpressions }: JsonRecord): readonly string[] => [
  ...Object.keys(isRecord(matchLabels) ? matchLabels : {}),
  ...records(matchExpressions).map(({ key }) => text(key)),
];

const operators: ReadonlySet<unknown> = new Set(['In', 'NotIn', 'Exists', 'DoesNotExist']);

/** Undefined for one that is not legal, which selects nothing. */
function matcherOf(
  selector: JsonRecord,
): ((labels: Readonly<Record<string, string>>) => boolean) | undefined {
  const { matchLabels, matchExpressions } = selector;
  if (!records(matchExpressions).every(({ operator }) => operators.has(operator))) return undefined;
  const read: LabelSelectorObject = {
    matchLabels: Object.fromEntries(
      Object.entries(isRecord(matchLabels) ? matchLabels : {}).map(([key, value]) => [
        key,
        text(value),
      ]),
    ),
    matchExpressions: records(matchExpressions).map(({ key, operator, values }) => ({
      key: text(key),
      operator: text(operator) as 'In',
      values: texts(values),
    })),
  };
  try {
    const parsed = parseLabelSelector(labelSelectorText(read));
    return (labels) => parsed.matches(labels);
  } catch (error) {
    if (error instanceof HansaError) return undefined;
    throw error;
  }
}

/** The ClusterIP of a copy. With the scope ClusterSet, Antrea means a Service that it imported itself. */
function judgeService(service: JsonRecord, { namespace, services }: SelectionInput): Verdict {
  const prefix = service['scope'] === 'ClusterSet' ? 'antrea-mc-' : '';
  const own = text(service['namespace']) || namespace;
  return isIn(services.has(own, `${prefix}${text(service['name'])}`));
}
