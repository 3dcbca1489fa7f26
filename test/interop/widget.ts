// A kind that exists for tests only. The real kinds use parts of the schema language. This kind
// uses all of it, so that tests compare every way of defaulting, validating, pruning, merging and
// owning fields with kube-apiserver.

import type { Kind } from '../../src/api/kind.ts';

interface WidgetSpecValue {
  readonly title: string;
  readonly size: number;
  readonly color: string;
}

export const widget = {
  kind: 'Widget',
  plural: 'widgets',
  singular: 'widget',
  shortNames: ['wd'],
  description: 'A widget has one field of every sort.',
  names: 'dns-subdomain',
  specRequired: true,
  columns: [
    { name: 'Color', type: 'string', jsonPath: '.spec.color', description: 'The colour.' },
    { name: 'Size', type: 'integer', jsonPath: '.spec.size', description: 'The size.' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase', description: 'The phase.' },
    {
      name: 'Due',
      type: 'date',
      jsonPath: '.spec.due',
      description: 'When it is due.',
      priority: 1,
    },
    {
      name: 'Enabled',
      type: 'boolean',
      jsonPath: '.spec.enabled',
      description: 'Whether it is on.',
      priority: 1,
    },
  ],
  selectableFields: ['spec.color'],
  spec: {
    type: 'object',
    description: 'What the widget should be.',
    rules: [
      {
        cel: "self.color != 'blue' || self.size <= 50",
        message: 'blue widgets are at most 50 large',
        holds: (value: WidgetSpecValue): boolean => value.color !== 'blue' || value.size <= 50,
      },
      {
        cel: "!self.title.startsWith('sealed') || self.title == oldSelf.title",
        message: 'the title cannot become sealed later',
        holds: (value: WidgetSpecValue, old: WidgetSpecValue | undefined): boolean =>
          old === undefined || !value.title.startsWith('sealed') || value.title === old.title,
      },
    ],
    fields: {
      title: {
        required: true,
        schema: {
          type: 'string',
          description: 'A short title.',
          minLength: 1,
          maxLength: 12,
          pattern: '^[a-z]+$',
        },
      },
      size: {
        required: false,
        schema: {
          type: 'integer',
          format: 'int32',
          description: 'The size.',
          minimum: 0,
          maximum: 100,
          default: 3,
        },
      },
      count: {
        required: false,
        schema: { type: 'integer', format: 'int64', description: 'A large number.' },
      },
      color: {
        required: false,
        schema: {
          type: 'string',
          description: 'The colour.',
          enum: ['red', 'green', 'blue'],
          default: 'red',
        },
      },
      enabled: {
        required: false,
        schema: { type: 'boolean', description: 'Whether it is on.', default: true },
      },
      due: {
        required: false,
        schema: { type: 'string', format: 'date-time', description: 'When it is due.' },
      },
      tags: {
        required: false,
        schema: {
          type: 'list',
          listType: 'set',
          description: 'A set of words.',
          maxItems: 5,
          items: { type: 'string', description: 'A word.', maxLength: 8 },
        },
      },
      args: {
        required: false,
        schema: {
          type: 'list',
          listType: 'atomic',
          description: 'A list that is one value.',
          minItems: 1,
          items: { type: 'string', description: 'An argument.' },
        },
      },
      ports: {
        required: false,
        schema: {
          type: 'list',
          listType: 'map',
          keys: ['name', 'protocol'],
          description: 'A list with keys.',
          maxItems: 6,
          items: {
            type: 'object',
            description: 'A port.',
            fields: {
              name: { required: true, schema: { type: 'string', description: 'The name.' } },
              protocol: {
                required: false,
                schema: {
                  type: 'string',
                  description: 'The protocol.',
                  enum: ['TCP', 'UDP'],
                  default: 'TCP',
                },
              },
              port: {
                required: true,
                schema: { type: 'integer', description: 'The port.', minimum: 1, maximum: 65535 },
              },
              note: { required: false, schema: { type: 'string', description: 'A note.' } },
            },
          },
        },
      },
      nested: {
        required: false,
        schema: {
          type: 'object',
          description: 'An object in an object.',
          fields: {
            a: { required: false, schema: { type: 'string', description: 'A string.' } },
            deep: {
              required: false,
              schema: {
                type: 'object',
                description: 'Deeper.',
                fields: {
                  b: {
                    required: false,
                    schema: { type: 'integer', description: 'A number.', default: 7 },
                  },
                  list: {
                    required: false,
                    schema: {
                      type: 'list',
                      listType: 'atomic',
                      description: 'Objects as one value.',
                      items: {
                        type: 'object',
                        description: 'One of them.',
                        fields: {
                          x: { required: true, schema: { type: 'string', description: 'X.' } },
                        },
                      },
                    },
                  },
                },
              },
            },
          },
        },
      },
      defaulted: {
        required: false,
        schema: {
          type: 'object',
          description: 'An object that is always there.',
          default: {},
          fields: {
            mode: {
              required: false,
              schema: { type: 'string', description: 'The mode.', default: 'auto' },
            },
            level: { required: false, schema: { type: 'integer', description: 'The level.' } },
          },
        },
      },
      labels: {
        required: false,
        schema: {
          type: 'map',
          description: 'Strings by name.',
          maxProperties: 4,
          values: { type: 'string', description: 'A value.' },
        },
      },
      limits: {
        required: false,
        schema: {
          type: 'map',
          description: 'Objects by name.',
          values: {
            type: 'object',
            description: 'A limit.',
            fields: {
              min: { required: false, schema: { type: 'integer', description: 'At least.' } },
              max: { required: true, schema: { type: 'integer', description: 'At most.' } },
            },
          },
        },
      },
      frozen: {
        required: false,
        schema: {
          type: 'object',
          mapType: 'atomic',
          description: 'An object that is one value.',
          fields: {
            k: { required: false, schema: { type: 'string', description: 'K.' } },
            v: { required: false, schema: { type: 'string', description: 'V.' } },
          },
        },
      },
      extra: { required: false, schema: { type: 'any', description: 'Anything.' } },
    },
  },
  status: {
    type: 'object',
    description: 'What the widget is.',
    fields: {
      phase: {
        required: false,
        schema: { type: 'string', description: 'The phase.', enum: ['Pending', 'Ready', 'Failed'] },
      },
      observed: {
        required: false,
        schema: { type: 'integer', format: 'int64', description: 'The generation seen last.' },
      },
      conditions: {
        required: false,
        schema: {
          type: 'list',
          listType: 'map',
          keys: ['type'],
          description: 'Conditions.',
          items: {
            type: 'object',
            description: 'A condition.',
            fields: {
              type: { required: true, schema: { type: 'string', description: 'Which.' } },
              status: {
                required: true,
                schema: {
                  type: 'string',
                  description: 'Whether.',
                  enum: ['True', 'False', 'Unknown'],
                },
              },
              message: { required: false, schema: { type: 'string', description: 'Why.' } },
            },
          },
        },
      },
    },
  },
} as const satisfies Kind;
