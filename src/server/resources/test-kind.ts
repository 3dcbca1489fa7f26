// A small kind for the tests of this folder.

import { defineKind, type Kind } from '../../api/kind.ts';
import { optional, required, s } from '../../api/schema/dsl.ts';

export const boatKind: Kind = defineKind({
  kind: 'Boat',
  plural: 'boats',
  singular: 'boat',
  shortNames: [],
  description: 'A boat.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'What it is.',
    fields: {
      berths: required(s.integer({ description: 'How many sleep on it.', minimum: 0 })),
      home: optional(s.string({ description: 'Where it belongs.', default: 'lubeck' })),
    },
  }),
  status: s.object({
    description: 'How it is.',
    fields: { state: optional(s.string({ description: 'Where it is.' })) },
  }),
  columns: [
    {
      name: 'Berths',
      type: 'integer',
      jsonPath: '.spec.berths',
      description: 'How many sleep on it.',
    },
  ],
  selectableFields: ['spec.home'],
});
