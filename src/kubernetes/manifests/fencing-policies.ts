// Admission policies that fence the writes of sites: a leader of an old term can change nothing, a site changes
// only its copies, and only sites write epochs. Pure.

import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { externalEntityKind } from '../entities/compile-external-entities.ts';
import { mcsGroup } from '../mcs/mcs-objects.ts';
import {
  copyAnnotation,
  deletingAnnotation,
  epochAnnotation,
  epochFloorAnnotation,
  leaseName,
  importAnnotation,
  importManager,
  managedByLabel,
  manager,
  namesSinceAnnotation,
  originKey,
  ownConditions,
  sinceAnnotation,
  vmAnnotation,
  vmManager,
} from '../names.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import {
  annotationOf,
  epochIn,
  epochOfManager,
  isPrincipal,
  listedUsers,
  type Policy,
  type PolicyRule,
  policyManifests,
  text,
} from './policy.ts';
import { replicaPolicies, replicaRules } from './replica-policies.ts';
import { notOfSpireServices } from './spire-exemptions.ts';

export interface FencingOptions {
  /** The system namespace. */
  readonly namespace: string;
  /** The user names of sites. */
  readonly users: readonly string[];
  /** The kinds of policies that are federated. */
  readonly policyKinds: readonly PolicyKind[];
}

/** The policy that carries the list of further principals. */
export const fencingPolicyName = 'hansa-league-copies';

/** On that policy: a JSON list of the user names that it lists. */
const principalsAnnotation = 'clusters.hansa.dev/principals';

/** The further principals of the policy in a cluster, which a site that joins must keep. */
export function principalsIn(policy: unknown): readonly string[] {
  const { metadata } = (policy ?? {}) as {
    readonly metadata?: { readonly annotations?: Readonly<Record<string, unknown>> | null } | null;
  };
  const list = metadata?.annotations?.[principalsAnnotation];
  try {
    const users: unknown = typeof list === 'string' ? JSON.parse(list) : [];
    return Array.isArray(users) ? users.filter((user) => typeof user === 'string') : [];
  } catch {
    return [];
  }
}

export function fencingPolicies({
  namespace,
  users,
  policyKinds,
}: FencingOptions): readonly Manifest[] {
  const site = isPrincipal(namespace, users);
  const listed = listedUsers(namespace, users);
  return [
    {
      ...copies(site),
      ...(listed.length > 0 && { annotations: { [principalsAnnotation]: JSON.stringify(listed) } }),
    },
    copiedServices(site),
    serviceStatus(site),
    terms(site, namespace, replicaRules(policyKinds)),
    lease(site),
    marksOfOthers(site),
    ...replicaPolicies(site, policyKinds),
  ].flatMap(policyManifests);
}

const slices = { group: 'discovery.k8s.io', version: 'v1', resources: ['endpointslices'] } as const;
const services = { group: '', version: 'v1' } as const;
/** In all versions that a cluster serves. A cluster need not serve them. */
const imports = { group: mcsGroup, version: '*', resources: ['serviceimports'] } as const;
/** Of Antrea. */
const entities = {
  group: externalEntityKind.group,
  version: '*',
  resources: [externalEntityKind.plural],
} as const;
const leader: Omit<PolicyRule, 'operations'> = {
  group: 'coordination.k8s.io',
  version: 'v1',
  resources: ['leases'],
  names: [leaseName],
};

const epochs = {
  epoch: epochIn('object', epochAnnotation),
  oldEpoch: epochIn('oldObject', epochAnnotation),
};

/**
 * Others cannot write the epoch annotation, so an object with an epoch is ours, even if a user took our label
 * away. A deletion needs a mark of the same epoch: a leader of an old term cannot write one.
 */
const copies = (site: string): Policy => ({
  name: fencingPolicyName,
  failurePolicy: 'Fail',
  rules: [
    { ...services, resources: ['services'], operations: ['CREATE', 'UPDATE', 'DELETE'] },
    { ...slices, operations: ['CREATE', 'UPDATE', 'DELETE'] },
    { ...imports, operations: ['CREATE', 'UPDATE', 'DELETE'] },
    { ...entities, operations: ['CREATE', 'UPDATE', 'DELETE'] },
  ],
  conditions: { site, 'not-of-spire': notOfSpireServices },
  variables: {
    ...epochs,
    deleting: epochIn('oldObject', deletingAnnotation),
  },
  validations: [
    {
      expression: "request.operation == 'DELETE' || variables.epoch > 0",
      message: `a write of a Hansa site needs the epoch of its term in the annotation ${epochAnnotation}`,
    },
    {
      expression: "request.operation == 'CREATE' || variables.oldEpoch > 0",
      message: 'a Hansa site may change only copies that a Hansa site created',
    },
    {
      expression: "request.operation != 'UPDATE' || variables.epoch >= variables.oldEpoch",
      message: 'another leader has taken over: the object has a newer epoch',
      messageExpression:
        "'another leader has taken over: the object has epoch ' + string(variables.oldEpoch) + ', and this write has epoch ' + string(variables.epoch)",
    },
    {
      expression: [
        "request.operation != 'CREATE'",
        `(object.metadata.?labels[?${text(managedByLabel)}].orValue('') == ${text(manager)} && ${annotationOf('object', copyAnnotation)}.orValue(${annotationOf('object', originKey)}.orValue('')) != '')`,
        `(object.metadata.?labels[?${text(managedByLabel)}].orValue('') == ${text(vmManager)} && ${annotationOf('object', vmAnnotation)}.orValue('') != '')`,
        `(object.metadata.?labels[?${text(managedByLabel)}].orValue('') == ${text(importManager)} && ${annotationOf('object', importAnnotation)}.orValue('') != '')`,
      ].join(' || '),
      message: `a copy needs the label ${managedByLabel}: ${manager}, and the annotation ${copyAnnotation} (a Service) or ${originKey} (an EndpointSlice or ExternalEntity). What belongs to VirtualMachines needs the label ${managedByLabel}: ${vmManager}, and the annotation ${vmAnnotation}. What belongs to ServiceImports needs the label ${managedByLabel}: ${importManager}, and the annotation ${importAnnotation}`,
    },
    {
      expression: "request.operation != 'DELETE' || variables.deleting == variables.oldEpoch",
      message: `before a Hansa site deletes a copy, it sets the annotation ${deletingAnnotation} to the epoch of the copy`,
    },
  ],
});

/** A stolen credential must not open ports on nodes, claim external addresses, or select Pods. */
const copiedServices = (site: string): Policy => ({
  name: 'hansa-league-services',
  failurePolicy: 'Fail',
  rules: [{ ...services, resources: ['services'], operations: ['CREATE', 'UPDATE'] }],
  conditions: { site, 'not-of-spire': notOfSpireServices },
  validations: [
    {
      expression: [
        "(object.spec.?type.orValue('ClusterIP') == 'ClusterIP' && size(object.spec.?externalIPs.orValue([])) == 0 && size(object.spec.?selector.orValue({})) == 0)",
        // The mark before a deletion leaves all else as a user changed it.
        "(request.operation == 'UPDATE' && object.spec == oldObject.spec)",
      ].join(' || '),
      message: 'a copy is of type ClusterIP, without external IPs and without a selector',
    },
  ],
});

/** The status subresource accepts changes of metadata too. */
const serviceStatus = (site: string): Policy => {
  const conditionsOf = (object: string): string =>
    `${object}.?status.?conditions.orValue([]).filter(c, !(c.type in [${ownConditions.map(text).join(', ')}]))`;
  return {
    name: 'hansa-league-service-status',
    failurePolicy: 'Fail',
    rules: [{ ...services, resources: ['services/status'], operations: ['UPDATE'] }],
    conditions: { site },
    validations: [
      {
        expression: ['labels', 'annotations', 'finalizers', 'ownerReferences']
          .map((field) => `object.metadata.?${field} == oldObject.metadata.?${field}`)
          .join(' && '),
        message: 'a Hansa site may not change metadata through the status of a Service',
      },
      {
        expression: [
          'object.?status.?loadBalancer == oldObject.?status.?loadBalancer',
          `${conditionsOf('object')} == ${conditionsOf('oldObject')}`,
        ].join(' && '),
        message: `in the status of a Service, a Hansa site may change only the conditions ${ownConditions.join(' and ')}`,
      },
    ],
  };
};

/**
 * A new leader has not written all copies, so an old epoch on a copy does not show that its leader still leads. The
 * Lease does. The API server sees it a little late, so it is only a lower bound: that weakens the policy, and never
 * refuses a write of the current leader. Without a Lease nobody leads, and the other policies remain.
 */
const terms = (site: string, namespace: string, more: readonly PolicyRule[]): Policy => ({
  name: 'hansa-league-terms',
  failurePolicy: 'Fail',
  rules: [
    { ...services, resources: ['services'], operations: ['CREATE', 'UPDATE', 'DELETE'] },
    { ...services, resources: ['services/status'], operations: ['UPDATE'] },
    { ...slices, operations: ['CREATE', 'UPDATE', 'DELETE'] },
    { ...imports, operations: ['CREATE', 'UPDATE', 'DELETE'] },
    { ...entities, operations: ['CREATE', 'UPDATE', 'DELETE'] },
    {
      ...imports,
      resources: ['serviceexports/status', 'serviceimports/status'],
      operations: ['UPDATE'],
    },
    ...more,
  ],
  conditions: { site },
  params: { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', namespace, name: leaseName },
  variables: {
    leased: epochIn('params', epochAnnotation),
    isStatus: 'request.?subResource.orValue("") == "status"',
    epoch: [
      `variables.isStatus ? (${epochOfManager})`,
      `(request.operation == "DELETE" ? (${epochs.oldEpoch}) : (${epochs.epoch}))`,
    ].join(' : '),
  },
  validations: [
    {
      // The policy of copies says more about a copy without an epoch, and refuses it.
      expression:
        'variables.epoch >= variables.leased || (variables.epoch == 0 && !variables.isStatus)',
      message: 'another leader has taken over: the Lease has a newer epoch',
      messageExpression:
        "'another leader has taken over: the Lease has epoch ' + string(variables.leased) + ', and this write has epoch ' + string(variables.epoch)",
    },
  ],
});

const lease = (site: string): Policy => ({
  name: 'hansa-league-lease',
  failurePolicy: 'Fail',
  rules: [{ ...leader, operations: ['CREATE', 'UPDATE'] }],
  conditions: { site },
  variables: {
    ...epochs,
    floor: epochIn('object', epochFloorAnnotation),
    oldFloor: epochIn('oldObject', epochFloorAnnotation),
  },
  validations: [
    {
      expression: 'variables.epoch >= variables.oldEpoch && variables.floor >= variables.oldFloor',
      message: 'the epoch and the epoch floor of a Lease never go back',
    },
  ],
});

/** Users may edit and delete copies. Controllers of Kubernetes keep annotations that they do not know. */
const marksOfOthers = (site: string): Policy => {
  const keys = [
    epochAnnotation,
    epochFloorAnnotation,
    deletingAnnotation,
    sinceAnnotation,
    namesSinceAnnotation,
  ];
  const same = (key: string): string =>
    `(oldObject == null ? !${annotationOf('object', key)}.hasValue() : ${annotationOf('object', key)} == ${annotationOf('oldObject', key)})`;
  return {
    name: 'hansa-league-epochs',
    failurePolicy: 'Ignore',
    rules: [
      { ...services, resources: ['services', 'services/status'], operations: ['CREATE', 'UPDATE'] },
      { ...slices, operations: ['CREATE', 'UPDATE'] },
      {
        ...imports,
        resources: ['serviceimports', 'serviceimports/status'],
        operations: ['CREATE', 'UPDATE'],
      },
      { ...entities, operations: ['CREATE', 'UPDATE'] },
      { ...leader, operations: ['CREATE', 'UPDATE'] },
    ],
    conditions: { 'not-a-site': `!(${site})` },
    validations: [
      {
        expression: keys.map(same).join(' && '),
        message: `only Hansa sites add, change or remove the annotations ${keys.join(', ')}: keep them as they are in an update, and leave them out of a new object`,
      },
    ],
  };
};
