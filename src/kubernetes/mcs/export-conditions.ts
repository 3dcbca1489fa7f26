// What a ServiceExport is told: whether it is valid, whether its Service is exported, and what conflicts with other
// clusters. Types and reasons are those of KEP-1645 and its API. Pure.

import type { CopyProblem } from '../copies/sync-term.ts';
import type { Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import { conflictText, type Outcome, type Plan } from '../services/compile-plan.ts';
import { agreePorts } from '../services/agree-ports.ts';
import { keyOfMember, type MemberService, type ServiceTraits } from '../services/member-service.ts';
import { plainTraits } from './compile-import.ts';
import { importServiceName, isImportService } from './import-marks.ts';

export const exportConditions = ['Valid', 'Ready', 'Conflict'] as const;

export type ExportOutcomes = Readonly<Record<(typeof exportConditions)[number], Outcome>>;

export interface ExportFacts {
  readonly namespace: string;
  readonly name: string;
  /** The Service of the same name in the cluster of the export. */
  readonly service: Service | undefined;
  readonly clusterID: string;
  /** For the cluster of the export. */
  readonly plan: Plan;
  /** Why this cluster does not import it. */
  readonly problem?: CopyProblem | undefined;
}

const no = (reason: string, message: string): Outcome => ({ status: 'False', reason, message });

export function exportOutcomes(facts: ExportFacts): ExportOutcomes {
  const invalid = problemOf(facts);
  if (invalid !== undefined) {
    return {
      Valid: invalid,
      Ready: no('Failed', `It is not valid. ${invalid.message}`),
      Conflict: noConflicts,
    };
  }
  return {
    Valid: { status: 'True', reason: 'Valid', message: 'Its Service can be exported.' },
    Ready: readyOutcome(facts),
    Conflict: conflictOutcome(facts.plan.voters),
  };
}

function problemOf({ namespace, name, service }: ExportFacts): Outcome | undefined {
  if (service === undefined || service.metadata.deletionTimestamp !== undefined) {
    return no(
      'NoService',
      `There is no Service ${namespace}/${name}. Create it, or delete the ServiceExport.`,
    );
  }
  if (service.spec.type === 'ExternalName') {
    return no('InvalidServiceType', 'Services of type ExternalName have no endpoints.');
  }
  if (isCopy(service) || isImportService(service)) {
    return no(
      'InvalidServiceType',
      'A Hansa site made this Service out of Services of other clusters. Export those.',
    );
  }
  return undefined;
}

/** The reason of a member Service has no place in the API, so the message tells it. */
function readyOutcome(facts: ExportFacts): Outcome {
  const { namespace, name, clusterID, plan } = facts;
  const key = keyOfMember({ clusterID, kind: 'Service', namespace, name });
  const outcome = plan.outcomes.get(key);
  if (outcome === undefined) return no('Pending', 'The site has not looked at its Service yet.');
  const { status, reason, message } = outcome;
  const texts = [
    reason === 'Federated' ? message : `${reason}: ${message}`,
    ...importProblem(facts),
  ];
  return {
    status,
    reason: status === 'False' ? 'Failed' : 'Exported',
    message: texts.join(' '),
  };
}

function importProblem({ namespace, name, problem }: ExportFacts): readonly string[] {
  const service = `${namespace}/${importServiceName(name)}`;
  switch (problem) {
    case undefined:
      return [];
    case 'ImportConflict':
      return [
        `This cluster has a ServiceImport ${namespace}/${name} that no Hansa site wrote, so it does not import the Service. Delete the ServiceImport.`,
      ];
    case 'CopyConflict':
      return [
        `This cluster has a Service ${service} of a user, so it does not import the Service. Delete ${service}.`,
      ];
    case 'CopyHasSelector':
      return [
        `The Service ${service} in this cluster has a selector, so its endpoints are no longer updated. Remove the selector.`,
      ];
  }
}

const noConflicts: Outcome = no('NoConflicts', 'All exports of this Service agree.');

interface Property {
  readonly reason: string;
  readonly title: string;
  readonly valueOf: (traits: ServiceTraits) => string;
}

const properties: readonly Property[] = [
  {
    reason: 'TypeConflict',
    title: 'type',
    valueOf: ({ isHeadless }) => (isHeadless ? 'Headless' : 'ClusterSetIP'),
  },
  {
    reason: 'SessionAffinityConflict',
    title: 'session affinity',
    valueOf: ({ sessionAffinity }) => sessionAffinity,
  },
  {
    reason: 'SessionAffinityConfigConflict',
    title: 'time of session affinity',
    valueOf: ({ timeoutSeconds }) => (timeoutSeconds === undefined ? '' : `${timeoutSeconds} s`),
  },
  {
    reason: 'IPFamilyConflict',
    title: 'IP families',
    // A headless Service has those of its endpoints: without a selector, Kubernetes says both.
    valueOf: ({ families, isHeadless }) => (isHeadless ? '' : families.toSorted().join(' and ')),
  },
];

/** Every export of the Service gets it, whichever cluster differs. `voters` begin with the oldest. */
function conflictOutcome(voters: readonly MemberService[]): Outcome {
  // A cluster that this site has not read yet says nothing.
  const known = voters.filter(({ name }) => name !== '');
  const [oldest, ...others] = known;
  if (oldest === undefined || others.length === 0) return noConflicts;
  const found = [...portConflict(known), ...properties.flatMap((each) => conflictOf(each, known))];
  if (found.length === 0) return noConflicts;
  return {
    status: 'True',
    reason: found.map(({ reason }) => reason).join(','),
    message: found.map(({ message }) => message).join(' '),
  };
}

interface Conflict {
  readonly reason: string;
  readonly message: string;
}

function conflictOf(
  { reason, title, valueOf }: Property,
  voters: readonly MemberService[],
): readonly Conflict[] {
  const values = voters.map(({ traits = plainTraits }) => valueOf(traits));
  const [decided = ''] = values;
  const differing = values.filter((value) => value !== '' && decided !== '' && value !== decided);
  if (differing.length === 0) return [];
  const message = `Conflicting ${title}. Using ${decided} from the first ServiceExport, in ${voters[0]?.clusterID}. ${differing.length} of ${voters.length} clusters differ.`;
  return [{ reason, message }];
}

/** More would make the message long. */
const mostTexts = 5;

/** The plan has ordered them. */
const asGiven = (): number => 0;

/** Ports that differ are merged. Only those that contradict each other are left out. */
function portConflict(voters: readonly MemberService[]): readonly Conflict[] {
  const portsOf = ({ ports }: MemberService): string =>
    ports
      .map(({ name, port, protocol, appProtocol = '' }) =>
        [name, port, protocol, appProtocol].join('/'),
      )
      .toSorted()
      .join();
  const [decided = ''] = voters.map(portsOf);
  const differing = voters.filter((each) => portsOf(each) !== decided);
  if (differing.length === 0) return [];
  const texts = [...agreePorts(voters, asGiven).conflicts.values()].flat().map(conflictText);
  const [oldest] = voters;
  const message = `Conflicting ports. Using all ports of all exports, and those of the first ServiceExport first, in ${oldest?.clusterID}. ${differing.length} of ${voters.length} clusters differ.`;
  return [{ reason: 'PortConflict', message: [message, ...texts.slice(0, mostTexts)].join(' ') }];
}
