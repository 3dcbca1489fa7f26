// The conditions that every status carries, with the fields and limits of Kubernetes' metav1.Condition.

import { optional, required, s } from '../schema/dsl.ts';

export const conditions = s.list({
  description: 'The observed state of this object, one entry per aspect.',
  listType: 'map',
  keys: ['type'],
  maxItems: 32,
  items: s.object({
    description: 'One aspect of the state.',
    fields: {
      type: required(
        s.string({
          description: 'The aspect, in CamelCase: for example Ready.',
          maxLength: 316,
          pattern:
            '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$',
        }),
      ),
      status: required(
        s.string({
          description: 'True, False or Unknown.',
          enum: ['True', 'False', 'Unknown'],
        }),
      ),
      observedGeneration: optional(
        s.integer({
          description:
            'The metadata.generation that this was observed at; if it is lower than the current one, the entry is out of date.',
          format: 'int64',
          minimum: 0,
        }),
      ),
      lastTransitionTime: required(
        s.time({ description: 'When the status last went from one value to another.' }),
      ),
      reason: required(
        s.string({
          description: 'Why, as one word in CamelCase for programs.',
          minLength: 1,
          maxLength: 1024,
          pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
        }),
      ),
      message: required(
        s.string({ description: 'Why, in a sentence for people. May be empty.', maxLength: 32768 }),
      ),
    },
  }),
});
