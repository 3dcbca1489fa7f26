// The ports of a federated Service. Every cluster decides alone and gets the same result: the first
// member decides the number and protocol of a port; members that differ are left out of that port.

import type { Protocol } from '../objects.ts';
import { keyOfMember, type MemberPort, type MemberService } from './member-service.ts';

/** A port of the copies. */
export interface AgreedPort {
  /** Empty only if it is the only port. */
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol;
  readonly appProtocol: string | undefined;
}

/** A port of a member that is in the copies. */
export interface PortMapping {
  readonly agreed: AgreedPort;
  readonly own: MemberPort;
}

export interface PortConflict {
  readonly port: MemberPort;
  /** The port of the same name and the member that decided it; undefined where there are `mostPorts` already. */
  readonly taken:
    | { readonly winner: string; readonly agreed: Pick<AgreedPort, 'port' | 'protocol'> }
    | undefined;
}

export interface PortAgreement {
  readonly ports: readonly AgreedPort[];
  /** By member, in the order of its ports. */
  readonly mappings: ReadonlyMap<string, readonly PortMapping[]>;
  readonly conflicts: ReadonlyMap<string, readonly PortConflict[]>;
}

/** A member Service, or a machine behind one. */
export interface PortVoter
  extends Pick<MemberService, 'clusterID' | 'namespace' | 'name' | 'createdAt' | 'ports'> {
  readonly kind: string;
}

/** A Service of Kubernetes may have many, but all copies carry all of them. */
export const mostPorts = 100;

type Aged = Omit<PortVoter, 'ports'>;

/** The oldest first. Equal everywhere, whatever order the members come in. */
export function byAge(a: Aged, b: Aged): number {
  return (
    compare(a.createdAt, b.createdAt) ||
    compare(a.clusterID, b.clusterID) ||
    compare(a.namespace, b.namespace) ||
    compare(a.name, b.name) ||
    compare(a.kind, b.kind)
  );
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

interface Entry extends Omit<AgreedPort, 'name'> {
  /** As its member spells it. */
  readonly ownName: string;
  readonly winner: string;
}

/**
 * A port is known by its number and protocol. One that has the name of another port, but not its number
 * and protocol, is a conflict. O(ports of all members), after sorting the members. By default the oldest is first.
 */
export function agreePorts(
  members: readonly PortVoter[],
  order: (a: Aged, b: Aged) => number = byAge,
): PortAgreement {
  const entries: Entry[] = [];
  const byNumber = new Map<string, Entry>();
  const byName = new Map<string, Entry>();
  const matched: { readonly member: string; readonly own: MemberPort; readonly entry: Entry }[] =
    [];
  const conflicts = new Map<string, PortConflict[]>();
  for (const member of members.toSorted(order)) {
    const key = keyOfMember(member);
    for (const own of member.ports) {
      const { name: ownName, port, protocol, appProtocol } = own;
      const number = `${port}/${protocol}`;
      const same = byNumber.get(number);
      const taken = byName.get(ownName);
      if (same !== undefined) {
        matched.push({ member: key, own, entry: same });
      } else if (taken === undefined && entries.length < mostPorts) {
        const entry = { ownName, port, protocol, appProtocol, winner: key };
        entries.push(entry);
        byNumber.set(number, entry);
        byName.set(ownName, entry);
        matched.push({ member: key, own, entry });
      } else {
        const list = conflicts.get(key) ?? [];
        list.push({
          port: own,
          taken: taken && {
            winner: taken.winner,
            agreed: { port: taken.port, protocol: taken.protocol },
          },
        });
        conflicts.set(key, list);
      }
    }
  }
  const names = namesOf(entries);
  const agreed = new Map(
    entries.map((entry) => {
      const { port, protocol, appProtocol } = entry;
      return [entry, { name: names.get(entry) ?? '', port, protocol, appProtocol }] as const;
    }),
  );
  const mappings = new Map<string, PortMapping[]>();
  for (const { member, own, entry } of matched) {
    const list = mappings.get(member) ?? [];
    list.push({ own, agreed: agreed.get(entry) as AgreedPort });
    mappings.set(member, list);
  }
  return { ports: [...agreed.values()], mappings, conflicts };
}

/** Kubernetes wants a name for each of several ports. A made-up name gives way to one that a member chose. */
function namesOf(entries: readonly Entry[]): ReadonlyMap<Entry, string> {
  const taken = new Set(entries.map(({ ownName }) => ownName));
  return new Map(
    entries.map((entry) => {
      if (entry.ownName !== '' || entries.length === 1) return [entry, entry.ownName];
      const made = `${entry.protocol.toLowerCase()}-${entry.port}`;
      let name = made;
      for (let count = 2; taken.has(name); count++) name = `${made}-${count}`;
      taken.add(name);
      return [entry, name];
    }),
  );
}
