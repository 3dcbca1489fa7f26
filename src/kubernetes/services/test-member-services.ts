// Member Services for tests.

import type { Random } from '../../core/clock/clock.ts';
import type { MemberInput } from './compile-plan.ts';
import type { MemberPort, MemberService } from './member-service.ts';

export const httpPort: MemberPort = {
  name: 'http',
  port: 80,
  protocol: 'TCP',
  appProtocol: undefined,
  outside: undefined,
};

/** The global name that the member Services share. */
export const sharedRef = { scope: 'global', namespace: 'hansa-system', name: 'shop' } as const;

/** A time of creation, on a day of January 2026. */
export const createdOn = (day: number): string => `2026-01-0${day}T00:00:00Z`;

/** A Service of type ClusterIP with the port `http` in the cluster, as old as told. */
export function memberService(
  clusterID: string,
  createdAt: string,
  over: Partial<MemberService> = {},
): MemberService {
  return {
    clusterID,
    ref: sharedRef,
    kind: 'Service',
    namespace: 'shop',
    name: 'shop',
    createdAt,
    exposure: { by: 'pods' },
    ports: [httpPort],
    unreachable: undefined,
    ...over,
  };
}

/** What a plan reads of a routable member whose ports are ready. */
export function memberInput(
  clusterID: string,
  { service = memberService(clusterID, createdOn(1)), ...over }: Partial<MemberInput> = {},
): MemberInput {
  return {
    service,
    fate: 'use',
    settings: { routable: true, endpointPrefixes: ['10.0.0.0/8', 'fd00::/8'] },
    readyPorts: service.ports,
    ...over,
  };
}

/** A whole number from 0 to the limit, without it. */
export function below(random: Pick<Random, 'unit'>, limit: number): number {
  return Math.floor(random.unit() * limit);
}
