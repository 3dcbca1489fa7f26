// The Workload API: workloads on this machine connect to a Unix socket, are recognized by what the
// kernel says of them, and are given SVIDs and bundles, which are pushed again whenever they change.
//
// Here live the recognizing (this file, matching-entries.ts), what a workload gets (workload-state.ts,
// svid-supply.ts), the pushing (delivery.ts), and the gRPC service around it (workload-server.ts).
// What the operating system is asked is below apply/. Whether a peer's bundle may be given is
// decided in ../entitlement.ts.

import type { PeerProcess } from './apply/peer-credentials.ts';

/** A process as attested, in the words of selectors (those of SPIRE's unix attestor). */
export interface WorkloadProcess {
  readonly uid: number;
  readonly gid: number;
  readonly pid: number;
  readonly selectors: readonly string[];
  /** The same for processes that nothing tells apart. */
  readonly key: string;
  /** For people: `uid 1000, gid 1000, pid 4711, /usr/bin/web`. */
  readonly description: string;
}

export function workloadProcess(
  peer: Pick<PeerProcess, 'uid' | 'gid' | 'pid' | 'path'>,
): WorkloadProcess {
  const { uid, gid, pid, path } = peer;
  const selectors = [`unix:uid:${uid}`, `unix:gid:${gid}`];
  if (path !== undefined) selectors.push(`unix:path:${path}`);
  return {
    uid,
    gid,
    pid,
    selectors,
    key: selectors.join('\n'),
    description: `uid ${uid}, gid ${gid}, pid ${pid}, ${path ?? 'executable unknown'}`,
  };
}
