// Which Services of a member may take part in global federated Services. A global name has no owner: every
// Service that names it gets a part of its traffic, so the operator can limit the namespaces.

import type { MemberSettings } from '../members/member.ts';
import type { FederatedRef } from './federated-name.ts';

/** Without a list, all namespaces may. `namespace` is that of the member Service. */
export function mayJoin(
  { globalNamespaces }: Pick<MemberSettings, 'globalNamespaces'>,
  { scope }: Pick<FederatedRef, 'scope'>,
  namespace: string,
): boolean {
  return scope !== 'global' || (globalNamespaces?.includes(namespace) ?? true);
}
