// Contexts: named sites and users. Each context is a separate YAML file in a folder that only the user
// can open, so concurrent commands do not overwrite each other's changes. The files hold paths of
// tokens and certificates, and no secrets.

import {
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { HansaError } from '../../core/errors/error.ts';
import { maxConfigFileBytes, parseConfigFile } from '../../server/config/file.ts';
import { nearest } from '../../server/config/nearest.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { usageError } from '../../core/command/usage-error.ts';

/** Either a site by URL, or the data folder of a site on this machine. All paths are absolute. */
export interface Context {
  readonly site?: string;
  readonly dataDir?: string;
  /** With site. */
  readonly caFile?: string;
  readonly tokenFile?: string;
  readonly clientCertificate?: string;
  readonly clientKey?: string;
  /** The user of the last `hansa login`, and the file with its certificate and key. */
  readonly user?: string;
  readonly credential?: string;
}

export interface NamedContext extends Context {
  readonly name: string;
}

type Env = Readonly<Record<string, string | undefined>>;

const keys = [
  'site',
  'dataDir',
  'caFile',
  'tokenFile',
  'clientCertificate',
  'clientKey',
  'user',
  'credential',
] as const satisfies readonly (keyof Context)[];

const pathKeys: readonly (keyof Context)[] = [
  'dataDir',
  'caFile',
  'tokenFile',
  'clientCertificate',
  'clientKey',
  'credential',
];

/** Used as a file name: no slash, and no leading dot. Example: `token:ci@lubeck.example`. */
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._@:-]{0,126}$/;

/** The folder for the contexts of this user; undefined without a home folder. */
function configHome(env: Env): string | undefined {
  const own = env['HANSA_HOME'] ?? '';
  if (own !== '') {
    if (own.startsWith('/')) return own;
    throw usageError(`HANSA_HOME is ${JSON.stringify(own)}: expected an absolute path.`);
  }
  // The XDG specification ignores relative paths.
  const config = env['XDG_CONFIG_HOME'];
  if (config?.startsWith('/') === true) return join(config, 'hansa');
  const home = env['HOME'];
  return home?.startsWith('/') === true ? join(home, '.config', 'hansa') : undefined;
}

/** The contexts of one user. Reads the disk at each call. */
export class Contexts {
  readonly #home: string | undefined;

  constructor(env: Env) {
    this.#home = configHome(env);
  }

  /** Sorted by name. */
  list(): NamedContext[] {
    return this.names().map((name) => this.get(name));
  }

  /** Without damaged contexts. A command that uses one of those reports the problem. */
  usable(): NamedContext[] {
    return this.names().flatMap((name) => {
      try {
        return [this.get(name)];
      } catch (error) {
        if (error instanceof HansaError) return [];
        throw error;
      }
    });
  }

  names(): string[] {
    if (this.#home === undefined) return [];
    try {
      return readdirSync(join(this.#home, 'contexts'))
        .filter((file) => file.endsWith('.yaml'))
        .map((file) => file.slice(0, -'.yaml'.length))
        .filter((name) => namePattern.test(name))
        .toSorted();
    } catch (error) {
      if (isMissing(error)) return [];
      throw cannot('read the contexts in', join(this.#home, 'contexts'), error);
    }
  }

  has(name: string): boolean {
    return this.names().includes(name);
  }

  get(name: string): NamedContext {
    const file = this.#fileOf(name);
    const text = readPrivate(file);
    if (text === undefined) throw this.#unknown(name);
    return { name, ...parseContext(file, text) };
  }

  /** The context that commands use without --context; undefined if there is none. */
  current(): string | undefined {
    const name = this.#home && readPrivate(join(this.#home, 'current-context'))?.trim();
    return name === undefined || name === '' ? undefined : name;
  }

  /** Sets the current context; undefined unsets it. */
  use(name: string | undefined): void {
    const file = join(this.#needHome(), 'current-context');
    if (name === undefined) {
      rmSync(file, { force: true });
      return;
    }
    this.get(name);
    this.#write(file, `${name}\n`);
  }

  /** Sets the current context if there is none yet. Returns whether it did. */
  useFirst(name: string): boolean {
    const file = join(this.#needHome(), 'current-context');
    const draft = `${file}.${process.pid}.first`;
    try {
      this.#write(draft, `${name}\n`);
      // Unlike a rename, a link never replaces a file that another command has just written.
      linkSync(draft, file);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    } finally {
      rmSync(draft, { force: true });
    }
  }

  /** Creates or replaces a context. */
  put(name: string, context: Context): void {
    const file = this.#fileOf(name);
    const fields = Object.fromEntries(
      keys.flatMap((key) => (context[key] === undefined ? [] : [[key, context[key]]])),
    );
    const text = stringify(fields, { lineWidth: 0 });
    parseContext(file, text);
    this.#write(file, text);
  }

  /** Removes a context, even a damaged one. */
  remove(name: string): void {
    const file = this.#fileOf(name);
    if (!this.has(name)) throw this.#unknown(name);
    rmSync(file, { force: true });
    if (this.current() === name) this.use(undefined);
  }

  rename(name: string, next: string): void {
    const context = this.get(name);
    if (this.has(next)) throw taken(next);
    const wasCurrent = this.current() === name;
    this.put(next, context);
    if (wasCurrent) this.use(next);
    rmSync(this.#fileOf(name), { force: true });
  }

  #fileOf(name: string): string {
    if (!namePattern.test(name)) {
      throw usageError(
        `A context cannot be called ${JSON.stringify(name.slice(0, 130))}: expected at most 127 letters, digits and . _ @ : -, beginning with a letter or digit.`,
      );
    }
    return join(this.#needHome(), 'contexts', `${name}.yaml`);
  }

  #needHome(): string {
    if (this.#home !== undefined) return this.#home;
    throw usageError('Contexts need a home folder: set HOME, XDG_CONFIG_HOME or HANSA_HOME.');
  }

  #unknown(name: string): HansaError {
    const names = this.names();
    const meant = nearest(name, names);
    const hint =
      meant === undefined ? 'To list them: hansa context list.' : `Did you mean ${meant}?`;
    return new HansaError('HANSA_NOT_FOUND', `There is no context ${name}. ${hint}`);
  }

  /** Writes atomically: readers see the old file or the new one. */
  #write(file: string, text: string): void {
    const draft = `${file}.${process.pid}.next`;
    try {
      for (const folder of [this.#needHome(), join(this.#needHome(), 'contexts')]) {
        mkdirSync(folder, { recursive: true, mode: 0o700 });
      }
      writeFileSync(draft, text, { mode: 0o600, flag: 'wx' });
      renameSync(draft, file);
    } catch (error) {
      rmSync(draft, { force: true });
      throw cannot('write', file, error);
    }
  }
}

export function taken(name: string): HansaError {
  return new HansaError(
    'HANSA_ALREADY_EXISTS',
    `The context ${name} already exists. Choose another name, or remove it first: hansa context remove ${name}`,
  );
}

/** Undefined if there is no such file. Rejects a file that another user could have written. */
function readPrivate(file: string): string | undefined {
  try {
    const { mode, uid, size } = lstatSync(file);
    // oxlint-disable-next-line no-bitwise -- file modes are bits
    if ((mode & 0o170022) !== 0o100000 || uid !== process.getuid?.()) {
      throw usageError(
        `Cannot use ${file}: it must be a regular file that you own and only you can change. If you wrote it: chmod 600 ${file}`,
      );
    }
    if (size > maxConfigFileBytes) throw usageError(`Cannot use ${file}: it is too large.`);
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof HansaError) throw error;
    if (isMissing(error)) return undefined;
    throw cannot('read', file, error);
  }
}

function parseContext(path: string, text: string): Context {
  const { values, problems } = parseConfigFile(path, text);
  const found = [...problems];
  const context: Record<string, string> = {};
  for (const [key, { text: value, line }] of values) {
    const at = `${path}:${line}`;
    if (!keys.some((known) => known === key)) {
      const meant = nearest(key, keys);
      found.push(
        `${at}: there is no key ${key}; ${meant === undefined ? `keys are ${keys.join(', ')}` : `did you mean ${meant}?`}`,
      );
    } else if (pathKeys.some((known) => known === key) && !value.startsWith('/')) {
      found.push(`${at}: ${key} is ${JSON.stringify(value)}: expected an absolute path`);
    } else if (key === 'site' && !(URL.canParse(value) && new URL(value).protocol === 'https:')) {
      found.push(`${at}: site is ${JSON.stringify(value)}: expected an https URL`);
    } else context[key] = value;
  }
  if (found.length === 0) found.push(...atOdds(path, context));
  if (found.length === 0) return context;
  throw new HansaError('HANSA_CONFIG_INVALID', `The context is invalid: ${found.join('; ')}.`);
}

function atOdds(path: string, context: Context): string[] {
  const { site, dataDir, caFile, clientCertificate, clientKey } = context;
  if ((site === undefined) === (dataDir === undefined)) {
    return [`${path}: give either site or dataDir`];
  }
  if (site !== undefined && caFile === undefined) return [`${path}: site needs caFile`];
  if ((clientCertificate === undefined) !== (clientKey === undefined)) {
    return [`${path}: give clientCertificate and clientKey together`];
  }
  const extra = keys.filter((key) => key !== 'dataDir' && context[key] !== undefined);
  return dataDir === undefined || extra.length === 0
    ? []
    : [`${path}: ${extra.join(', ')} cannot be combined with dataDir, which uses the admin socket`];
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}

function cannot(what: string, path: string, error: unknown): HansaError {
  return usageError(`Cannot ${what} ${path}: ${fileProblem(error)}.`);
}
