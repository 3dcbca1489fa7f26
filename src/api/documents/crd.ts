// Renders a kind as a CustomResourceDefinition: for clusters that store objects of the kind, and for
// tests that compare our responses with those of a real kube-apiserver.

import type { Kind } from '../kind.ts';
import { group as siteGroup, type JsonObject, version } from '../object.ts';
import { toJsonSchema } from '../schema/json-schema.ts';
import { printerColumns } from './table.ts';

export const category = 'hansa';

export type CustomResourceDefinition = JsonObject & {
  readonly metadata: { readonly name: string };
};

export function crdOf(kind: Kind): CustomResourceDefinition {
  const { group, scope } = kind.cluster ?? { group: siteGroup, scope: 'Cluster' };
  const properties: Record<string, JsonObject> = {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object' },
    spec: toJsonSchema(kind.spec),
  };
  if (kind.status !== undefined) properties['status'] = toJsonSchema(kind.status);
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${kind.plural}.${group}` },
    spec: {
      group,
      scope,
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.singular,
        // The API server drops an empty list, so that two field managers would conflict over it.
        ...(kind.shortNames.length > 0 && { shortNames: kind.shortNames }),
        categories: [category],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              description: kind.description,
              type: 'object',
              properties,
              ...(kind.specRequired ? { required: ['spec'] } : {}),
              ...(kind.cluster === undefined ? {} : objectRules(kind)),
            },
          },
          ...(kind.status === undefined ? {} : { subresources: { status: {} } }),
          additionalPrinterColumns: printerColumns(kind).map((column) => ({
            name: column.name,
            // A date that is still to come would show as <invalid>.
            type: column.counts === 'down' ? 'string' : column.type,
            jsonPath: column.jsonPath,
            description: column.description,
            ...(column.priority === undefined ? {} : { priority: column.priority }),
          })),
          ...(kind.selectableFields === undefined || kind.selectableFields.length === 0
            ? {}
            : {
                selectableFields: kind.selectableFields.map((path) => ({ jsonPath: `.${path}` })),
              }),
        },
      ],
    },
  };
}

/** At a site, the write path holds the rule of singletons. */
function objectRules({ kind, singleton, cluster }: Kind): JsonObject {
  const rules = (cluster?.rules ?? []).map(({ cel, message }) => ({ rule: cel, message }));
  if (singleton !== undefined) {
    const message = `the only ${kind} of a cluster has the name ${singleton}`;
    rules.push({ rule: `self.metadata.name == '${singleton}'`, message });
  }
  return rules.length === 0 ? {} : { 'x-kubernetes-validations': rules };
}
