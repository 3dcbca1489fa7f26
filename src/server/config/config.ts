// The configuration of a site. Sources in order of precedence: flags, HANSA_* variables, a YAML file,
// the settings remembered in the data folder, and defaults. Pure: the caller reads the files.

import { dirname } from 'node:path';
import type { Prefix } from '../../api/values/prefix.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type ConfigKey, needs, type ValuesOf } from '../../core/config/config-key.ts';
import { type ListenAddress, ValueProblem } from '../../core/config/config-values.ts';
import type { SiteSettings } from '../../core/config/plane-settings.ts';
import type { Plane } from '../../core/plane/plane.ts';
import type { ConfigFile } from './file.ts';
import { type ConfigTable, configTable, flagOf, siteKeys, variableOf } from './keys.ts';
import { nearest } from './nearest.ts';

export interface ServerConfig extends SiteSettings {
  /** Undefined: the trust domain of the data folder. */
  readonly trustDomain: string | undefined;
  readonly api: ListenAddress;
  readonly federation: ListenAddress | 'off';
  /** Proxies whose X-Forwarded-For counts, on every TLS listener. */
  readonly trustedProxies: readonly Prefix[];
  readonly metrics: ListenAddress | 'off';
  /** Undefined: derived from the trust domain and the port of the federation listener. */
  readonly advertise: string | undefined;
  /** An absolute path. Undefined: the key file in the secrets folder. */
  readonly keyFile: string | undefined;
  /** The settings of each plane, by its name. */
  readonly planes: ReadonlyMap<string, unknown>;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  readonly logFormat: 'auto' | 'text' | 'json';
  readonly limits: Limits;
}

export interface Limits {
  readonly maxRequestBytes: number;
  readonly maxHeaderBytes: number;
  readonly maxConnections: number;
  readonly maxConcurrentRequests: number;
  readonly maxWatches: number;
  readonly maxUnreadBytes: number;
  /** Per caller. 0 means no limit. */
  readonly requestsPerSecond: number;
  readonly recordsPerSecond: number;
  readonly requestSeconds: number;
  readonly drainSeconds: number;
}

export type Source =
  | { readonly from: 'flag'; readonly name: string }
  | { readonly from: 'variable'; readonly name: string }
  | { readonly from: 'file'; readonly path: string; readonly line: number }
  | { readonly from: 'remembered'; readonly path: string; readonly line: number }
  | { readonly from: 'default' };

/** The effective value of one key and its source, for `config show`. */
export interface Setting {
  readonly key: string;
  readonly declared: ConfigKey;
  /** As a user would write it. Undefined if there is neither a value nor a default. */
  readonly value: string | undefined;
  readonly source: Source;
}

export interface LoadedConfig {
  readonly config: ServerConfig;
  readonly settings: readonly Setting[];
  /**
   * Variables that look like a misspelt key (other programs may use HANSA_* names too), and values
   * that operators rarely want.
   */
  readonly warnings: readonly string[];
}

export interface ConfigInputs {
  /** The planes, which add keys to those of the site. */
  readonly planes: readonly Pick<Plane, 'name' | 'settings'>[];
  /** Values of flags, by key. */
  readonly flags: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly file?: ConfigFile;
  /** Settings of earlier starts from the data folder (remembered-settings.ts). */
  readonly remembered?: ConfigFile;
  /** The base of relative paths in flags and variables. */
  readonly cwd: string;
}

interface Given {
  readonly text: string;
  readonly source: Source;
  readonly baseFolder: string;
}

/** Throws HANSA_CONFIG_INVALID with every problem, not only the first. */
export function loadConfig(inputs: ConfigInputs): LoadedConfig {
  const table = configTable(inputs.planes);
  for (const name of Object.keys(inputs.flags)) {
    if (!table.has(name)) throw new TypeError(`There is no key ${name} for a flag`);
  }
  const files = [inputs.file, inputs.remembered].filter((file) => file !== undefined);
  const problems = files.flatMap((file) => [...file.problems, ...unknownKeys(file, table)]);
  const values = new Map<string, unknown>();
  const settings: Setting[] = [];
  for (const [name, declared] of table) {
    const given = givenFor(name, declared, inputs);
    if (given === undefined) {
      settings.push({ key: name, declared, value: undefined, source: { from: 'default' } });
      continue;
    }
    try {
      const value = declared.parse(given.text, given.baseFolder);
      values.set(name, value);
      settings.push({ key: name, declared, value: declared.format(value), source: given.source });
    } catch (error) {
      if (!(error instanceof ValueProblem)) throw error;
      const shown = JSON.stringify(given.text);
      problems.push(`${name} is ${shown} (${sourceText(given.source)}): expected ${error.message}`);
    }
  }
  refuse(problems);
  // The parsers of the keys filled the map, so each value has the type of its key.
  const own = pick(values, siteKeys) as ValuesOf<typeof siteKeys>;
  const site = assemble(own);
  // A remembered setting is not on the command line, so the message says where to remove it.
  const remembered = (...names: readonly string[]): string =>
    settings
      .filter(({ key, source }) => names.includes(key) && source.from === 'remembered')
      .map(({ key, source }) => `; ${key} is ${sourceText(source)}: to unset it, remove that line`)
      .join('');
  const parts = inputs.planes.flatMap(({ name, settings: declared }) =>
    declared === undefined ? [] : [{ name, declared, given: pick(values, declared.keys) }],
  );
  refuse([
    ...atOdds(own),
    ...parts.flatMap(({ declared, given }) => declared.problems?.(given, site, remembered) ?? []),
  ]);
  const planes = new Map<string, unknown>();
  const warnings = misspeltVariables(inputs.env, table);
  for (const { name, declared, given } of parts) {
    const read = declared.read(given, site);
    planes.set(name, read);
    warnings.push(...(declared.warnings?.(read) ?? []));
  }
  return { config: { ...site, planes }, settings, warnings };
}

function refuse(problems: readonly string[]): void {
  if (problems.length === 0) return;
  throw new HansaError(
    'HANSA_CONFIG_INVALID',
    problems.length === 1
      ? `The configuration is not valid: ${problems[0]}.`
      : `The configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`,
  );
}

/** The values of these keys, or undefined. */
function pick(
  values: ReadonlyMap<string, unknown>,
  keys: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.keys(keys).map((name) => [name, values.get(name)]));
}

/** The data folder, needed before its remembered settings can be read. Undefined if the value is not valid. */
export function dataDirFrom(inputs: ConfigInputs): string | undefined {
  const given = givenFor('dataDir', siteKeys.dataDir, inputs);
  try {
    return given && siteKeys.dataDir.parse(given.text, given.baseFolder);
  } catch (error) {
    if (error instanceof ValueProblem) return undefined;
    throw error;
  }
}

/** Describes the source of a value. */
export function sourceText(source: Source): string {
  switch (source.from) {
    case 'flag':
      return `flag ${source.name}`;
    case 'variable':
      return `variable ${source.name}`;
    case 'file':
      return `${source.path}:${source.line}`;
    case 'remembered':
      return `remembered in ${source.path}:${source.line}`;
    case 'default':
      return 'default';
  }
}

function givenFor(name: string, declared: ConfigKey, inputs: ConfigInputs): Given | undefined {
  const flag = inputs.flags[name];
  if (flag !== undefined) {
    const source = { from: 'flag', name: flagOf(name) } as const;
    return { text: flag, source, baseFolder: inputs.cwd };
  }
  for (const from of [variableOf(name), declared.otherVariable]) {
    const text = from === undefined ? undefined : inputs.env[from];
    if (from === undefined || text === undefined || text === '') continue;
    return { text, source: { from: 'variable', name: from }, baseFolder: inputs.cwd };
  }
  for (const from of ['file', 'remembered'] as const) {
    const file = inputs[from];
    const value = file?.values.get(name);
    if (file === undefined || value === undefined) continue;
    const source = { from, path: file.path, line: value.line };
    return { text: value.text, source, baseFolder: dirname(file.path) };
  }
  if (declared.default === undefined) return undefined;
  return { text: declared.default, source: { from: 'default' }, baseFolder: inputs.cwd };
}

function unknownKeys(file: ConfigFile, table: ConfigTable): string[] {
  const names = [...table.keys()];
  const problems: string[] = [];
  for (const [name, { line }] of file.values) {
    if (table.has(name)) continue;
    const meant = nearest(name, names);
    const hint = meant === undefined ? `keys are ${names.join(', ')}` : `did you mean ${meant}?`;
    problems.push(`${file.path}:${line}: there is no key ${name}; ${hint}`);
  }
  return problems;
}

/** Variables for client commands. The daemon ignores them without a warning. */
const clientVariables = [
  'HANSA_SITE',
  'HANSA_CONTEXT',
  'HANSA_HOME',
  'HANSA_CA_FILE',
  'HANSA_TOKEN_FILE',
  'HANSA_CLIENT_CERTIFICATE',
  'HANSA_CLIENT_KEY',
  'HANSA_CONFIG',
  'HANSA_DEBUG',
];

function misspeltVariables(env: ConfigInputs['env'], table: ConfigTable): string[] {
  const known = [...[...table.keys()].map(variableOf), ...clientVariables];
  return Object.keys(env)
    .filter((name) => name.startsWith('HANSA_') && !known.includes(name))
    .flatMap((name) => {
      const meant = nearest(name, known);
      return meant === undefined ? [] : [`unknown variable ${name}; did you mean ${meant}?`];
    });
}

function assemble(values: ValuesOf<typeof siteKeys>): Omit<ServerConfig, 'planes'> {
  const certFile = values['ca.upstreamCertFile'];
  const keyFile = values['ca.upstreamKeyFile'];
  return {
    dataDir: values.dataDir,
    trustDomain: values.trustDomain,
    api: values.api,
    federation: values.federation,
    trustedProxies: values['federation.trustedProxies'] ?? [],
    metrics: values.metrics,
    web: values.web,
    authority: {
      keyType: values['ca.keyType'],
      jwtKeyType: values['jwt.keyType'],
      ttlSeconds: values['ca.ttlSeconds'],
      clockTrustedUntilMs: values['ca.clockTrustedUntil'],
      upstream:
        certFile === undefined || keyFile === undefined
          ? undefined
          : { certFile, keyFile, bundleFile: values['ca.upstreamBundleFile'] },
    },
    advertise: values.advertise,
    keyFile: values.keyFile,
    logLevel: values.logLevel,
    logFormat: values.logFormat,
    limits: {
      maxRequestBytes: values['limits.maxRequestBytes'],
      maxHeaderBytes: values['limits.maxHeaderBytes'],
      maxConnections: values['limits.maxConnections'],
      maxConcurrentRequests: values['limits.maxConcurrentRequests'],
      maxWatches: values['limits.maxWatches'],
      maxUnreadBytes: values['limits.maxUnreadBytes'],
      requestsPerSecond: values['limits.requestsPerSecond'],
      recordsPerSecond: values['limits.recordsPerSecond'],
      requestSeconds: values['limits.requestSeconds'],
      drainSeconds: values['limits.drainSeconds'],
    },
  };
}

/** Conflicts between keys of the site. */
function atOdds(values: ValuesOf<typeof siteKeys>): readonly string[] {
  return [
    ...needs(values, 'ca.upstreamCertFile', 'ca.upstreamKeyFile'),
    ...needs(values, 'ca.upstreamKeyFile', 'ca.upstreamCertFile'),
    ...needs(values, 'ca.upstreamBundleFile', 'ca.upstreamCertFile'),
  ];
}
