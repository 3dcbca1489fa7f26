// The properties of an attested process, as selectors. Part of the Workload API: workloads connect to a
// Unix socket, the site attests them through the kernel, and sends them SVIDs and bundles after each
// change.
//
// Related files: matching-entries.ts (finds entries), workload-state.ts and svid-supply.ts (what a
// workload gets), delivery.ts (updates of streams), workload-server.ts (the gRPC server), apply/ (system
// calls) and ../../authorization/entitlement.ts (whether a workload gets a peer's bundle).

import {
  type ExecutableHashes,
  type FileVersion,
  fileVersionKey,
} from '../../apply/executable-hash.ts';
import type { AccountFile } from '../../apply/account-files.ts';
import type { PeerProcess } from '../../apply/peer-credentials.ts';
import { controlGroupOf, systemdUnitOf } from './control-group.ts';

/** A process as attested, in the words of selectors (those of SPIRE's unix and systemd attestors). */
export interface WorkloadProcess {
  readonly uid: number;
  readonly gid: number;
  readonly pid: number;
  /** What is true of it. The SHA-256 of its program is among them once it was asked for. */
  readonly selectors: readonly string[];
  /** The same for processes that nothing tells apart, also not their programs. */
  readonly key: string;
  /** For people: `uid 1000, gid 1000, pid 4711, /usr/bin/web`. */
  readonly description: string;
  /** Resolves when the SHA-256 of its program is among the selectors, or cannot be told. */
  hashed(): Promise<void>;
}

export type AttestedFacts = Pick<
  PeerProcess,
  'uid' | 'gid' | 'pid' | 'groups' | 'path' | 'executable' | 'controlGroups'
>;

/** What is asked of the machine beyond the process itself. */
export interface MachineFacts {
  readonly hashes: Pick<ExecutableHashes, 'of'>;
  readonly users: Pick<AccountFile, 'nameOf'>;
  readonly groups: Pick<AccountFile, 'nameOf'>;
}

export function workloadProcess(peer: AttestedFacts, machine: MachineFacts): WorkloadProcess {
  const { uid, gid, pid, groups, path, executable, controlGroups } = peer;
  const selectors = [`unix:uid:${uid}`, `unix:gid:${gid}`];
  const named = (type: string, name: string | undefined): void => {
    if (name !== undefined) selectors.push(`unix:${type}:${name}`);
  };
  named('user', machine.users.nameOf(uid));
  named('group', machine.groups.nameOf(gid));
  for (const group of groups) {
    selectors.push(`unix:supplementary_gid:${group}`);
    named('supplementary_group', machine.groups.nameOf(group));
  }
  if (path !== undefined) selectors.push(`unix:path:${path}`);
  const controlGroup = controlGroups === undefined ? undefined : controlGroupOf(controlGroups);
  const unit = controlGroup === undefined ? undefined : systemdUnitOf(controlGroup);
  if (unit !== undefined) selectors.push(`systemd:id:${unit}`);
  if (controlGroup !== undefined) selectors.push(`cgroup:${controlGroup}`);
  // Not joined by a line break, which a path may have: it could spell out what the process is not.
  const key = JSON.stringify([
    ...selectors,
    executable === undefined ? '' : fileVersionKey(executable),
  ]);
  let isHashed = executable === undefined;
  return {
    uid,
    gid,
    pid,
    selectors,
    key,
    description: `uid ${uid}, gid ${gid}, pid ${pid}, ${path ?? 'executable unknown'}${unit === undefined ? '' : `, ${unit}`}`,
    hashed: async () => {
      if (isHashed) return;
      const sha256 = await machine.hashes.of(uid, pid, executable as FileVersion);
      // Two may have asked at once; and what could not be told now may be told later.
      if (isHashed || sha256 === undefined) return;
      isHashed = true;
      selectors.push(`unix:sha256:${sha256}`);
    },
  };
}

const mostToldCharacters = 700;

/**
 * What an entry for this process could be made of, for the operator: as much as fits into a record.
 * Further groups come last, as there may be thousands of them.
 */
export function toldSelectors({ selectors }: Pick<WorkloadProcess, 'selectors'>): string {
  const isFurther = (selector: string): boolean => selector.startsWith('unix:supplementary_');
  const ordered = [
    ...selectors.filter((selector) => !isFurther(selector)),
    ...selectors.filter(isFurther),
  ];
  let told = '';
  for (const [at, selector] of ordered.entries()) {
    const next = at === 0 ? selector : `${told}, ${selector}`;
    if (next.length > mostToldCharacters) return `${told} and ${ordered.length - at} more`;
    told = next;
  }
  return told;
}
