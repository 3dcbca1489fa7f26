// Lists the members that a peer vouched for, before the peer is revoked or deleted. The site forgets them
// with the peer.

import { hasCode } from '../../core/errors/error.ts';
import type { MemberSummary } from '../join/join-routes.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { printable } from '../../core/command/columns.ts';
import { trustPaths } from '../paths.ts';

/** Longer lists are in `hansa agent list` and `hansa join list`. */
const shownNames = 20;

/** Empty where there are none. */
export async function forgottenMembersLines(
  client: Pick<SiteClient, 'request'>,
  peers: readonly string[],
): Promise<readonly string[]> {
  let members: readonly MemberSummary[];
  try {
    const { body } = await client.request({ path: trustPaths.members });
    ({ members } = body as { readonly members: readonly MemberSummary[] });
  } catch (error) {
    if (!hasCode(error, 'HANSA_FORBIDDEN')) throw error;
    return [
      `The site forgets all members that joined with an SVID of ${peers.join(', ')}. To list them, you need the right to list jointokens.`,
    ];
  }
  return peers.flatMap((peer) =>
    linesOf(
      peer,
      members.filter((member) => member.peer === peer),
    ),
  );
}

function linesOf(peer: string, members: readonly MemberSummary[]): readonly string[] {
  if (members.length === 0) return [];
  const counts = new Map<string, number>();
  for (const { role, name } of members) {
    const key = `${role} ${name}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const names = [...counts].map(([key, count]) => (count === 1 ? key : `${key} (${count} times)`));
  const more = names.length - shownNames;
  return [
    `The site forgets these members, which joined with an SVID of ${printable(peer)}:`,
    ...names.slice(0, shownNames).map((name) => printable(`  ${name}`)),
    ...(more > 0 ? [`  and ${more} more: hansa agent list and hansa join list`] : []),
  ];
}
