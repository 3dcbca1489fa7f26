// Parses /proc/PID/cgroup (cgroups(7)) into the control group and the systemd unit of a process. The
// kernel writes paths relative to the cgroup namespace of the reader, so a workload in its own namespace
// cannot fake its path. Pure.

/**
 * The control group of a process: its path in the unified hierarchy, otherwise in the hierarchy of
 * systemd, otherwise the path that all hierarchies have in common. Undefined if the text is not
 * reliable.
 */
export function controlGroupOf(text: string): string | undefined {
  let unified: string | undefined;
  let systemd: string | undefined;
  const others = new Set<string>();
  for (const line of text.split('\n')) {
    // hierarchy-ID:controller-list:path; the path may hold colons.
    const found = /^([0-9]+):([^:]*):(\/.*)$/.exec(line);
    if (found === null) {
      // A path with a line break in it, or something that no kernel writes.
      if (line !== '') return undefined;
      continue;
    }
    const [, hierarchy, controllers, path] = found as unknown as [string, string, string, string];
    if (hierarchy === '0' && controllers === '') unified = path;
    else if (controllers === 'name=systemd') systemd = path;
    else others.add(path);
  }
  // On a machine of the old kind the unified hierarchy exists, and everything is at its root.
  const path =
    unified === undefined || (unified === '/' && systemd !== undefined)
      ? (systemd ?? (others.size === 1 ? [...others][0] : undefined))
      : unified;
  return path !== undefined && isReliable(path) ? path : undefined;
}

/** Not outside of our own namespace, and not removed while the process was in it. */
function isReliable(path: string): boolean {
  return !path.split('/').includes('..') && !path.endsWith(' (deleted)');
}

const unitSuffix = /^.+\.(service|scope)$/;
/** systemd.unit(5): letters, digits and these; an instance after the @ is escaped to the same. */
const unitName = /^[a-zA-Z0-9:_.\\@-]{1,255}$/;

/**
 * The unit of the system's own manager that a process of this control group belongs to: the first
 * below the slices. What a user's manager calls a unit lies below `user@1000.service`, and that is
 * what its processes are: any user can name units of theirs as they like.
 */
export function systemdUnitOf(controlGroup: string): string | undefined {
  const first = controlGroup
    .split('/')
    .filter((segment) => segment !== '')
    .find((segment) => !segment.endsWith('.slice'));
  if (first === undefined) return undefined;
  // systemd puts an underscore before names that could be taken for a file of the kernel's.
  const name = first.startsWith('_') ? first.slice(1) : first;
  return unitSuffix.test(name) && unitName.test(name) ? name : undefined;
}
