// Test fixture: what users, clusters and leaders do in random histories of member controllers.

import fc from 'fast-check';

const cluster = fc.nat(2);
const service = fc.constantFrom('one', 'two');
export const action = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('service' as const),
      cluster,
      service,
      type: fc.constantFrom('ClusterIP', 'NodePort', 'ExternalIPs', 'LoadBalancer'),
      port: fc.constantFrom(80, 80, 81),
      name: fc.constantFrom('global web', 'global web', 'namespaced web', 'global one', 'none'),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('slice' as const),
      cluster,
      service,
      slice: fc.constantFrom('x', 'y'),
      hosts: fc.constantFrom(0, 1, 3, 120),
      isReady: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('removeService' as const, 'removeSlices' as const, 'node' as const),
      cluster,
      service,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'editCopies' as const,
        'selectors' as const,
        'deleteCopies' as const,
        'editSlices' as const,
        'strayedSlices' as const,
        'deleteSlices' as const,
        'takeName' as const,
        'giveNameBack' as const,
        'namespace' as const,
        'fail' as const,
      ),
      cluster,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'elect' as const,
        'usurp' as const,
        'cut' as const,
        'heal' as const,
        'unreachable' as const,
        'reachable' as const,
        'restart' as const,
      ),
      cluster,
      site: fc.nat(1),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('limits' as const),
      cluster,
      services: fc.constantFrom(0, 1, 1000),
      endpoints: fc.constantFrom(0, 15, 130, 50_000),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.constantFrom(1, 5, 20, 100, 10_000, 400_000),
    }),
  },
);
type ValueOf<A> = A extends fc.Arbitrary<infer T> ? T : never;
export type Action = ValueOf<typeof action>;
