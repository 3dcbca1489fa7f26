// Writes the systemd unit of an agent, and reads back which folder and user an installed unit has. Pure.

import { usageError } from '../../core/command/usage-error.ts';

/** Numbers of `src/cli/exit-codes.ts`: a restart changes nothing about these, an operator does. */
const hopelessExitCodes = {
  usage: 2,
  invalid: 3,
  conflict: 5,
  unauthenticated: 6,
  forbidden: 7,
  untrusted: 11,
  launcher: 69,
} as const;

export const unitName = 'hansa-agent.service';

export interface UnitSettings {
  /** Absolute. */
  readonly launcher: string;
  /** Absolute. */
  readonly dataDir: string;
  /** Absolute, outside of the data folder: seals the keys of workloads in the cache. */
  readonly keyFile: string;
  readonly user: string;
  /** Whether the agent may see the programs of all users. */
  readonly capabilities: boolean;
  /** Whether `hansa agent install` creates the user, so that `uninstall` removes it. */
  readonly createsUser: boolean;
}

/** What `hansa agent uninstall` needs to know. */
export type InstalledUnit = Pick<UnitSettings, 'dataDir' | 'keyFile' | 'user' | 'createsUser'>;

/** Deterministic. Throws HANSA_USAGE for a path that cannot stand in a unit. */
export function agentUnit(settings: UnitSettings): string {
  const { launcher, dataDir, keyFile, user, createsUser } = settings;
  for (const text of [launcher, dataDir, keyFile, user]) requireOneLine(text);
  const flags = `--data-dir ${quoted(dataDir)} --key-file ${quoted(keyFile)}`;
  return `# The Hansa agent: serves the SPIFFE Workload API on this machine.
# Written by hansa agent install. To change it, use: systemctl edit ${unitName}

[Unit]
Description=Hansa agent
Wants=network-online.target
After=network-online.target
# The agent retries for as long as the site is unreachable.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=${quoted(launcher)} agent run ${flags}
User=${user}
Group=${user}
Restart=on-failure
RestartSec=2
# The site or the configuration refuses the agent (hansa explain exit-codes): an operator must act first.
RestartPreventExitStatus=${Object.values(hopelessExitCodes).join(' ')}
SuccessExitStatus=143
UMask=0077
# Each connected workload needs two descriptors.
LimitNOFILE=16384
# Keys of workloads must not end up in a core dump.
LimitCORE=0

# Files: the agent writes only to its data folder.
ProtectSystem=strict
ReadWritePaths=${quoted(dataDir)}
# Read-only and not hidden: the agent compares the program of a workload with the file at its path. For
# a program below /tmp or /dev it sees no file, so no selector unix:path matches it.
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
PrivateMounts=yes
DevicePolicy=closed
# Prevents writing to the memory of other processes through /proc/PID/mem.
ReadOnlyPaths=/proc

# Processes: the agent must see all processes of the machine and their users. Do not set PrivateUsers,
# ProtectProc or ProcSubset: the agent would recognize no workload.
${capabilityLines(settings)}
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
KeyringMode=private
PrivateIPC=yes
RemoveIPC=yes
# MemoryDenyWriteExecute must stay off: V8, the engine of Node, compiles JavaScript to machine code.
MemoryDenyWriteExecute=no

# Kernel
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources @keyring @memlock userfaultfd
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target

# For hansa agent uninstall.
[X-Hansa]
DataDir=${dataDir}
KeyFile=${keyFile}
User=${user}
CreatesUser=${createsUser ? 'yes' : 'no'}
`;
}

function capabilityLines({ capabilities }: UnitSettings): string {
  if (!capabilities) {
    return `# No capability: selectors unix:path and unix:sha256 match no program of other users. All other
# selectors work.
CapabilityBoundingSet=
AmbientCapabilities=`;
  }
  return `# CAP_SYS_PTRACE reads which file a process of another user runs. Without it, selectors unix:path and
# unix:sha256 match no program of other users. With it, the agent could read the memory of every process.
# CAP_DAC_READ_SEARCH finds and reads this file in folders that are closed to the agent. Without it,
# unix:path fails below such folders, and unix:sha256 for programs that the agent may not read.
# If no entry has these selectors, install with --unprivileged.
CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH
AmbientCapabilities=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH`;
}

/** systemd.syntax(7): a line break would begin a setting of its own, in quotes too. */
function requireOneLine(path: string): void {
  // oxlint-disable-next-line no-control-regex -- these are what is refused
  if (!/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(path)) return;
  throw usageError(
    `A systemd unit cannot contain the path ${JSON.stringify(path)}: it has a line break or another control character. Choose another path.`,
  );
}

/** systemd.service(5): quotes, and specifiers and variables as plain text. */
function quoted(path: string): string {
  const plain = path.replaceAll('%', '%%').replaceAll('$', '$$$$');
  return /^[\w/.,:@+%=-]+$/.test(plain)
    ? plain
    : `"${plain.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** Undefined unless `agentUnit` wrote the text. */
export function readUnit(text: string): InstalledUnit | undefined {
  const section = /^\[X-Hansa\]\n((?:[A-Za-z]+=.*\n)*)/m.exec(text)?.[1];
  if (section === undefined) return undefined;
  const fields = new Map(
    section
      .trimEnd()
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
  const dataDir = fields.get('DataDir');
  const keyFile = fields.get('KeyFile');
  const user = fields.get('User');
  if (dataDir === undefined || keyFile === undefined || user === undefined) return undefined;
  return { dataDir, keyFile, user, createsUser: fields.get('CreatesUser') === 'yes' };
}
