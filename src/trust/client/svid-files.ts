// The PEM files of an SVID in a folder, as other programs expect them. A failed write leaves the
// folder as it was: it writes new files beside the old ones, and renames them when all are
// complete.

import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileProblem } from '../../core/command/file-problem.ts';
import { writeNewFile } from '../../core/command/new-file.ts';
import { usageError } from '../../core/command/usage-error.ts';

export interface SvidFiles {
  readonly certificate: string;
  readonly privateKey: string;
  /** The authorities of the SVID's own trust domain. */
  readonly bundle: string;
  /**
   * Bundles by SPIFFE ID of the trust domain, for `federated.NAME.pem`. Files of other trust domains
   * are removed: the site does not trust those any more. Undefined: leave all such files alone.
   */
  readonly federated?: ReadonlyMap<string, string>;
}

export function writeSvidFiles(folder: string, files: SvidFiles): void {
  // Its key is certified with the one that it holds now: without it the member could not renew.
  if (existsSync(join(folder, 'join.json'))) {
    throw usageError(
      `Cannot write the SVID into ${folder}: it belongs to hansa join. Choose another folder.`,
    );
  }
  const laid: string[] = [];
  let made: string | undefined;
  try {
    made = mkdirSync(folder, { recursive: true, mode: 0o700 });
    const contents = contentsOf(files);
    for (const [name] of contents) refuseFolder(join(folder, name));
    for (const [name, content, mode] of contents) {
      const next = join(folder, `${name}.next`);
      laid.push(next);
      writeNewFile(next, content, mode);
    }
    // Readers see the old file or the new one, never half of it.
    for (const [name] of contents) renameSync(join(folder, `${name}.next`), join(folder, name));
    if (files.federated !== undefined) removeOthers(folder, contents);
  } catch (error) {
    for (const next of laid) rmSync(next, { force: true });
    if (made !== undefined) removeMade(folder, made);
    throw usageError(`Cannot write the SVID into ${folder}: ${fileProblem(error)}.`);
  }
}

type Content = readonly [name: string, content: string, mode: number];

/** The key first: a program that reads a new certificate finds its key. */
function contentsOf({
  privateKey,
  certificate,
  bundle,
  federated = new Map(),
}: SvidFiles): Content[] {
  const others = [...federated].map(
    ([id, pem]): Content => [`federated.${id.slice('spiffe://'.length)}.pem`, pem, 0o644],
  );
  return [
    ['svid.key', privateKey, 0o600],
    ['svid.pem', certificate, 0o644],
    ['bundle.pem', bundle, 0o644],
    ...others,
  ];
}

function refuseFolder(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return;
  throw new Error(`${path} is a folder`);
}

function removeOthers(folder: string, contents: readonly Content[]): void {
  const written = new Set(contents.map(([name]) => name));
  for (const name of readdirSync(folder)) {
    if (/^federated\..+\.pem$/.test(name) && !written.has(name)) rmSync(join(folder, name));
  }
}

/** Folders that `mkdir` made, from the innermost up to `made`, as long as they are empty. */
export function removeMade(folder: string, made: string): void {
  try {
    for (let path = folder; path.startsWith(made); path = dirname(path)) rmdirSync(path);
  } catch {
    // Another program uses it by now.
  }
}
