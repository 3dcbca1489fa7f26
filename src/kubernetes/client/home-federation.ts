// Changes the list of members in the Federation of the home cluster, with the credential of the user.

import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { federationManifest, type MemberEntry } from '../manifests/membership-manifests.ts';
import {
  explained,
  type FederationObject,
  federationPath,
  membersOf,
  readFederation,
} from './cluster-facts.ts';

/** Somebody else who changes it as often as this is a program. */
const maxTries = 5;

/**
 * Replaces the members with what `change` returns; undefined: they stay. Creates the Federation where there is
 * none. Repeats after a conflict, so that two commands at once lose nothing. Returns whether it changed something.
 */
export async function changeMembers(
  kube: KubeClient,
  clusterSet: string,
  change: (members: readonly MemberEntry[]) => readonly MemberEntry[] | undefined,
): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    const found = await readFederation(kube);
    const members = change(membersOf(found));
    if (members === undefined) return false;
    try {
      await write(kube, found, clusterSet, members);
      return true;
    } catch (error) {
      if (!(error instanceof KubeStatusError)) throw error;
      if (error.status === 409 && attempt < maxTries) continue;
      throw failure(error);
    }
  }
}

function write(
  kube: KubeClient,
  found: FederationObject | undefined,
  clusterSet: string,
  members: readonly MemberEntry[],
): Promise<unknown> {
  if (found === undefined) {
    const collection = federationPath.slice(0, federationPath.lastIndexOf('/'));
    return kube.create(collection, federationManifest(clusterSet, members));
  }
  // With its resourceVersion.
  return kube.replace(federationPath, { ...found, spec: { ...found.spec, members } });
}

function failure(error: KubeStatusError): HansaError {
  if (error.status === 409) {
    return new HansaError(
      'HANSA_CONFLICT',
      'Cannot change Federation in the home cluster: another program changes it all the time. Run the command again.',
      { cause: error },
    );
  }
  if (error.status === 422) {
    return new HansaError(
      'HANSA_INVALID',
      `Cannot change Federation in the home cluster: ${error.serverMessage}`,
      { cause: error },
    );
  }
  return explained(error);
}

/** The entry of one member becomes `entry`. */
export function withMember(
  members: readonly MemberEntry[],
  entry: MemberEntry,
): readonly MemberEntry[] | undefined {
  const known = members.find(({ clusterID }) => clusterID === entry.clusterID);
  if (known === undefined) return [...members, entry];
  if (JSON.stringify(known) === JSON.stringify(entry)) return undefined;
  return members.map((each) => (each === known ? entry : each));
}

export function withoutMember(
  members: readonly MemberEntry[],
  id: string,
): readonly MemberEntry[] | undefined {
  const left = members.filter(({ clusterID }) => clusterID !== id);
  return left.length === members.length ? undefined : left;
}
