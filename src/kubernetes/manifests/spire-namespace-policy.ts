// The admission policy by which `federation.namespaceSelector` of a SpireServer holds where spire-controller-manager
// writes the entries. The SpireServer itself is its parameter, so a change of the selector counts at once, and the
// site needs no right to write policies. Pure.

import { spireGroup, spireServerName } from '../../api/kinds/spire-server.ts';
import { version } from '../../api/object.ts';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { policyManifests } from './policy.ts';

export const spirePolicyName = 'hansa-spire-federation-namespaces';

const federation = 'params.spec.?federation';
const selector = `${federation}.?namespaceSelector`;
const own = 'object.spec.?namespaceSelector';

/** As `objectsOutside` of `spire-relationships/federation-namespaces.ts`. */
const hasLabels = `${selector}.?matchLabels.orValue({}).all(key, ${own}.?matchLabels[?key].orValue("") == ${selector}.?matchLabels[?key].orValue("") && ${own}.?matchLabels[?key].hasValue())`;
const hasExpressions = `${selector}.?matchExpressions.orValue([]).all(wanted, ${own}.?matchExpressions.orValue([]).exists(found, found.key == wanted.key && found.operator == wanted.operator && found.?values.orValue([]) == wanted.?values.orValue([])))`;

export function spireNamespacePolicy(): readonly Manifest[] {
  return policyManifests({
    name: spirePolicyName,
    rules: [
      {
        group: 'spire.spiffe.io',
        version: '*',
        resources: ['clusterspiffeids', 'clusterstaticentries'],
        operations: ['CREATE', 'UPDATE'],
      },
    ],
    failurePolicy: 'Fail',
    conditions: {
      federates: 'object.spec.?federatesWith.orValue([]).size() > 0',
      // So that others can still remove a finalizer of an object of before.
      changes: 'oldObject == null || object.spec != oldObject.spec',
    },
    variables: {
      // spire-controller-manager can be set to read objects without a class too.
      isOurs:
        'object.spec.?className.orValue("") == "" || object.spec.?className.orValue("") == params.spec.?className.orValue("")',
      isLimited: `${federation}.?enabled.orValue(true) && ${selector}.hasValue()`,
    },
    validations: [
      {
        expression: `!variables.isOurs || !variables.isLimited || request.resource.resource != "clusterspiffeids" || (${hasLabels} && ${hasExpressions})`,
        message:
          'federatesWith is allowed only in namespaces that the SpireServer selects: spec.namespaceSelector must have all labels and expressions of federation.namespaceSelector of the SpireServer',
      },
      {
        expression:
          '!variables.isOurs || !variables.isLimited || request.resource.resource != "clusterstaticentries"',
        message:
          'federatesWith is not allowed here while the SpireServer has federation.namespaceSelector: a ClusterStaticEntry selects no namespaces. Use a ClusterSPIFFEID',
      },
    ],
    params: {
      apiVersion: `${spireGroup}/${version}`,
      kind: 'SpireServer',
      name: spireServerName,
    },
  });
}
