// Assembles the parts of joining. The trust plane starts it and adds the returned routes and services.

import type { Kind } from '../../api/kind.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import type { PlaneContext, RunningPlane } from '../../core/plane/plane.ts';
import type { StoreFederationState } from '../authorization/federation-state.ts';
import { agentDirectory } from './agent-directory.ts';
import { joinRoutes } from './join-routes.ts';
import { JoinService } from './join-service.ts';
import { memberController } from '../controllers/member-controller.ts';
import { Members } from './members.ts';
import { TokenBook } from './token-book.ts';
import { tokenController } from '../controllers/token-controller.ts';
import { isEnded, vouchedMembers } from './vouched-members.ts';
import { judgeVouching } from './vouching.ts';

export function joining(
  context: PlaneContext & { readonly federationState: StoreFederationState },
  reattestWithinSeconds: number,
): Required<Pick<RunningPlane, 'controllers' | 'routes' | 'rpcs' | 'agents' | 'guards'>> & {
  readonly members: Members;
} {
  const { store, clock, metrics } = context;
  const members = new Members(store, clock, { reattestWithinMs: reattestWithinSeconds * 1000 });
  const tokens = new TokenBook(store);
  metrics.observe(
    {
      name: 'hansa_members',
      help: 'Members: agents, and instances of bots that can still renew.',
      labels: ['role'],
    },
    (report) => {
      for (const [role, count] of Object.entries(members.counts)) report({ role }, count);
    },
  );
  const { trustDomain, federationState } = context;
  context.enforcement.register({
    name: 'join',
    refuses: (peer) => {
      const member = { provenBy: `spiffe://${peer}/any` };
      return judgeVouching(member, trustDomain.name, federationState.current).state !== 'trusted';
    },
  });
  const vouchedFor = vouchedMembers(context);
  context.enforcement.register({
    name: 'members',
    refuses: (peer) =>
      vouchedFor(peer).every((member) => isEnded(context, member, federationState.current)),
  });
  return {
    members,
    controllers: [
      tokenController({ ...context, tokens }),
      memberController({ ...context, members }),
    ],
    routes: joinRoutes({ ...context, members, tokens }),
    // A caller who decides which SVIDs a trust domain has decides which machines join with one.
    guards: (kind, name) => {
      const token = kind === (spiffeFederationKind as Kind) && tokens.admitsMachinesOf(name);
      if (typeof token !== 'string') return [];
      const because = `machines join with SVIDs of ${name} (JoinToken ${token})`;
      return [{ field: 'spec.bundleSource', writes: workloadEntryKind.plural, because }];
    },
    agents: agentDirectory({ ...context, members }),
    rpcs: new JoinService({ ...context, members, tokens }).rpcs,
  };
}
