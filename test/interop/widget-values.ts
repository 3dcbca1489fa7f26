// Random values for the fields of the widget: many are valid, and the others cover every type of
// error.

import fc from 'fast-check';

export const anyText = fc.constantFrom(
  '',
  'a',
  'ash',
  'toolongtitle',
  'sealed',
  'é',
  'a"b\n',
  '<&>',
  'red',
  'blue',
);
const number = fc.constantFrom(
  0,
  1,
  -1,
  7,
  50,
  100,
  101,
  70000,
  2 ** 31,
  -(2 ** 31) - 1,
  1.5,
  1234567.5,
  1e-7,
  1e20,
  3.0,
);
const scalar = fc.oneof(anyText, number, fc.boolean(), fc.constant(null));
const anything: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: scalar },
  fc.array(scalar, { maxLength: 2 }),
  fc.dictionary(fc.constantFrom('a', 'x', 'name'), scalar, { maxKeys: 2 }),
);
const mostly = <T>(right: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 6, arbitrary: right }, { weight: 1, arbitrary: anything });
const some = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<unknown> =>
  fc.record(fields, { requiredKeys: [] });

const port = some({
  name: mostly(fc.constantFrom('http', 'dns')),
  protocol: mostly(fc.constantFrom('TCP', 'UDP', 'SCTP')),
  port: mostly(fc.constantFrom(80, 0, 65535, 65536)),
  note: mostly(anyText),
  unheard: anything,
});

export const anySpec = fc.record(
  {
    title: mostly(fc.constantFrom('ash', 'elm', 'sealed')),
    size: mostly(number),
    count: mostly(number),
    color: mostly(fc.constantFrom('red', 'green', 'blue', 'mauve')),
    enabled: mostly(fc.boolean()),
    due: mostly(
      fc.constantFrom(
        '2026-01-02T03:04:05Z',
        '2026-01-02t03:04:05.5+02:00',
        '2026-02-30T00:00:00Z',
        '2026-01-02',
        '2026-01-02T24:00:00Z',
      ),
      // A list in a date-time field is accepted there, by a slip of kube-openapi; not here.
    ).filter((value) => !Array.isArray(value)),
    tags: mostly(fc.array(mostly(fc.constantFrom('a', 'b', 'far-too-long')), { maxLength: 6 })),
    args: mostly(fc.array(mostly(anyText), { maxLength: 3 })),
    ports: mostly(fc.array(mostly(port), { maxLength: 4 })),
    nested: mostly(
      some({
        a: mostly(anyText),
        deep: mostly(
          some({
            b: mostly(number),
            list: mostly(
              fc.array(mostly(some({ x: mostly(anyText), y: anything })), { maxLength: 2 }),
            ),
          }),
        ),
      }),
    ),
    defaulted: mostly(some({ mode: mostly(anyText), level: mostly(number) })),
    labels: mostly(fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', 'e'), mostly(anyText))),
    limits: mostly(
      fc.dictionary(
        fc.constantFrom('cpu', 'ram'),
        mostly(some({ min: mostly(number), max: mostly(number), mid: anything })),
      ),
    ),
    frozen: mostly(some({ k: mostly(anyText), v: mostly(anyText) })),
    extra: anything,
    unknown: anything,
  },
  { requiredKeys: ['title'] },
);

export const anyMetadata = fc.record(
  {
    name: fc.oneof(
      { weight: 5, arbitrary: fc.constant('one') },
      fc.constantFrom('One', 'a..b', 'x'.repeat(254), '', 5),
    ),
    labels: mostly(
      fc.dictionary(
        fc.constantFrom('a', 'b.c/d', '-', '/x', 'x/', 'a/b/c', 'Ä'),
        mostly(fc.constantFrom('', 'v', '-v', 'v'.repeat(64))),
        { maxKeys: 3 },
      ),
    ),
    annotations: mostly(fc.dictionary(fc.constantFrom('a', 'A/b', 'a b'), mostly(anyText))),
    finalizers: mostly(fc.array(fc.constantFrom('a.b/c', 'orphan', 'foregroundDeletion', 'a b'))),
    ownerReferences: mostly(
      fc.array(
        mostly(
          some({
            apiVersion: fc.constantFrom('v1', 'a/v1', '', 'a/b/c'),
            kind: fc.constantFrom('A', 'Event', ''),
            name: fc.constantFrom('n', ''),
            uid: fc.constantFrom('u', 'w', ''),
            controller: mostly(fc.boolean()),
            odd: anything,
          }),
        ),
        { maxLength: 2 },
      ),
    ),
    creationTimestamp: mostly(
      fc.constantFrom('2026-01-02T03:04:05Z', 'never', '2026-13-01T00:00:00Z'),
    ),
    generation: mostly(number),
    odd: anything,
  },
  { requiredKeys: ['name'] },
);

export const anyStatus = mostly(
  some({
    phase: mostly(fc.constantFrom('Pending', 'Ready', 'Lost')),
    observed: mostly(number),
    conditions: mostly(
      fc.array(
        mostly(
          some({
            type: mostly(fc.constantFrom('Ready', 'Synced')),
            status: mostly(fc.constantFrom('True', 'Maybe')),
            message: mostly(anyText),
          }),
        ),
        { maxLength: 3 },
      ),
    ),
  }),
);
