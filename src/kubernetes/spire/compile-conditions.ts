// Says in conditions what became of a SpireServer: whether its federation can be configured, whether its objects
// are there, whether others reach its bundle endpoint, and what to do where that is not so. Pure.

import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';
import { manifestName } from '../../core/kube/manifests/manifest-path.ts';
import type { Exposure } from './compile-exposure.ts';
import type { CertificateProblem } from '../spire-endpoint/judge-certificate.ts';
import type { LiveObject, ObjectOutcome } from './object-applier.ts';
import type { ProbeResult } from '../spire-endpoint/probe-endpoint.ts';
import { adoptAnnotation, federationServiceName, podName, serverName } from './spire-names.ts';

export const conditionTypes = {
  valid: 'FederationConfigurationValid',
  service: 'FederationServiceReady',
  route: 'FederationRouteReady',
  /** Whether all objects are as wanted. In create-only mode, differences are only reported here. */
  objects: 'FederationObjectsInSync',
  relationships: 'FederationRelationshipsReady',
  warnings: 'FederationWarnings',
} as const;

export interface Warning {
  readonly reason:
    | 'NoCounterpart'
    | 'SameTrustDomain'
    | 'NotBootstrapped'
    | 'VersionTooOld'
    | 'RaisedLimit'
    | 'NoSidecar'
    | 'SidecarSilent'
    | 'Relationship'
    | 'OutsideNamespaces'
    | 'PeerBundle'
    | 'StuckPod';
  readonly message: string;
}

/** Why nothing was applied. */
export interface Refusal {
  readonly reason: string;
  readonly message: string;
}

export interface ServerView {
  readonly generation: number;
  /** Undefined: the objects were applied. */
  readonly refusal: Refusal | undefined;
  /** Why entries of `federatesWith` were left out. */
  readonly entryProblems: readonly string[];
  readonly isFederated: boolean;
  readonly outcomes: readonly ObjectOutcome[];
  readonly exposure: Exposure | undefined;
  readonly certificate: CertificateProblem | undefined;
  /** Why a Route or TLSRoute is not admitted. */
  readonly rejection: Refusal | undefined;
  /** Undefined: not probed. */
  readonly probe: ProbeResult | undefined;
  readonly isCreateOnly: boolean;
  readonly relationships: RelationshipCounts;
  readonly warnings: readonly Warning[];
}

export interface RelationshipCounts {
  readonly all: number;
  readonly fresh: number;
  /** The first whose bundle is fresh, although its last fetch failed. */
  readonly failing: { readonly trustDomain: string; readonly message: string } | undefined;
  /** Why the report of the sidecar is not the whole truth about what the SpireServer asks for now. */
  readonly doubt?: SidecarDoubt | undefined;
  /** Entries that do not federate, because of their namespace. */
  readonly excluded?: number;
  /** The first relationship that is not fresh, and why. */
  readonly first:
    | { readonly trustDomain: string; readonly state: string; readonly message: string }
    | undefined;
}

export interface SidecarDoubt {
  readonly status: 'False' | 'Unknown';
  readonly reason: 'Refused' | 'NotRemoved' | 'SidecarFailed' | 'Pending';
  readonly message: string;
}

type Finding = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

/** As long as a condition of Kubernetes may be, with room. */
const mostLength = 4096;

export function compileConditions(view: ServerView): readonly ConditionUpdate[] {
  const findings: readonly (readonly [type: string, finding: Finding])[] = [
    [conditionTypes.valid, validity(view)],
    [conditionTypes.objects, objectsOf(view)],
    [conditionTypes.service, serviceOf(view)],
    [conditionTypes.route, routeOf(view)],
    [conditionTypes.relationships, relationshipsFinding(view)],
    [conditionTypes.warnings, warningsOf(view)],
  ];
  return findings.map(([type, { status, reason, message }]) => ({
    type,
    status,
    reason,
    message: message.length > mostLength ? `${message.slice(0, mostLength - 1)}…` : message,
    observedGeneration: view.generation,
  }));
}

const finding = (status: Finding['status'], reason: string, message: string): Finding => ({
  status,
  reason,
  message,
});

const seeValidity = 'The server stays as it is. See FederationConfigurationValid.';

const notFederated = finding(
  'False',
  'NotFederated',
  'The SpireServer has no federation, or it is turned off.',
);

function validity(view: ServerView): Finding {
  const { refusal, entryProblems, isFederated, exposure, certificate } = view;
  if (refusal !== undefined) return finding('False', refusal.reason, refusal.message);
  if (entryProblems.length > 0) {
    return finding(
      'False',
      'Invalid',
      `${entryProblems.join('. ')}. The server keeps what it has of these trust domains. Everything else is applied.`,
    );
  }
  if (!isFederated) return finding('True', 'NotFederated', notFederated.message);
  if (certificate !== undefined) return finding('False', certificate.reason, certificate.message);
  if (exposure?.problem !== undefined) {
    return finding('False', exposure.problem.reason, exposure.problem.message);
  }
  return finding('True', 'Valid', 'The federation is configured.');
}

function objectsOf({ refusal, outcomes, isCreateOnly }: ServerView): Finding {
  if (refusal !== undefined) {
    return finding('Unknown', refusal.reason, seeValidity);
  }
  const foreign = outcomes.filter((each) => each.state === 'foreign');
  if (foreign.length > 0) {
    const which = foreign.map(({ manifest, owner }) => `${manifestName(manifest)} (by ${owner})`);
    return finding(
      'False',
      'OwnedByOthers',
      `Hansa did not make these objects and leaves them alone: ${which.join(', ')}. To hand one over, annotate it with ${adoptAnnotation}=true. Otherwise delete it.`,
    );
  }
  const refused = outcomes.filter((each) => each.state === 'refused');
  const [first] = refused;
  if (first !== undefined) {
    return finding(
      'False',
      'Refused',
      `${manifestName(first.manifest)}: the API server refuses it: ${first.message}${adviceFor(first)}`,
    );
  }
  const drift = outcomes.filter((each) => each.state === 'drift');
  if (drift.length > 0) {
    const which = drift.map(({ manifest, paths }) =>
      paths.length === 0
        ? `${manifestName(manifest)} should not exist`
        : `${manifestName(manifest)} differs in ${paths.join(', ')}`,
    );
    return finding(
      'False',
      'Drift',
      `${which.join('. ')}. Nothing was changed, because spec.createOnly is true.`,
    );
  }
  if (outcomes.some(({ state }) => state === 'leaving')) {
    return finding('Unknown', 'Waiting', 'Objects of a former SpireServer are being deleted.');
  }
  const mode = isCreateOnly
    ? ' Differences are only reported, because spec.createOnly is true.'
    : '';
  return finding('True', 'AsWanted', `All objects are as wanted.${mode}`);
}

function adviceFor({
  message,
  manifest,
}: {
  readonly message: string;
  readonly manifest: ObjectOutcome['manifest'];
}): string {
  if (/forbidden/i.test(message))
    return '. Give the site its rights: hansa spire install CLUSTER --kubeconfig FILE';
  if (manifest.kind === 'StatefulSet') {
    return `. Some fields of a StatefulSet cannot change. Delete it and keep its Pods until the new one takes over: kubectl delete statefulset ${serverName} --cascade=orphan -n ${manifest.metadata.namespace ?? ''}`;
  }
  return '';
}

function outcomeOf(
  outcomes: readonly ObjectOutcome[],
  kind: string,
  name: string,
): ObjectOutcome | undefined {
  return outcomes.find(({ manifest }) => manifest.kind === kind && manifest.metadata.name === name);
}

const liveOf = (outcome: ObjectOutcome | undefined): LiveObject | undefined =>
  outcome !== undefined && 'live' in outcome ? outcome.live : undefined;

function serviceOf({ refusal, isFederated, outcomes }: ServerView): Finding {
  if (refusal !== undefined) return finding('Unknown', refusal.reason, seeValidity);
  if (!isFederated) return notFederated;
  const service = outcomeOf(outcomes, 'Service', federationServiceName);
  if (liveOf(service) === undefined) {
    return finding(
      'False',
      'ServiceMissing',
      `The Service ${federationServiceName} is not there. See FederationObjectsInSync.`,
    );
  }
  const server = liveOf(outcomeOf(outcomes, 'StatefulSet', serverName));
  if (server === undefined) {
    return finding(
      'False',
      'ServerMissing',
      `The StatefulSet ${serverName} is not there. See FederationObjectsInSync.`,
    );
  }
  const outdated = outcomes.find(
    ({ state, manifest: { kind, metadata } }) =>
      state === 'drift' &&
      (kind === 'StatefulSet' || kind === 'ConfigMap') &&
      metadata.name === serverName,
  );
  if (outdated !== undefined) {
    return finding(
      'False',
      'ServerOutdated',
      `The ${manifestName(outdated.manifest)} is not as described, so the server may not serve the bundle endpoint. spec.createOnly is true: set it to false, or change the object yourself. See FederationObjectsInSync.`,
    );
  }
  if (!isServerReady(server)) {
    return finding(
      'False',
      'ServerNotReady',
      `No Pod of the StatefulSet ${serverName} with the current configuration is ready. To see why: kubectl describe pod ${podName} -n ${server.metadata.namespace ?? ''}`,
    );
  }
  return finding(
    'True',
    'Ready',
    `The Service ${federationServiceName} has a server that is ready.`,
  );
}

/** A Pod of the newest revision is ready. */
export function isServerReady({ metadata, status }: LiveObject): boolean {
  const found = (status ?? {}) as Readonly<Record<string, unknown>>;
  const { generation } = metadata as { readonly generation?: unknown };
  const isObserved =
    typeof generation !== 'number' || Number(found['observedGeneration'] ?? 0) >= generation;
  return (
    isObserved &&
    Number(found['readyReplicas'] ?? 0) >= 1 &&
    found['currentRevision'] === found['updateRevision']
  );
}

function routeOf(view: ServerView): Finding {
  const { refusal, isFederated, exposure, rejection, probe, outcomes } = view;
  if (refusal !== undefined) return finding('Unknown', refusal.reason, seeValidity);
  if (!isFederated) return notFederated;
  if (exposure?.problem !== undefined) {
    return finding('False', exposure.problem.reason, exposure.problem.message);
  }
  if (exposure?.manifest === undefined) {
    return finding(
      'Unknown',
      'ExposedByOthers',
      'spec.federation.exposure.type is None, so the site does not know how others reach the bundle endpoint.',
    );
  }
  const { kind, metadata } = exposure.manifest;
  if (liveOf(outcomeOf(outcomes, kind, metadata.name)) === undefined) {
    return finding(
      'False',
      'ExposureMissing',
      `The ${kind} ${metadata.name} is not there. See FederationObjectsInSync.`,
    );
  }
  if (rejection !== undefined) return finding('False', rejection.reason, rejection.message);
  if (probe === undefined) {
    return finding('Unknown', 'HostUnknown', `The ${kind} ${metadata.name} has no host yet.`);
  }
  return probe;
}

function relationshipsFinding(view: ServerView): Finding {
  const { refusal, isFederated, relationships, outcomes } = view;
  const { all, fresh, failing, first, doubt, excluded = 0 } = relationships;
  if (refusal !== undefined) return finding('Unknown', refusal.reason, seeValidity);
  if (doubt?.status === 'False') return finding(doubt.status, doubt.reason, doubt.message);
  if (!isFederated) return notFederated;
  const server = liveOf(outcomeOf(outcomes, 'StatefulSet', serverName));
  if (first === undefined && all > 0 && server !== undefined && !isServerReady(server)) {
    const message = `The last report says that the bundles of all ${all} trust domains are fresh, and since then the server is not ready. See FederationServiceReady.`;
    return finding('Unknown', 'ServerNotReady', message);
  }
  if (first === undefined && doubt !== undefined) {
    return finding(doubt.status, doubt.reason, doubt.message);
  }
  if (all === 0) return finding('True', 'None', 'The server federates with no trust domain.');
  if (first === undefined) {
    const but = failing === undefined ? '' : ` ${failing.trustDomain}: ${failing.message}`;
    const outside =
      excluded === 0
        ? ''
        : ` ${excluded} ${excluded === 1 ? 'entry does' : 'entries do'} not federate, because federation.namespaceSelector does not select the namespace.`;
    const message = `The bundles of all ${all} trust domains are fresh.${but}${outside}`;
    return finding('True', 'Fresh', message);
  }
  const status = first.state === 'Pending' || first.state === 'Bootstrapping' ? 'Unknown' : 'False';
  return finding(
    status,
    first.state,
    `${fresh} of ${all} trust domains have a fresh bundle. ${first.trustDomain}: ${first.message}`,
  );
}

function warningsOf({ warnings }: ServerView): Finding {
  const [first] = warnings;
  if (first === undefined) return finding('False', 'None', 'There are no warnings.');
  return finding('True', first.reason, warnings.map(({ message }) => message).join(' '));
}

/** Nothing was applied. */
export function refusedView(generation: number, refusal: Refusal): ServerView {
  return {
    generation,
    refusal,
    entryProblems: [],
    isFederated: false,
    outcomes: [],
    exposure: undefined,
    certificate: undefined,
    rejection: undefined,
    probe: undefined,
    isCreateOnly: false,
    relationships: { all: 0, fresh: 0, failing: undefined, first: undefined },
    warnings: [],
  };
}
