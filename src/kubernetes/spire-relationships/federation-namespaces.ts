// Which namespaces `federation.namespaceSelector` selects, and which objects of spire-controller-manager let
// workloads of other namespaces federate. Pure.

import { type LabelSelectorObject, labelSelectorText } from '../../api/selectors/label-selector.ts';
import { isObject, jsonEquals } from '../../api/schema/json.ts';
import type { SpireServerSpec } from '../spire/read-spire-server.ts';

export const workloadIdentityVersion = 'spire.spiffe.io/v1alpha1';
/** The kinds by which users give identities to workloads. */
export const workloadIdentityKinds = ['ClusterSPIFFEID', 'ClusterStaticEntry'] as const;

/** Undefined: workloads of all namespaces may federate. */
export const namespaceSelectorOf = ({ federation }: SpireServerSpec) =>
  federation?.enabled === true ? federation.namespaceSelector : undefined;

/** In the grammar of the API server. Throws HANSA_BAD_REQUEST where a key is not one of a label. */
export const selectorText = (selector: LabelSelectorObject): string => labelSelectorText(selector);

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/**
 * Names the objects of the class that federate, and may select other namespaces too. A ClusterSPIFFEID must have
 * each condition of the selector. A ClusterStaticEntry has no such conditions, so it may not federate.
 */
export function objectsOutside(
  objects: readonly Fields[],
  selector: LabelSelectorObject,
  className: string,
): readonly string[] {
  return objects
    .filter(({ kind, spec }) => {
      const { className: own = '', federatesWith, namespaceSelector } = fieldsOf(spec);
      // spire-controller-manager can be set to read objects without a class too.
      if (own !== '' && own !== className) return false;
      if (listOf(federatesWith).length === 0) return false;
      return kind !== 'ClusterSPIFFEID' || !isWithin(fieldsOf(namespaceSelector), selector);
    })
    .map(({ kind, metadata }) => `${String(kind)} ${String(fieldsOf(metadata)['name'])}`)
    .toSorted();
}

/** All conditions of a selector hold together, so further ones only narrow it. */
function isWithin(found: Fields, { matchLabels, matchExpressions }: LabelSelectorObject): boolean {
  const labels = fieldsOf(found['matchLabels']);
  const expressions = listOf(found['matchExpressions']).map(fieldsOf);
  return (
    Object.entries(matchLabels ?? {}).every(([key, value]) => labels[key] === value) &&
    (matchExpressions ?? []).every(({ key, operator, values = [] }) =>
      expressions.some(
        (each) =>
          each['key'] === key &&
          each['operator'] === operator &&
          jsonEquals(listOf(each['values']), values),
      ),
    )
  );
}
