// A kind of the site as a marked cluster stores it. The schema has no defaults, because the site sets them, and
// the status has room for the verdict of the site. Pure.

import type { Kind } from '../../api/kind.ts';
import { conditions } from '../../api/kinds/conditions.ts';
import { group, version } from '../../api/object.ts';
import { optional, s } from '../../api/schema/dsl.ts';
import type { ObjectSchema, Schema } from '../../api/schema/schema.ts';

/** Whether the site has this version of an object. */
export const acceptedCondition = 'Accepted';

export function clusterSideKind(kind: Kind): Kind {
  const { description = 'The state of the object at the site.', fields = {} } = kind.status ?? {};
  return {
    ...kind,
    spec: withoutDefaults(kind.spec) as ObjectSchema,
    status: s.object({
      description,
      fields: {
        ...fields,
        conditions: optional(conditions),
        syncedTo: optional(
          s.string({
            description:
              'The site that has this object, as TRUST-DOMAIN/CLUSTER. CLUSTER is the name of this cluster there. Other sites leave the object alone.',
            maxLength: 512,
          }),
        ),
      },
    }),
    columns: [
      {
        name: acceptedCondition,
        type: 'string',
        jsonPath: `.status.conditions[?(@.type=="${acceptedCondition}")].status`,
        description: 'Whether the site has this version.',
      },
      ...kind.columns,
    ],
  };
}

/** The path of the collection in a cluster. */
export function clusterSidePath({ plural }: Kind): string {
  return `/apis/${group}/${version}/${plural}`;
}

export function definitionName({ plural }: Kind): string {
  return `${plural}.${group}`;
}

function withoutDefaults(schema: Schema): Schema {
  const { default: _default, ...rest } = schema as Schema & { readonly default?: unknown };
  const bare = rest as Schema;
  switch (bare.type) {
    case 'list':
      return { ...bare, items: withoutDefaults(bare.items) };
    case 'map':
      return { ...bare, values: withoutDefaults(bare.values) };
    case 'object':
      return {
        ...bare,
        fields: Object.fromEntries(
          Object.entries(bare.fields).map(([name, field]) => [
            name,
            { ...field, schema: withoutDefaults(field.schema) },
          ]),
        ),
      };
    default:
      return bare;
  }
}
