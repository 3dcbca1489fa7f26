// Reads the CPU time and memory of a process from /proc. On a shared machine, the CPU time of an
// operation says more than its wall-clock rate.

import { readFileSync } from 'node:fs';

/** USER_HZ: fixed at 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/** User and system time of all threads of these processes since they started. */
export function cpuSeconds(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command name (field 2) may hold spaces; what follows its closing parenthesis may not.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks / TICKS_PER_SECOND;
}

/** Resident memory without what is shared with other processes through files. */
export function residentBytes(pids: readonly number[]): number {
  let kibibytes = 0;
  for (const pid of pids) {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    kibibytes += Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0);
  }
  return kibibytes * 1024;
}
