// The schema of a selector of namespaces by their labels, in the form of Kubernetes.

import { optional, required, s } from '../schema/dsl.ts';

interface Expression {
  readonly operator?: unknown;
  readonly values?: readonly unknown[];
}

interface Selector {
  readonly matchLabels?: Readonly<Record<string, unknown>>;
  readonly matchExpressions?: readonly unknown[];
}

/** Of a label, with its optional prefix. */
const longestKey = 317;
const value = (description: string) =>
  s.string({
    description,
    maxLength: 63,
    pattern: '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$',
  });

const expression = s.object({
  description: 'One condition.',
  fields: {
    key: required(
      s.string({
        description: 'The key of the label.',
        minLength: 1,
        maxLength: longestKey,
        pattern: '^([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$',
      }),
    ),
    operator: required(
      s.string({
        description: 'In and NotIn take values; Exists and DoesNotExist take none.',
        enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'],
      }),
    ),
    values: optional(
      s.list({
        description: 'Values of the label.',
        listType: 'atomic',
        maxItems: 64,
        items: value('One value.'),
      }),
    ),
  },
  rules: [
    {
      cel: "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
      message: 'In and NotIn need values, Exists and DoesNotExist take none',
      holds: ({ operator, values = [] }: Expression) =>
        (operator === 'In' || operator === 'NotIn') === values.length > 0,
    },
  ],
});

export const namespaceSelector = (description: string) =>
  s.object({
    description,
    fields: {
      matchLabels: optional(
        s.map({
          description: 'Labels that the namespace must have.',
          maxProperties: 16,
          values: value('The value of the label.'),
        }),
      ),
      matchExpressions: optional(
        s.list({
          description: 'Further conditions on its labels, all of which must match.',
          listType: 'atomic',
          maxItems: 16,
          items: expression,
        }),
      ),
    },
    rules: [
      {
        // Kubernetes reads an empty selector as all namespaces, and a reader may expect none.
        cel: '(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)',
        message:
          'set matchLabels or matchExpressions: leave the selector out to select all namespaces',
        holds: ({ matchLabels = {}, matchExpressions = [] }: Selector) =>
          Object.keys(matchLabels).length > 0 || matchExpressions.length > 0,
      },
      {
        cel: `!has(self.matchLabels) || self.matchLabels.all(key, size(key) > 0 && size(key) <= ${longestKey})`,
        message: 'matchLabels has a key that is not a label',
        holds: ({ matchLabels = {} }: Selector) =>
          Object.keys(matchLabels).every((key) => key.length > 0 && key.length <= longestKey),
      },
    ],
  });
