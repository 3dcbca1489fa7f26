// Reads kubeconfig files as kubectl does, and refuses what would weaken a connection. Pure: it names
// files and plugins, and load-kubeconfig.ts reads and runs them.

import { dirname, resolve, sep } from 'node:path';
import { parseDocument } from 'yaml';
import { HansaError } from '../errors/error.ts';
import { isRecord } from '../json/is-record.ts';
import { printableText } from './kube-errors.ts';
import { checkEndpoint } from './open-connection.ts';

export interface KubeconfigFile {
  /** Absolute: paths in the file are relative to its folder. */
  readonly path: string;
  readonly text: string;
}

/** Text in the kubeconfig itself, or in a file. */
export type TextSource =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'file'; readonly path: string };

export type KubeconfigCredential =
  | { readonly type: 'none' }
  | { readonly type: 'token'; readonly token: TextSource }
  | { readonly type: 'certificate'; readonly certificate: TextSource; readonly key: TextSource }
  | { readonly type: 'exec'; readonly plugin: ExecPlugin };

/** A program that prints a credential: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins */
export interface ExecPlugin {
  readonly apiVersion: 'client.authentication.k8s.io/v1' | 'client.authentication.k8s.io/v1beta1';
  /** A name for PATH, or an absolute path. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly interactiveMode: 'Never' | 'IfAvailable' | 'Always';
  readonly provideClusterInfo: boolean;
  readonly installHint: string;
  /** The extension client.authentication.k8s.io/exec of the cluster, for `provideClusterInfo`. */
  readonly clusterConfig: unknown;
}

/** Everything that one context says. */
export interface KubeconfigContext {
  readonly name: string;
  readonly cluster: string;
  readonly user: string;
  readonly namespace: string | undefined;
  readonly server: URL;
  /** Undefined: the public authorities. */
  readonly ca: TextSource | undefined;
  readonly tlsServerName: string | undefined;
  readonly proxyURL: URL | undefined;
  readonly credential: KubeconfigCredential;
}

/** Kubeconfigs of hundreds of clusters have less. */
export const maxKubeconfigBytes = 1024 * 1024;
const maxNamesShown = 20;
const execExtension = 'client.authentication.k8s.io/exec';

type Fields = Readonly<Record<string, unknown>>;

/** An entry with a place to name in messages, and the folder that its paths are relative to. */
interface Entry {
  readonly fields: Fields;
  readonly where: string;
  readonly folder: string;
}

/**
 * The files are merged as in client-go: the first file that has a name or value wins. Without `context`
 * the current context is read. Throws HANSA_USAGE.
 */
export function readKubeconfig(
  files: readonly KubeconfigFile[],
  context?: string,
): KubeconfigContext {
  const documents = files.map((file) => ({ file, fields: parseFile(file) }));
  const places = files.map(({ path }) => path).join(', ');
  const current = documents
    .map(({ fields }) => fields['current-context'])
    .find((one) => one !== undefined && one !== '');
  const name = context ?? current;
  const contexts = entriesOf(documents, 'contexts', 'context');
  if (typeof name !== 'string') {
    throw usage(`${places} has no current context. ${choose([...contexts.keys()])}`);
  }
  const chosen = contexts.get(name);
  if (chosen === undefined) {
    throw usage(
      `There is no context ${JSON.stringify(name)} in ${places}. ${choose([...contexts.keys()])}`,
    );
  }
  const clusterName = requiredText(chosen, 'cluster');
  const cluster = entriesOf(documents, 'clusters', 'cluster').get(clusterName);
  if (cluster === undefined) {
    throw usage(
      `${chosen.where} names the cluster ${JSON.stringify(clusterName)}, which does not exist.`,
    );
  }
  const userName = text(chosen, 'user') ?? '';
  const user = entriesOf(documents, 'users', 'user').get(userName);
  if (user === undefined && userName !== '') {
    throw usage(
      `${chosen.where} names the user ${JSON.stringify(userName)}, which does not exist.`,
    );
  }
  return {
    name,
    cluster: clusterName,
    user: userName,
    namespace: text(chosen, 'namespace'),
    ...readCluster(cluster),
    credential: user === undefined ? { type: 'none' } : readUser(user, cluster),
  };
}

/**
 * The context of this API server (`https://host:port`): the current one if it is, else the first. Undefined
 * where there is none. Reads no credentials.
 */
export function contextOfServer(
  files: readonly KubeconfigFile[],
  server: string,
): string | undefined {
  const documents = files.map((file) => ({ file, fields: parseFile(file) }));
  const clusters = entriesOf(documents, 'clusters', 'cluster');
  const isOfServer = (entry: Entry): boolean => {
    const cluster = clusters.get(text(entry, 'cluster') ?? '');
    return (cluster && text(cluster, 'server')?.replace(/\/+$/, '')) === server;
  };
  const found = [...entriesOf(documents, 'contexts', 'context')]
    .filter(([, entry]) => isOfServer(entry))
    .map(([name]) => name);
  const current = documents.map(({ fields }) => fields['current-context']);
  return found.find((name) => current.includes(name)) ?? found[0];
}

function choose(names: readonly string[]): string {
  if (names.length === 0) return 'It has no contexts.';
  const more = names.length > maxNamesShown ? ` and ${names.length - maxNamesShown} more` : '';
  const shown = names.slice(0, maxNamesShown).map((name) => printableText(name, 253));
  return `Name one with --context: ${shown.join(', ')}${more}.`;
}

function parseFile({ path, text: yaml }: KubeconfigFile): Fields {
  if (Buffer.byteLength(yaml) > maxKubeconfigBytes) {
    throw usage(`${path} is no kubeconfig: it is larger than ${maxKubeconfigBytes} bytes.`);
  }
  let value: unknown;
  try {
    // YAML 1.2 includes JSON. The parser limits aliases (maxAliasCount).
    const document = parseDocument(yaml, {
      prettyErrors: false,
      logLevel: 'silent',
      version: '1.2',
    });
    // Messages of the parser may quote the file, which contains secrets.
    if (document.errors.length > 0) throw usage(`${path} is not valid YAML.`);
    value = document.toJS();
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw usage(`${path} cannot be read as YAML: it is nested too deeply or repeats too much.`);
  }
  // An empty file is an empty kubeconfig, as in kubectl.
  if (value === null || value === undefined) return {};
  if (!isRecord(value) || (value['kind'] !== undefined && value['kind'] !== 'Config')) {
    throw usage(`${path} is no kubeconfig: its kind is not Config.`);
  }
  return value;
}

/** `clusters: [{name, cluster: {…}}]` and the like, by name. */
function entriesOf(
  documents: readonly { readonly file: KubeconfigFile; readonly fields: Fields }[],
  plural: string,
  field: string,
): ReadonlyMap<string, Entry> {
  const all = new Map<string, Entry>();
  for (const { file, fields } of documents) {
    const items = fields[plural] ?? [];
    if (!Array.isArray(items)) throw usage(`${file.path}: ${plural} is not a list.`);
    const own = new Set<string>();
    for (const item of items as readonly unknown[]) {
      const name = isRecord(item) ? item['name'] : undefined;
      if (!isRecord(item) || typeof name !== 'string' || name === '') {
        throw usage(`${file.path}: an entry of ${plural} has no name.`);
      }
      const inner = item[field] ?? {};
      const where = `${file.path}: ${field} ${JSON.stringify(name)}`;
      if (!isRecord(inner)) throw usage(`${where} is not an object.`);
      if (own.has(name)) throw usage(`${where} exists twice.`);
      own.add(name);
      if (!all.has(name)) all.set(name, { fields: inner, where, folder: dirname(file.path) });
    }
  }
  return all;
}

function readCluster(
  entry: Entry,
): Pick<KubeconfigContext, 'server' | 'ca' | 'tlsServerName' | 'proxyURL'> {
  if (entry.fields['insecure-skip-tls-verify'] === true) {
    throw usage(
      `${entry.where} has insecure-skip-tls-verify: true. Hansa always verifies the API server. Remove the line and set certificate-authority-data to the CA of the API server.`,
    );
  }
  const given = text(entry, 'server');
  if (given === undefined) throw usage(`${entry.where} has no server.`);
  const server = url(entry, 'server', given);
  const proxy = text(entry, 'proxy-url');
  const proxyURL = proxy === undefined ? undefined : url(entry, 'proxy-url', proxy);
  try {
    checkEndpoint({ server, proxyURL });
  } catch (error) {
    throw usage(`${entry.where} cannot be used: ${(error as Error).message}.`);
  }
  return {
    server,
    proxyURL,
    ca: source(entry, 'certificate-authority'),
    tlsServerName: text(entry, 'tls-server-name'),
  };
}

function readUser(entry: Entry, cluster: Entry): KubeconfigCredential {
  refuseUnsafe(entry);
  const certificate = source(entry, 'client-certificate');
  const key = source(entry, 'client-key');
  if ((certificate === undefined) !== (key === undefined)) {
    const missing = key === undefined ? 'client-key' : 'client-certificate';
    throw usage(`${entry.where} has no ${missing}, and a certificate and its key belong together.`);
  }
  // An API server looks at the certificate before the token.
  if (certificate !== undefined && key !== undefined) {
    return { type: 'certificate', certificate, key };
  }
  // As in client-go, the file comes before the token.
  const tokenFile = text(entry, 'tokenFile');
  if (tokenFile !== undefined) {
    return { type: 'token', token: { type: 'file', path: resolve(entry.folder, tokenFile) } };
  }
  const token = text(entry, 'token');
  if (token !== undefined) return { type: 'token', token: { type: 'text', text: token } };
  const exec = entry.fields['exec'];
  if (exec === undefined || exec === null) return { type: 'none' };
  return { type: 'exec', plugin: readPlugin(entry, exec, cluster) };
}

function refuseUnsafe({ fields, where }: Entry): void {
  const has = (name: string): boolean =>
    fields[name] !== undefined && fields[name] !== null && fields[name] !== '';
  if (has('username') || has('password')) {
    throw usage(
      `${where} has a user name and password, which Kubernetes no longer accepts. Use a token or a client certificate.`,
    );
  }
  if (has('auth-provider')) {
    throw usage(
      `${where} has an auth-provider, which client-go removed. Use the exec plugin of your provider; its command line tool writes a new kubeconfig.`,
    );
  }
  for (const name of ['as', 'as-uid', 'as-groups', 'as-user-extra']) {
    if (!has(name)) continue;
    throw usage(
      `${where} impersonates another user (${name}), which Hansa does not do. Use a context with the rights that are needed.`,
    );
  }
}

function readPlugin(entry: Entry, value: unknown, cluster: Entry): ExecPlugin {
  const where = `${entry.where}: exec`;
  if (!isRecord(value)) throw usage(`${where} is not an object.`);
  const exec: Entry = { fields: value, where, folder: entry.folder };
  const apiVersion = text(exec, 'apiVersion');
  if (
    apiVersion !== 'client.authentication.k8s.io/v1' &&
    apiVersion !== 'client.authentication.k8s.io/v1beta1'
  ) {
    throw usage(
      `${where} has the apiVersion ${JSON.stringify(apiVersion ?? '')}. Hansa runs plugins of client.authentication.k8s.io/v1 and v1beta1.`,
    );
  }
  const command = requiredText(exec, 'command');
  const interactiveMode = text(exec, 'interactiveMode') ?? defaultMode(where, apiVersion);
  if (!isMode(interactiveMode)) {
    throw usage(
      `${where} has the interactiveMode ${JSON.stringify(interactiveMode)}. Use Never, IfAvailable or Always.`,
    );
  }
  return {
    apiVersion,
    // As in client-go, a name without a slash is looked up in PATH.
    command: command.includes(sep) ? resolve(entry.folder, command) : command,
    args: list(exec, 'args').map((item) => {
      if (typeof item !== 'string') throw usage(`${where}: an item of args is not a text.`);
      return item;
    }),
    env: list(exec, 'env').map((item) => {
      const { name, value: content = '' } = isRecord(item) ? item : {};
      if (typeof name !== 'string' || !/^[^=\0]+$/.test(name) || typeof content !== 'string') {
        throw usage(`${where}: an item of env has no name, or a value that is not a text.`);
      }
      return { name, value: content };
    }),
    interactiveMode,
    provideClusterInfo: value['provideClusterInfo'] === true,
    installHint: printableText(text(exec, 'installHint') ?? '', 1024),
    clusterConfig: extensionOf(cluster),
  };
}

function defaultMode(where: string, apiVersion: string): string {
  if (apiVersion.endsWith('/v1beta1')) return 'IfAvailable';
  throw usage(`${where} has no interactiveMode, which version v1 requires. Set it to IfAvailable.`);
}

function isMode(mode: string): mode is ExecPlugin['interactiveMode'] {
  return mode === 'Never' || mode === 'IfAvailable' || mode === 'Always';
}

function extensionOf(cluster: Entry): unknown {
  const found = list(cluster, 'extensions').find(
    (item) => isRecord(item) && item['name'] === execExtension,
  );
  return isRecord(found) ? found['extension'] : undefined;
}

function list({ fields, where }: Entry, name: string): readonly unknown[] {
  const value = fields[name] ?? [];
  if (!Array.isArray(value)) throw usage(`${where}: ${name} is not a list.`);
  return value;
}

/** `NAME-data` in base64, or the file `NAME`. The first wins, as in client-go. */
function source(entry: Entry, name: string): TextSource | undefined {
  const data = text(entry, `${name}-data`);
  if (data !== undefined) {
    const bytes = Buffer.from(data, 'base64');
    if (bytes.length === 0 || !/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(data)) {
      throw usage(`${entry.where}: ${name}-data is not base64.`);
    }
    return { type: 'text', text: bytes.toString('utf8') };
  }
  const file = text(entry, name);
  return file === undefined ? undefined : { type: 'file', path: resolve(entry.folder, file) };
}

/** Undefined where it is missing or empty. */
function text({ fields, where }: Entry, name: string): string | undefined {
  const value = fields[name];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw usage(`${where}: ${name} is not a text.`);
  return value;
}

function requiredText(entry: Entry, name: string): string {
  const value = text(entry, name);
  if (value === undefined) throw usage(`${entry.where} has no ${name}.`);
  return value;
}

function url({ where }: Entry, name: string, given: string): URL {
  if (!URL.canParse(given)) throw usage(`${where}: ${name} is not a URL.`);
  return new URL(given);
}

function usage(message: string): HansaError {
  return new HansaError('HANSA_USAGE', message);
}
