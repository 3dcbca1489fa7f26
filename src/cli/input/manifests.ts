// Reads manifests (YAML or JSON, with several documents per file) from files, folders or standard input.
// It checks only apiVersion, kind and name; the site validates the rest.

import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { LineCounter, parseAllDocuments } from 'yaml';
import type { Kind } from '../../api/kind.ts';
import { apiVersion, type JsonObject } from '../../api/object.ts';
import type { ConvertedManifest, ManifestConverter } from '../../core/plane/command-line.ts';
import type { Registry } from '../../api/registry.ts';
import { HansaError } from '../../core/errors/error.ts';
import { nearest } from '../../server/config/nearest.ts';
import type { Cli } from '../cli.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { Io } from '../../core/plane/command-kit.ts';

export interface Manifest {
  readonly kind: Kind;
  readonly name: string;
  readonly object: JsonObject;
  /** `file:line`, for messages. */
  readonly where: string;
  /** Returns the object for an apply, if it differs from `object`. */
  readonly complete?: ConvertedManifest['complete'];
}

/** The manifests that are accepted: our kinds, and kinds that planes convert into ours. */
export interface KnownManifests {
  readonly registry: Registry;
  readonly converters: readonly ManifestConverter[];
}

/** Many times the largest object that a site accepts. */
const maxFileBytes = 16 * 1024 * 1024;

export async function loadManifests(
  paths: readonly string[],
  { io, registry, planes }: Pick<Cli, 'io' | 'registry' | 'planes'>,
): Promise<Manifest[]> {
  const known: KnownManifests = {
    registry,
    converters: planes.flatMap(({ manifests: convert }) => convert ?? []),
  };
  const texts: { shown: string; text: string }[] = [];
  for (const path of paths) {
    if (path === '-') {
      texts.push({ shown: 'standard input', text: await readStdin(io) });
      continue;
    }
    for (const file of manifestFiles(resolve(io.cwd, path), path)) {
      texts.push({ shown: file.shown, text: readText(file.path, file.shown) });
    }
  }
  const manifests = everyOf(texts, ({ shown, text }) => parseManifests(shown, text, known));
  if (manifests.length === 0) {
    const places = paths.map((path) => (path === '-' ? 'standard input' : path));
    throw usageError(`There is no object in ${places.join(', ')}.`);
  }
  return manifests;
}

/** As flatMap, but collects all errors and reports them together. */
function everyOf<T>(items: readonly T[], read: (item: T) => Manifest[]): Manifest[] {
  const manifests: Manifest[] = [];
  const refused: HansaError[] = [];
  for (const item of items) {
    try {
      manifests.push(...read(item));
    } catch (error) {
      if (!(error instanceof HansaError)) throw error;
      refused.push(error);
    }
  }
  const [first, ...others] = refused;
  if (first === undefined) return manifests;
  if (others.length === 0) throw first;
  throw new HansaError(first, refused.map(({ message }) => message).join('\n'));
}

async function readStdin(io: Io): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of io.stdin as AsyncIterable<Buffer | string>) {
    const bytes = Buffer.from(chunk);
    length += bytes.length;
    if (length > maxFileBytes) throw tooLarge('standard input');
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The file itself, or the manifests of a folder sorted by name, without subfolders. */
function manifestFiles(path: string, shown: string): { path: string; shown: string }[] {
  try {
    if (!statSync(path).isDirectory()) return [{ path, shown }];
    return readdirSync(path)
      .filter((name) => /\.(?:ya?ml|json)$/.test(name))
      .toSorted()
      .map((name) => ({ path: join(path, name), shown: join(shown, name) }));
  } catch (error) {
    throw usageError(`Cannot read ${shown}: ${fileProblem(error)}.`);
  }
}

function readText(path: string, shown: string): string {
  try {
    if (statSync(path).size > maxFileBytes) throw tooLarge(shown);
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw usageError(`Cannot read ${shown}: ${fileProblem(error)}.`);
  }
}

function tooLarge(shown: string): HansaError {
  const message = `${shown} is larger than ${maxFileBytes} bytes. Split it into several files.`;
  return new HansaError('HANSA_TOO_LARGE', message);
}

export function parseManifests(shown: string, text: string, known: KnownManifests): Manifest[] {
  const lineCounter = new LineCounter();
  // YAML 1.2 includes JSON. The parser limits aliases (maxAliasCount).
  const documents = parseAllDocuments(text, { lineCounter, prettyErrors: false, version: '1.2' });
  return everyOf(Array.isArray(documents) ? documents : [], (document) => {
    const lineAt = (offset: number): number => lineCounter.linePos(offset).line;
    const [error] = document.errors;
    if (error !== undefined) {
      const where = `${shown}:${lineAt(error.pos[0])}`;
      throw new HansaError('HANSA_BAD_REQUEST', `${where} is not YAML or JSON: ${error.message}`);
    }
    // A document that contains only comments is empty.
    const value: unknown = toValue(document, shown);
    if (value === null || value === undefined) return [];
    const where = `${shown}:${lineAt(document.contents?.range?.[0] ?? 0)}`;
    return manifestsOf(value, where, known);
  });
}

function toValue(document: { toJS(): unknown }, shown: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    // The only possible error here: too many aliases (a "billion laughs").
    const message = `${shown} cannot be expanded: ${(error as Error).message}`;
    throw new HansaError('HANSA_BAD_REQUEST', message);
  }
}

function manifestsOf(value: unknown, where: string, known: KnownManifests): Manifest[] {
  const refuse = (why: string): never => {
    throw new HansaError('HANSA_BAD_REQUEST', `${where}: ${why}`);
  };
  if (!isRecord(value)) return refuse('a manifest must be an object with apiVersion and kind.');
  for (const convert of known.converters) {
    const converted = convert(value, refuse);
    if (converted === undefined) continue;
    return converted.flatMap(({ object, complete }) =>
      manifestsOf(object, where, known).map((manifest) =>
        complete === undefined ? manifest : { ...manifest, complete },
      ),
    );
  }
  const { apiVersion: version, kind: kindName, metadata } = value;
  if (kindName === 'List' && Array.isArray(value['items'])) {
    return everyOf(value['items'], (item: unknown) => manifestsOf(item, where, known));
  }
  if (version !== apiVersion) {
    const given = version === undefined ? 'missing' : JSON.stringify(version);
    return refuse(`apiVersion is ${given}, expected ${apiVersion}.`);
  }
  const kind = typeof kindName === 'string' ? known.registry.byKind(kindName) : undefined;
  if (kind === undefined) {
    const kinds = known.registry.kinds.map((candidate) => candidate.kind);
    const meant = typeof kindName === 'string' ? nearest(kindName, kinds) : undefined;
    const hint =
      meant === undefined ? `The kinds are ${kinds.join(', ')}.` : `Did you mean ${meant}?`;
    return refuse(`there is no kind ${JSON.stringify(kindName)}. ${hint}`);
  }
  const name = isRecord(metadata) ? metadata['name'] : undefined;
  if (typeof name !== 'string' || name === '') return refuse('metadata.name is missing.');
  return [{ kind, name, object: value, where }];
}

function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
