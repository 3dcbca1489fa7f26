// Admission policies for federated policies and their records: a leader of an old term can change neither, a site
// changes only policies that users have federated, and only sites write records and marks. Pure.

import { clustersGroup } from '../../api/kinds/federation.ts';
import { policyRecordKind } from '../../api/kinds/policy-record.ts';
import { version } from '../../api/object.ts';
import {
  deletingAnnotation,
  epochAnnotation,
  policyAnnotations,
  replicaAnnotation,
  versionAnnotation,
} from '../names.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import { annotationOf, epochIn, type Policy, type PolicyRule, type Validation } from './policy.ts';
import { notOfSpirePolicies } from './spire-exemptions.ts';

const records = { group: clustersGroup, version } as const;

/** Requests that name a term: those for policies of the configured kinds, and for records. */
export function replicaRules(kinds: readonly PolicyKind[]): readonly PolicyRule[] {
  if (kinds.length === 0) return [];
  return [
    ...ruleOf(kinds, ['CREATE', 'UPDATE', 'DELETE']),
    {
      ...records,
      resources: [policyRecordKind.plural],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
    { ...records, resources: [`${policyRecordKind.plural}/status`], operations: ['UPDATE'] },
  ];
}

const ruleOf = (
  kinds: readonly PolicyKind[],
  operations: PolicyRule['operations'],
): readonly PolicyRule[] =>
  kinds.map((kind) => ({
    group: kind.group,
    version: kind.version,
    resources: [kind.plural],
    operations,
  }));

/** `site` is whether a site sends the request. */
export function replicaPolicies(site: string, kinds: readonly PolicyKind[]): readonly Policy[] {
  if (kinds.length === 0) return [];
  return [replicas(site, kinds), ownRecords(site), marks(site, kinds), recordsOfOthers(site)];
}

const variables = {
  epoch: epochIn('object', epochAnnotation),
  oldEpoch: epochIn('oldObject', epochAnnotation),
  deleting: epochIn('oldObject', deletingAnnotation),
} as const;

/** A deletion needs a mark of the same epoch: a leader of an old term cannot write one. */
const fenced: readonly Validation[] = [
  {
    expression: "request.operation == 'DELETE' || variables.epoch > 0",
    message: `a write of a Hansa site needs the epoch of its term in the annotation ${epochAnnotation}`,
  },
  {
    expression: "request.operation != 'UPDATE' || variables.epoch >= variables.oldEpoch",
    message: 'another leader has taken over: the object has a newer epoch',
    messageExpression:
      "'another leader has taken over: the object has epoch ' + string(variables.oldEpoch) + ', and this write has epoch ' + string(variables.epoch)",
  },
  {
    expression:
      "request.operation != 'DELETE' || (variables.oldEpoch > 0 && variables.deleting == variables.oldEpoch)",
    message: `before a Hansa site deletes an object, it sets the annotation ${deletingAnnotation} to the epoch of the object`,
  },
];

const isFederated = (object: 'object' | 'oldObject'): string =>
  policyAnnotations.map((key) => `${annotationOf(object, key)}.orValue('') == 'true'`).join(' || ');

/** A user's policy has no epoch until a site writes it for the first time. The Lease fences that write. */
const replicas = (site: string, kinds: readonly PolicyKind[]): Policy => ({
  name: 'hansa-league-policies',
  failurePolicy: 'Fail',
  rules: ruleOf(kinds, ['CREATE', 'UPDATE', 'DELETE']),
  conditions: { site, 'not-of-spire': notOfSpirePolicies },
  variables,
  validations: [
    ...fenced,
    {
      expression: `request.operation == 'CREATE' || ${isFederated('oldObject')}`,
      message: 'a Hansa site may change only policies with the annotation of federated policies',
    },
    {
      expression: `request.operation == 'DELETE' || ((${isFederated('object')}) && ${annotationOf('object', versionAnnotation)}.orValue('') != '') || (request.operation == 'UPDATE' && ${annotationOf('object', deletingAnnotation)}.orValue('') != '')`,
      message: `a policy that a Hansa site writes has the annotation of federated policies, and its version in ${versionAnnotation}`,
    },
    {
      expression: `request.operation != 'CREATE' || ${annotationOf('object', replicaAnnotation)}.orValue('') != ''`,
      message: `a policy that a Hansa site creates needs the annotation ${replicaAnnotation}`,
    },
    {
      expression:
        "request.operation != 'UPDATE' || object.metadata.?finalizers == oldObject.metadata.?finalizers && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences",
      message: 'a Hansa site may not change finalizers and owners of policies',
    },
  ],
});

const ownRecords = (site: string): Policy => ({
  name: 'hansa-league-records',
  failurePolicy: 'Fail',
  rules: [
    {
      ...records,
      resources: [policyRecordKind.plural],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
  ],
  conditions: { site },
  variables,
  validations: fenced,
});

const markKeys = [epochAnnotation, deletingAnnotation, versionAnnotation, replicaAnnotation];

/** Users may replace a policy with their own manifest, which has no marks. */
const marks = (site: string, kinds: readonly PolicyKind[]): Policy => ({
  name: 'hansa-league-policy-marks',
  failurePolicy: 'Ignore',
  rules: ruleOf(kinds, ['CREATE', 'UPDATE']),
  conditions: { 'not-a-site': `!(${site})` },
  validations: [
    {
      expression: markKeys
        .map(
          (key) =>
            `(!${annotationOf('object', key)}.hasValue() || (oldObject != null && ${annotationOf('object', key)} == ${annotationOf('oldObject', key)}))`,
        )
        .join(' && '),
      message: `only Hansa sites add or change the annotations ${markKeys.join(', ')}: leave them out of a new object`,
    },
  ],
});

/** A forged record could make all clusters go back to an old version. Records may be deleted: sites write them again. */
const recordsOfOthers = (site: string): Policy => ({
  name: 'hansa-league-record-writers',
  failurePolicy: 'Ignore',
  rules: [
    {
      ...records,
      resources: [policyRecordKind.plural, `${policyRecordKind.plural}/status`],
      operations: ['CREATE', 'UPDATE'],
    },
  ],
  conditions: { 'not-a-site': `!(${site})` },
  validations: [
    {
      expression: [
        'oldObject != null',
        'object.spec == oldObject.spec',
        'object.?status == oldObject.?status',
        'object.metadata.?annotations == oldObject.metadata.?annotations',
      ].join(' && '),
      message: 'only Hansa sites write PolicyRecords',
    },
  ],
});
