// The layout of the data folder of an agent, and the lock that allows one process per folder.

import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { usageError } from '../../core/command/usage-error.ts';
import { parseDataDir, ValueProblem } from '../../core/config/config-values.ts';
import { HansaError } from '../../core/errors/error.ts';
import { readDataFile } from '../../core/plane/data-files.ts';
import { prepareFolders, userOfFolder } from '../../core/plane/data-folders.ts';

export interface AgentFolder {
  readonly path: string;
  /** Only this user can read it. */
  readonly secrets: string;
  /** The SVID of the agent, the bundle of the site, and the data for renewals (JoinFolder). */
  readonly identity: string;
  /** The newest state of the site. */
  readonly stateFile: string;
  /** The newest version and the time of the last contact. */
  readonly contactFile: string;
  /** SVIDs of workloads, sealed. */
  readonly svidsFile: string;
  /** The flags of earlier starts. */
  readonly settingsFile: string;
  /** For `hansa agent status`. */
  readonly statusFile: string;
  readonly lock: string;
}

export function agentFolderAt(path: string): AgentFolder {
  const secrets = join(path, 'secrets');
  return {
    path,
    secrets,
    identity: join(secrets, 'identity'),
    stateFile: join(secrets, 'agent-state'),
    contactFile: join(secrets, 'agent-contact.json'),
    svidsFile: join(secrets, 'agent-svids'),
    settingsFile: join(path, 'agent-settings.json'),
    statusFile: join(path, 'agent-status.json'),
    lock: join(secrets, 'agent'),
  };
}

/** Throws HANSA_USAGE where the path is too long for the sockets of the agent. */
export function agentDataDir(text: string, baseFolder: string): string {
  try {
    return parseDataDir(text, baseFolder);
  } catch (error) {
    if (!(error instanceof ValueProblem)) throw error;
    throw usageError(`--data-dir must be ${error.message}.`);
  }
}

/** What in the folder is sealed with the key-encryption key, for the message when that is lost. */
export function sealedIn(path: string): string | undefined {
  const { svidsFile } = agentFolderAt(path);
  return existsSync(svidsFile)
    ? `${svidsFile} (the agent works without it: to start with a new key, remove it)`
    : undefined;
}

/** Whether the folder is that of an agent that has joined a site. */
export function hasJoined(path: string): boolean {
  return existsSync(join(agentFolderAt(path).identity, 'join.json'));
}

/** Throws HANSA_FORBIDDEN where another user owns the secrets: they look as if they did not exist. */
export function requireReadable(path: string): void {
  const { secrets } = agentFolderAt(path);
  try {
    readdirSync(secrets);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EACCES' || !existsSync(secrets)) return;
    throw new HansaError(
      'HANSA_FORBIDDEN',
      `Cannot read ${secrets}: it belongs to user ${statSync(secrets).uid}. Run the command as that user, or choose another --data-dir.`,
      { cause },
    );
  }
}

/** Throws HANSA_CONFIG_INVALID for the data folder of a site. */
export function refuseSiteFolder(path: string): void {
  if (userOfFolder(path) !== 'site') return;
  throw new HansaError(
    'HANSA_CONFIG_INVALID',
    `Cannot run an agent in ${path}: it is the data folder of a site. The site serves its own machine; for an agent, choose another --data-dir.`,
  );
}

/** Creates the folders. Throws HANSA_CONFIG_INVALID for the data folder of a site. */
export function prepareAgentFolder(path: string): AgentFolder {
  refuseSiteFolder(path);
  prepareFolders(path);
  return agentFolderAt(path);
}

const maxJsonBytes = 256 * 1024;

/**
 * Undefined where the file does not exist or does not contain a JSON object. Throws HANSA_CONFIG_INVALID where
 * another user owns it or can write to it.
 */
export function readJsonFile(path: string): Readonly<Record<string, unknown>> | undefined {
  const text = readDataFile(path, maxJsonBytes)?.toString('utf8');
  if (text === undefined) return undefined;
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === 'object' && read !== null && !Array.isArray(read)
      ? (read as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
