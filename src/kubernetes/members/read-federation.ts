// Reads the members that `Federation` of the home cluster lists. Pure.

import type { Federation } from '../../api/kinds/federation.ts';
import { timestamp } from '../../api/object.ts';
import { isRecord } from '../../core/json/is-record.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { defaultPolicyLimit } from '../policies/limits/choose-policies.ts';
import { defaultLimits } from '../services/choose-claims.ts';
import { compact, flagIn, itemsIn, oneOf, recordIn, textIn, timeIn } from './field-values.ts';
import type { MemberSettings } from './member.ts';

export type ReflectedFederation = Federation & KubeObject;

const maxMembers = 250;
const maxPrefixes = 64;
const maxNamespaces = 256;
const maxDnsNames = 64;
const maxCaLength = 131_072;
const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export interface ListedMembers {
  readonly clusterSet: string;
  /** One for each ID. */
  readonly members: readonly MemberSettings[];
}

/** Leaves out what the CRD would not have accepted. */
export function listedMembers({ spec }: Pick<ReflectedFederation, 'spec'>): ListedMembers {
  const { clusterSet, members } = recordIn(spec);
  const byID = new Map<string, MemberSettings>();
  for (const member of itemsIn(members, maxMembers, memberIn)) {
    if (!byID.has(member.clusterID)) byID.set(member.clusterID, member);
  }
  return { clusterSet: textIn(clusterSet) ?? '', members: [...byID.values()] };
}

/** When each member was admitted. `before` is what this process knew. */
export function admittedMembers(
  members: readonly Pick<MemberSettings, 'clusterID'>[],
  federation: Pick<ReflectedFederation, 'status'> | undefined,
  before: ReadonlyMap<string, string>,
  nowMs: number,
): ReadonlyMap<string, string> {
  const recorded = new Map(
    itemsIn(recordIn(federation?.status)['members'], maxMembers, (item) => {
      const { clusterID, admitted } = recordIn(item);
      const at = timeIn(admitted);
      return textIn(clusterID) === undefined || at === undefined
        ? undefined
        : ([String(clusterID), at] as const);
    }),
  );
  return new Map(
    members.map(({ clusterID }) => [
      clusterID,
      recorded.get(clusterID) ?? before.get(clusterID) ?? timestamp(nowMs),
    ]),
  );
}

function memberIn(value: unknown): MemberSettings | undefined {
  const from = recordIn(value);
  const clusterID = textIn(from['clusterID']);
  if (clusterID === undefined || !label.test(clusterID)) return undefined;
  const { policy, graceSeconds } = recordIn(from['unreachable']);
  const isGrace = Number.isInteger(graceSeconds) && (graceSeconds as number) >= 0;
  const settings = compact<MemberSettings>({
    clusterID,
    server: textIn(from['server'], 2048),
    secret: textIn(from['secret'], 253),
    caBundle: textIn(from['caBundle'], maxCaLength),
    tlsServerName: textIn(from['tlsServerName'], 253),
    routable: flagIn(from['routable']) ?? false,
    supervisor: flagIn(from['supervisor']),
    dns: flagIn(from['dns']),
    policies: policiesIn(from['policies']),
    endpointPrefixes: itemsIn(from['endpointPrefixes'], maxPrefixes, (one) => textIn(one, 49)),
    unreachable: isRecord(from['unreachable'])
      ? {
          policy: oneOf(policy, ['Keep', 'Drain', 'Remove']) ?? 'Keep',
          graceSeconds: isGrace ? (graceSeconds as number) : 300,
        }
      : undefined,
    limits: limitsIn(from['limits']),
  });
  // An empty list allows nothing, and neither does one that cannot be read.
  const { globalNamespaces = null, dnsNames = null } = from;
  return {
    ...settings,
    ...(globalNamespaces !== null && {
      globalNamespaces: [...itemsIn(globalNamespaces, maxNamespaces, (one) => textIn(one, 63))],
    }),
    ...(dnsNames !== null && {
      dnsNames: [...itemsIn(dnsNames, maxDnsNames, (one) => textIn(one, 253))],
    }),
  };
}

/** What cannot be read gives no rights. */
function policiesIn(value: unknown): MemberSettings['policies'] {
  return value === undefined || value === null ? undefined : (oneOf(value, ['Both']) ?? 'Receive');
}

const allLimits = { ...defaultLimits, ...defaultPolicyLimit };

function limitsIn(value: unknown): MemberSettings['limits'] {
  if (!isRecord(value)) return undefined;
  const countIn = (name: keyof typeof allLimits): number => {
    const count = value[name];
    return Number.isSafeInteger(count) && (count as number) >= 0
      ? (count as number)
      : allLimits[name];
  };
  return {
    services: countIn('services'),
    endpoints: countIn('endpoints'),
    policies: countIn('policies'),
    policyBytes: countIn('policyBytes'),
  };
}

/** By the ID of each member that shares its server with others: all of them, in the order of the list. */
export function sharedServers(
  members: readonly MemberSettings[],
): ReadonlyMap<string, readonly string[]> {
  const byServer = new Map<string, string[]>();
  for (const { clusterID, server } of members) {
    const address = server === undefined ? undefined : serverAddress(server);
    if (address === undefined) continue;
    const known = byServer.get(address);
    if (known === undefined) byServer.set(address, [clusterID]);
    else known.push(clusterID);
  }
  return new Map(
    [...byServer.values()].flatMap((ids) =>
      ids.length > 1 ? ids.map((clusterID) => [clusterID, ids] as const) : [],
    ),
  );
}

/** Two spellings of one URL are the same. Undefined for what is no https URL. */
export function serverAddress(server: string): string | undefined {
  if (!URL.canParse(server)) return undefined;
  const url = new URL(server);
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '') return undefined;
  return `https://${url.host}${url.pathname.replace(/\/+$/, '')}`;
}
