// The rows that `hansa service` shows of federated Services, and what their health is. Pure.

import type { LeagueInfo } from '../client/league-info.ts';
import type {
  CopyView,
  FederatedServiceView,
  MemberServiceView,
  NamesView,
} from '../services/service-view.ts';

export type Health = 'Healthy' | 'Conflict' | 'Degraded' | 'Down';

type Rows = readonly (readonly string[])[];

/** As users write it. */
export const nameOf = ({ scope, name, key }: FederatedServiceView): string =>
  scope === 'global' ? name : key;

/** Reasons of copies that only a user can solve. */
const takenReasons: ReadonlySet<string> = new Set([
  'CopyConflict',
  'CopyHasSelector',
  'ImportConflict',
]);

/** With the first problem that a user should look at. */
export function healthOf({ members, copies }: FederatedServiceView): {
  readonly health: Health;
  readonly why: string;
} {
  const leftOut = members.find(({ status }) => status === 'False');
  if (members.every(({ endpoints, isReady }) => endpoints === 0 && !isReady)) {
    const why = leftOut === undefined ? 'No member has a ready endpoint.' : textOf(leftOut);
    return { health: 'Down', why };
  }
  const clash =
    members.find(({ reason }) => reason === 'PortConflict') ??
    copies.find(({ reason }) => takenReasons.has(reason));
  if (clash !== undefined) return { health: 'Conflict', why: textOf(clash) };
  const problem =
    leftOut ??
    // A cluster without the namespace has nobody who looks for the Service there.
    copies.find(({ status, reason }) => status !== 'True' && reason !== 'NoNamespace');
  return problem === undefined
    ? { health: 'Healthy', why: '' }
    : { health: 'Degraded', why: textOf(problem) };
}

const textOf = ({ clusterID, message }: MemberServiceView | CopyView): string =>
  `${clusterID}: ${message}`;

export function serviceRows(services: readonly FederatedServiceView[], isWide: boolean): Rows {
  return [
    ['NAME', 'MEMBERS', 'PORTS', 'ENDPOINTS', 'HEALTH', ...(isWide ? ['WHY'] : [])],
    ...services.map((service) => {
      const { health, why } = healthOf(service);
      const clusters = new Set(service.members.map(({ clusterID }) => clusterID));
      const endpoints = service.members.reduce((sum, each) => sum + each.endpoints, 0);
      return [
        nameOf(service),
        [...clusters].join(','),
        portsText(service),
        String(endpoints),
        health,
        ...(isWide ? [why] : []),
      ];
    }),
  ];
}

function portsText({ ports }: FederatedServiceView): string {
  return ports.map(({ port, protocol }) => `${port}/${protocol}`).join(',');
}

/** Three tables: the Service, its members, and the clusters with their copies and leaders. */
export function serviceDetails(service: FederatedServiceView, league: LeagueInfo): readonly Rows[] {
  const { health, why } = healthOf(service);
  return [
    [
      ['service', nameOf(service)],
      service.scope === 'exported'
        ? ['imports', `ServiceImport ${service.namespace}/${service.name}, in each cluster`]
        : ['copies', `${service.namespace}/${service.name}, in each cluster`],
      ['ports', portsText(service)],
      ['health', why === '' ? health : `${health}: ${why}`],
      ...(service.moreMembers === undefined
        ? []
        : [['members', `the oldest ${service.members.length}; ${service.moreMembers} more exist`]]),
      ...nameRows(service.names),
    ],
    [
      ['MEMBER', 'SERVICE', 'TYPE', 'ENDPOINTS', 'REASON', 'MESSAGE'],
      ...service.members.map(({ clusterID, namespace, name, type, endpoints, reason, message }) => [
        clusterID,
        `${namespace}/${name}`,
        type,
        String(endpoints),
        reason,
        message,
      ]),
    ],
    [
      ['CLUSTER', 'STATE', 'LEADER', 'EPOCH', 'ENDPOINTS', 'FROM', 'COPY'],
      ...league.members.map(({ clusterID, state, leader, epoch }) => {
        const copy = service.copies.find((each) => each.clusterID === clusterID);
        return [
          clusterID,
          state,
          siteOf(leader),
          epoch === undefined ? '-' : String(epoch),
          ...copyCells(copy),
        ];
      }),
    ],
  ];
}

/** None where the Service has no name and asked for none. */
function nameRows({ carried, problem }: NamesView): Rows {
  return [
    ...carried.map(({ clusterID, hostnames, targets }) => [
      'names',
      `${hostnames.join(', ')} → ${targets.join(', ') || 'no address'}, on the copy in ${clusterID}`,
    ]),
    ...(problem === undefined ? [] : [['names', `${problem.clusterID}: ${problem.message}`]]),
  ];
}

/** The trust domain; the rest of a holder names the process. */
export function siteOf(leader: string | undefined): string {
  const [site = ''] = (leader ?? '').split('/');
  return site === '' ? '-' : site;
}

function copyCells(copy: CopyView | undefined): readonly string[] {
  if (copy === undefined) return ['-', '-', 'none'];
  const { endpoints, from, status, reason, message } = copy;
  const told = status === 'True' ? 'current' : `${reason}: ${message}`;
  return [String(endpoints), from.length === 0 ? '-' : from.join(','), told];
}
