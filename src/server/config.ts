// The configuration of a site: one schema (config-keys.ts) for flags, HANSA_* variables, a YAML file
// and the settings that the data folder remembers, in this order of precedence, with defaults below.
// Pure: the caller reads the files.

import { dirname } from 'node:path';
import { HansaError } from '../core/errors/error.ts';
import type { ConfigFile } from './config-file.ts';
import {
  type ConfigKey,
  type ConfigKeyName,
  type ConfigValue,
  configKeyNames,
  configKeys,
  flagOf,
  variableOf,
} from './config-keys.ts';
import { nearest } from './config-nearest.ts';
import { type ListenAddress, ValueProblem } from './config-values.ts';
import type { TrustSettings, WebCertificateSettings } from '../trust/trust-settings.ts';

export interface ServerConfig {
  /** Absolute. */
  readonly dataDir: string;
  /** Undefined: the one of the data folder. */
  readonly trustDomain: string | undefined;
  readonly api: ListenAddress;
  readonly federation: ListenAddress | 'off';
  readonly metrics: ListenAddress | 'off';
  /** Undefined: made from the trust domain and the port of the federation listener. */
  readonly advertise: string | undefined;
  /** Absolute. Undefined: the site's own, in the secrets folder. */
  readonly keyFile: string | undefined;
  readonly web: ListenAddress | 'off';
  readonly trust: TrustSettings;
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
  readonly maxUnreadWatchBytes: number;
  /** For one caller; 0 is no limit. */
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

/** One key as it came out, for `config show`. */
export interface Setting {
  readonly key: ConfigKeyName;
  /** As a user would write it; undefined where there is neither a value nor a default. */
  readonly value: string | undefined;
  readonly source: Source;
}

export interface LoadedConfig {
  readonly config: ServerConfig;
  readonly settings: readonly Setting[];
  /**
   * Not errors: variables that look like a misspelt key, because others may own names that begin with
   * HANSA_, and values that an operator may want, but seldom does.
   */
  readonly warnings: readonly string[];
}

export interface ConfigInputs {
  /** By key, as given on the command line. */
  readonly flags: Readonly<Partial<Record<ConfigKeyName, string>>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly file?: ConfigFile;
  /** What the data folder remembers of earlier starts (remembered-settings.ts). */
  readonly remembered?: ConfigFile;
  /** What relative paths in flags and variables are relative to. */
  readonly cwd: string;
}

interface Given {
  readonly text: string;
  readonly source: Source;
  readonly baseFolder: string;
}

/** Throws HANSA_CONFIG_INVALID with every problem, not only the first. */
export function loadConfig(inputs: ConfigInputs): LoadedConfig {
  const files = [inputs.file, inputs.remembered].filter((file) => file !== undefined);
  const problems = files.flatMap((file) => [...file.problems, ...unknownKeys(file)]);
  const values = new Map<ConfigKeyName, unknown>();
  const settings: Setting[] = [];
  for (const name of configKeyNames) {
    const declared: ConfigKey<unknown> = configKeys[name];
    const given = givenFor(name, declared, inputs);
    if (given === undefined) {
      settings.push({ key: name, value: undefined, source: { from: 'default' } });
      continue;
    }
    try {
      const value = declared.parse(given.text, given.baseFolder);
      values.set(name, value);
      settings.push({ key: name, value: declared.format(value), source: given.source });
    } catch (error) {
      if (!(error instanceof ValueProblem)) throw error;
      const shown = JSON.stringify(given.text);
      problems.push(
        `${name} is ${shown} (${sourceText(given.source)}): accepted is ${error.message}`,
      );
    }
  }
  if (problems.length === 0) problems.push(...atOdds(values, settings));
  if (problems.length > 0) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      problems.length === 1
        ? `The configuration is not accepted: ${problems[0]}.`
        : `The configuration is not accepted:\n${problems.map((problem) => `  ${problem}`).join('\n')}`,
    );
  }
  const config = assemble(values);
  const warnings = [...misspeltVariables(inputs.env), ...doubtful(config)];
  return { config, settings, warnings };
}

/** The data folder, before its own settings can be read. Undefined where the value is not accepted. */
export function dataDirFrom(inputs: ConfigInputs): string | undefined {
  const given = givenFor('dataDir', configKeys.dataDir, inputs);
  try {
    return given && configKeys.dataDir.parse(given.text, given.baseFolder);
  } catch (error) {
    if (error instanceof ValueProblem) return undefined;
    throw error;
  }
}

/** Where a value came from, in words. */
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

/** Names that other programs gave to the same setting. */
const otherVariables: Readonly<Partial<Record<ConfigKeyName, string>>> = {
  maxFederations: 'MAX_FEDERATED_CLUSTERS',
};

function givenFor(
  name: ConfigKeyName,
  declared: ConfigKey<unknown>,
  inputs: ConfigInputs,
): Given | undefined {
  const flag = inputs.flags[name];
  if (flag !== undefined) {
    const source = { from: 'flag', name: flagOf(name) } as const;
    return { text: flag, source, baseFolder: inputs.cwd };
  }
  for (const from of [variableOf(name), otherVariables[name]]) {
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

function unknownKeys(file: ConfigFile): string[] {
  const problems: string[] = [];
  for (const [name, { line }] of file.values) {
    if (Object.hasOwn(configKeys, name)) continue;
    const meant = nearest(name, configKeyNames);
    const hint =
      meant === undefined ? `keys are ${configKeyNames.join(', ')}` : `did you mean ${meant}?`;
    problems.push(`${file.path}:${line}: there is no key ${name}; ${hint}`);
  }
  return problems;
}

/** Variables of commands that call a site; they mean nothing to the daemon, but are no mistakes. */
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

function misspeltVariables(env: ConfigInputs['env']): string[] {
  const known = [...configKeyNames.map(variableOf), ...clientVariables];
  return Object.keys(env)
    .filter((name) => name.startsWith('HANSA_') && !known.includes(name))
    .flatMap((name) => {
      const meant = nearest(name, known);
      return meant === undefined ? [] : [`${name} is not known; did you mean ${meant}?`];
    });
}

function assemble(values: ReadonlyMap<ConfigKeyName, unknown>): ServerConfig {
  // The map was filled by the parsers of the same table, so each value has its key's type.
  const optional = <K extends ConfigKeyName>(name: K): ConfigValue<K> | undefined =>
    values.get(name) as ConfigValue<K> | undefined;
  const value = <K extends ConfigKeyName>(name: K): ConfigValue<K> =>
    values.get(name) as ConfigValue<K>;
  const acmeName = optional('acme.domainName');
  const upstreamCertFile = optional('ca.upstreamCertFile');
  const upstreamKeyFile = optional('ca.upstreamKeyFile');
  const trust: TrustSettings = {
    refreshHintSeconds: value('bundle.refreshHintSeconds'),
    maxFederations: value('maxFederations'),
    web: value('web') === 'off' ? undefined : webCertificate(optional, value),
    jwtIssuer:
      optional('jwt.issuer') ?? (acmeName === undefined ? undefined : `https://${acmeName}`),
    authority: {
      keyType: value('ca.keyType'),
      jwtKeyType: value('jwt.keyType'),
      ttlSeconds: value('ca.ttlSeconds'),
      spreadSeconds: optional('ca.spreadSeconds') ?? 2 * value('bundle.refreshHintSeconds'),
      receiptDeadlineSeconds: value('ca.receiptDeadlineSeconds'),
      clockTrustedUntilMs: optional('ca.clockTrustedUntil'),
      upstream:
        upstreamCertFile === undefined || upstreamKeyFile === undefined
          ? undefined
          : {
              certFile: upstreamCertFile,
              keyFile: upstreamKeyFile,
              bundleFile: optional('ca.upstreamBundleFile'),
            },
    },
  };
  return {
    dataDir: value('dataDir'),
    trustDomain: optional('trustDomain'),
    api: value('api'),
    federation: value('federation'),
    metrics: value('metrics'),
    web: value('web'),
    trust,
    planes: new Map([['trust', trust]]),
    advertise: optional('advertise'),
    keyFile: optional('keyFile'),
    logLevel: value('logLevel'),
    logFormat: value('logFormat'),
    limits: {
      maxRequestBytes: value('limits.maxRequestBytes'),
      maxHeaderBytes: value('limits.maxHeaderBytes'),
      maxConnections: value('limits.maxConnections'),
      maxConcurrentRequests: value('limits.maxConcurrentRequests'),
      maxWatches: value('limits.maxWatches'),
      maxUnreadWatchBytes: value('limits.maxUnreadWatchBytes'),
      requestsPerSecond: value('limits.requestsPerSecond'),
      recordsPerSecond: value('limits.recordsPerSecond'),
      requestSeconds: value('limits.requestSeconds'),
      drainSeconds: value('limits.drainSeconds'),
    },
  };
}

type Optional = <K extends ConfigKeyName>(name: K) => ConfigValue<K> | undefined;
type Value = <K extends ConfigKeyName>(name: K) => ConfigValue<K>;

function webCertificate(optional: Optional, value: Value): WebCertificateSettings | undefined {
  const certFile = optional('servingCert.certFile');
  const keyFile = optional('servingCert.keyFile');
  if (certFile !== undefined && keyFile !== undefined) {
    return {
      from: 'files',
      certFile,
      keyFile,
      fileSyncSeconds: value('servingCert.fileSyncInterval'),
    };
  }
  const directoryUrl = optional('acme.directoryUrl');
  const domainName = optional('acme.domainName');
  if (directoryUrl === undefined || domainName === undefined) return undefined;
  return {
    from: 'acme',
    directoryUrl,
    domainName,
    email: optional('acme.email'),
    challenge: value('acme.challenge'),
    httpAddress: value('acme.httpAddress'),
    caFile: optional('acme.caFile'),
  };
}

function doubtful({ trust: { authority, refreshHintSeconds } }: ServerConfig): string[] {
  const { spreadSeconds } = authority;
  if (spreadSeconds >= refreshHintSeconds) return [];
  return [
    `ca.spreadSeconds (${spreadSeconds}) is less than bundle.refreshHintSeconds (${refreshHintSeconds}): a new authority may sign before those who fetch the bundle as often as hinted hold it. Leave ca.spreadSeconds out, or set it to ${2 * refreshHintSeconds} or more.`,
  ];
}

/** Problems of several keys together. */
function atOdds(
  values: ReadonlyMap<ConfigKeyName, unknown>,
  settings: readonly Setting[],
): string[] {
  const has = (name: ConfigKeyName): boolean => values.has(name);
  // A remembered setting is on no command line: the message says where to remove it.
  const remembered = (...names: readonly ConfigKeyName[]): string =>
    settings
      .filter(({ key, source }) => names.includes(key) && source.from === 'remembered')
      .map(({ key, source }) => `; ${key} is ${sourceText(source)}, remove that line to forget it`)
      .join('');
  const needs = (given: ConfigKeyName, other: ConfigKeyName): string[] =>
    has(given) && !has(other) ? [`${given} needs ${other}`] : [];
  const files = has('servingCert.certFile') || has('servingCert.keyFile');
  const acme = has('acme.directoryUrl') || has('acme.domainName');
  return [
    ...needs('servingCert.certFile', 'servingCert.keyFile'),
    ...needs('servingCert.keyFile', 'servingCert.certFile'),
    ...needs('acme.directoryUrl', 'acme.domainName'),
    ...needs('acme.domainName', 'acme.directoryUrl'),
    ...needs('ca.upstreamCertFile', 'ca.upstreamKeyFile'),
    ...needs('ca.upstreamKeyFile', 'ca.upstreamCertFile'),
    ...needs('ca.upstreamBundleFile', 'ca.upstreamCertFile'),
    ...(files && acme
      ? [
          `servingCert.certFile and acme exclude each other: give one of them${remembered('servingCert.certFile', 'servingCert.keyFile', 'acme.directoryUrl', 'acme.domainName')}`,
        ]
      : []),
    ...(values.get('web') !== 'off' && !files && !acme
      ? [
          'web needs a certificate: give servingCert.certFile and servingCert.keyFile, or acme.directoryUrl and acme.domainName',
        ]
      : []),
    ...(acme && values.get('acme.tosAccepted') !== 'true'
      ? ['acme needs acme.tosAccepted: true, once you have read the terms of the ACME server']
      : []),
  ];
}
