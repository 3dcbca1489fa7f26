// Member Services for tests.

import type { Random } from '../../core/clock/clock.ts';
import type { MemberPort, MemberService } from './member-service.ts';

export const httpPort: MemberPort = {
  name: 'http',
  port: 80,
  protocol: 'TCP',
  appProtocol: undefined,
  outside: undefined,
};

/** A Service of type ClusterIP with the port `http` in the cluster, as old as told. */
export function memberService(
  clusterID: string,
  createdAt: string,
  over: Partial<MemberService> = {},
): MemberService {
  return {
    clusterID,
    ref: { scope: 'global', namespace: 'hansa-system', name: 'shop' },
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

/** A whole number from 0 to the limit, without it. */
export function below(random: Pick<Random, 'unit'>, limit: number): number {
  return Math.floor(random.unit() * limit);
}
