// The checks of `hansa doctor --spire CLUSTER`: the conditions and relationships of the SPIRE server of a cluster.
// They ask the site and call no cluster.

import { printable } from '../../core/command/columns.ts';
import {
  type DoctorSubject,
  type Finding,
  ok,
  problem,
  type SubjectCheck,
  warning,
} from '../../core/plane/doctor.ts';
import { type SpireInfo, spireServers } from '../client/spire-info.ts';

const spireSubject: DoctorSubject = {
  flag: 'spire',
  placeholder: 'cluster',
  description: 'check the SPIRE server of this cluster instead',
  help: `With --spire, the site reports what it sees of the SPIRE server of that cluster: its configuration, its
objects, whether others reach its bundle endpoint, and each relationship. It changes nothing.`,
  example: '--spire app1',
  listedBy: 'spire list',
  parse: (text) => text,
};

export const spireCheck: SubjectCheck = {
  subject: spireSubject,
  name: 'spire',
  what: 'cluster whose SPIRE server the site operates',
  listedBy: 'hansa spire list',
  run: async ({ client }, name) => {
    const found = (await spireServers(client)).find(({ cluster }) => cluster === name);
    return found && judgeSpire(found);
  },
};

const checks: ReadonlyMap<string, string> = new Map([
  ['FederationConfigurationValid', 'configuration'],
  ['FederationObjectsInSync', 'objects'],
  ['FederationServiceReady', 'service'],
  ['FederationRouteReady', 'exposure'],
]);

export function judgeSpire(info: SpireInfo): readonly Finding[] {
  if (info.problem !== undefined) {
    return [problem('server', `${info.cluster} is not operated`, printable(info.problem))];
  }
  return [
    ...info.conditions.flatMap(({ type, status, reason, message }): readonly Finding[] => {
      const text = printable(message);
      if (type === 'FederationWarnings') {
        return status === 'True' ? [warning('warnings', reason, text)] : [];
      }
      const check = checks.get(type);
      if (check === undefined) return [];
      if (status === 'True') return [ok(check, text)];
      if (reason === 'NotFederated') return [];
      return [status === 'False' ? problem(check, reason, text) : warning(check, reason, text)];
    }),
    ...info.relationships.map(({ trustDomain, state, reason, message = '' }): Finding => {
      const check = 'relationship';
      const text = printable(`${trustDomain} is ${state}`);
      const remedy = printable(message);
      if (state === 'Fresh') {
        return reason === undefined ? ok(check, text) : warning(check, text, remedy);
      }
      return state === 'Stale' || state === 'Failed'
        ? problem(check, text, remedy)
        : warning(check, text, remedy);
    }),
  ];
}
