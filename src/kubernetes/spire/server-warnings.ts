// Warnings about a SPIRE server whose federation is configured, but may not work as its user expects. Pure.

import { defaultMaxFederatedClusters } from '../../api/kinds/spire-server.ts';
import type { SpireSettings } from '../settings.ts';
import type { Warning } from './compile-conditions.ts';
import {
  type RelationshipEntry,
  silentAfterSeconds,
} from '../spire-relationships/relationship-status.ts';
import type { Relationship } from '../spire-relationships/parse-relationship.ts';
import { isTooOld, spireVersionIn } from './server-image.ts';
import type { StatusDocument } from '../spire-relationships/sidecar-contract.ts';
import { serverName } from './spire-names.ts';
import type { SpireMark } from '../marked/marks.ts';

export interface WarningQuestion {
  readonly settings: Pick<SpireSettings, 'serverImage' | 'sidecarImage'>;
  readonly mark: Pick<SpireMark, 'maxFederatedClusters' | 'namespace'>;
  readonly by: 'ControllerManager' | 'Sidecar';
  readonly reported: StatusDocument | undefined;
  readonly relationships: readonly Relationship[];
  readonly entries: readonly RelationshipEntry[];
  /** Trust domains whose first bundle is in an object for spire-controller-manager. */
  readonly bundled: ReadonlySet<string>;
  readonly nowMs: number;
}

export function serverWarnings(question: WarningQuestion): readonly Warning[] {
  const { settings, mark, by, reported, relationships, entries, bundled, nowMs } = question;
  const found: Warning[] = [];
  const warn = (reason: Warning['reason'], message: string): void => {
    found.push({ reason, message });
  };
  // The server knows better than the tag, but a sidecar may be unable to ask it.
  const version =
    spireVersionIn(reported?.spireVersion ?? '') ?? spireVersionIn(settings.serverImage);
  if (version !== undefined && isTooOld(version)) {
    warn(
      'VersionTooOld',
      `SPIRE ${version.major}.${version.minor} cannot federate as configured here. Use SPIRE 1.5.0 or newer.`,
    );
  }
  if (mark.maxFederatedClusters > defaultMaxFederatedClusters) {
    warn(
      'RaisedLimit',
      `The limit of trust domains is raised to ${mark.maxFederatedClusters}. Tests cover ${defaultMaxFederatedClusters}: watch the memory of the SPIRE server and how long it takes to issue an SVID.`,
    );
  }
  if (by === 'Sidecar' && relationships.length > 0) {
    if (settings.sidecarImage === undefined) {
      warn(
        'NoSidecar',
        'Nothing hands the relationships to SPIRE: the cluster has no ClusterFederatedTrustDomains, and the setting kubernetes.spire.sidecarImage names no image. Set it to an image with hansa as its entry point, or install spire-controller-manager.',
      );
    } else if (
      reported !== undefined &&
      nowMs - Date.parse(reported.observedAt) > silentAfterSeconds * 1000
    ) {
      warn(
        'SidecarSilent',
        `The sidecar has not reported for more than ${silentAfterSeconds / 60} minutes, so the state of the relationships may be old. To see why, read its log: kubectl logs statefulset/${serverName} -c hansa -n ${mark.namespace}`,
      );
    }
  }
  const unbootstrapped = new Set(
    entries
      // Beside spire-controller-manager, nobody says whether SPIRE has a bundle.
      .filter(({ reason }) =>
        ['NoBundle', 'FetchFailed', 'ControllerManager'].includes(reason ?? ''),
      )
      .map(({ trustDomain }) => trustDomain),
  );
  const needy = relationships
    .filter(({ profile, bundle }) => profile === 'https_spiffe' && bundle === undefined)
    .map(({ trustDomain }) => trustDomain)
    .filter((trustDomain) => unbootstrapped.has(trustDomain))
    .filter((trustDomain) => by === 'Sidecar' || !bundled.has(trustDomain));
  if (needy.length > 0) {
    const doubt =
      by === 'ControllerManager'
        ? ' No object names it, and the site cannot see whether SPIRE has it already. To name it: hansa spire bootstrap.'
        : ' To give it: hansa spire bootstrap.';
    warn(
      'NotBootstrapped',
      `SPIRE needs the first bundle of ${needy.join(', ')} from you, because https_spiffe authenticates the endpoint with it.${doubt}`,
    );
  }
  return found;
}
