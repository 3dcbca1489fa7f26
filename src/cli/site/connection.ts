// How a command connects to a site: over the admin socket of a data folder, or by URL over TLS with a
// credential. Flags, variables or a context select the site. The CA file of the site always verifies
// its certificate.

import { readFileSync } from 'node:fs';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import {
  Agent as HttpsAgent,
  type AgentOptions,
  request as httpsRequest,
  type RequestOptions,
} from 'node:https';
import { dirname, join, resolve } from 'node:path';
import type { Duplex } from 'node:stream';
import { humanDuration } from '../../api/values/duration.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { dial } from '../../core/identity/tls/dial.ts';
import { longestSocketPathBytes } from '../../core/config/config-values.ts';
import { userOfFolder } from '../../core/plane/data-folders.ts';
import { OwnerAgent } from './owner-agent.ts';
import { Contexts, type NamedContext } from './contexts.ts';
import { readCredential } from './credential-cache.ts';
import { fileProblem } from '../../core/command/file-problem.ts';

export interface ConnectionOptions {
  readonly dataDir?: string;
  readonly site?: string;
  /** The name of a context (contexts.ts). */
  readonly context?: string;
  readonly caFile?: string;
  readonly tokenFile?: string;
  readonly clientCertificate?: string;
  readonly clientKey?: string;
}

export interface SiteRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface SiteChannel {
  /** For messages: the socket or the URL. */
  readonly target: string;
  /** For messages: the credential, such as `the token in ./token`. Undefined if there is none. */
  readonly credential?: string;
  /** Resolves with the head of the response. Rejects with HANSA_UNREACHABLE if there is none. */
  send(request: SiteRequest): Promise<IncomingMessage>;
  close(): void;
}

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly clock: Pick<Clock, 'now'>;
}

/** How a site is reached. Paths are absolute. */
export type Connection =
  | { readonly via: 'socket'; readonly dataDir: string; readonly context?: string }
  | SiteConnection;

export interface SiteConnection {
  readonly via: 'url';
  readonly url: URL;
  readonly caFile: string;
  readonly tokenFile?: string;
  readonly clientCertificate?: string;
  readonly clientKey?: string;
  readonly context?: string;
}

/**
 * The first of these that is set: --site and --data-dir, --context, HANSA_SITE, HANSA_DATA_DIR, HANSA_CONTEXT, the
 * current context, ./hansa-data.
 */
export function resolveConnection(
  options: ConnectionOptions,
  surroundings: Surroundings,
): Connection {
  const context = contextOf(options, surroundings);
  const site = context === undefined ? siteOf(options, surroundings) : context.site;
  if (site === undefined) {
    refuseCredentialFlags(options);
    const dataDir = dataDirOf(options, surroundings);
    return { via: 'socket', dataDir, ...(context && { context: context.name }) };
  }
  const url = URL.canParse(site) ? new URL(site) : undefined;
  if (url?.protocol !== 'https:') {
    throw new HansaError(
      'HANSA_USAGE',
      `--site is ${JSON.stringify(site)}: expected an https URL, for example https://127.0.0.1:7443.`,
    );
  }
  return context === undefined
    ? siteConnection(url, options, surroundings)
    : contextConnection(url, context, options, surroundings);
}

/** The data folder that flags, variables and contexts select, as an absolute path. */
export function dataDirOf(options: ConnectionOptions, surroundings: Surroundings): string {
  const given = options.dataDir ?? contextOf(options, surroundings)?.dataDir;
  return resolve(
    surroundings.cwd,
    given ?? fromEnv(surroundings, 'HANSA_DATA_DIR') ?? 'hansa-data',
  );
}

function fromEnv({ env }: Surroundings, name: string): string | undefined {
  const text = env[name];
  return text === '' ? undefined : text;
}

/** --data-dir overrides HANSA_SITE. */
function siteOf(
  { site, dataDir }: ConnectionOptions,
  surroundings: Surroundings,
): string | undefined {
  const given = site ?? (dataDir === undefined ? fromEnv(surroundings, 'HANSA_SITE') : undefined);
  return given === '' ? undefined : given;
}

/** Undefined if a flag or variable selects the site, or there is no context. */
function contextOf(
  options: ConnectionOptions,
  surroundings: Surroundings,
): NamedContext | undefined {
  const contexts = new Contexts(surroundings.env);
  if (options.context !== undefined) {
    if ((options.site ?? options.dataDir) !== undefined) {
      throw new HansaError(
        'HANSA_USAGE',
        'Give either --context, or --site or --data-dir: a context already names its site.',
      );
    }
    return findContext(contexts, options.context);
  }
  const isNamed = siteOf(options, surroundings) ?? options.dataDir;
  if ((isNamed ?? fromEnv(surroundings, 'HANSA_DATA_DIR')) !== undefined) return undefined;
  const name = fromEnv(surroundings, 'HANSA_CONTEXT') ?? contexts.current();
  return name === undefined ? undefined : findContext(contexts, name);
}

/** A missing context is a usage error. HANSA_NOT_FOUND is for objects of a site. */
function findContext(contexts: Contexts, name: string): NamedContext {
  try {
    return contexts.get(name);
  } catch (error) {
    if (!hasCode(error, 'HANSA_NOT_FOUND')) throw error;
    throw new HansaError('HANSA_USAGE', error.message);
  }
}

function siteConnection(
  url: URL,
  options: ConnectionOptions,
  surroundings: Surroundings,
): SiteConnection {
  const path = (flag: string | undefined, variable: string): string | undefined => {
    const given = flag ?? fromEnv(surroundings, variable);
    return given === undefined || given === '' ? undefined : resolve(surroundings.cwd, given);
  };
  const ownCa = join(dataDirOf(options, surroundings), 'ca.pem');
  return withCredential(
    { via: 'url', url, caFile: path(options.caFile, 'HANSA_CA_FILE') ?? ownCa },
    {
      tokenFile: path(options.tokenFile, 'HANSA_TOKEN_FILE'),
      clientCertificate: path(options.clientCertificate, 'HANSA_CLIENT_CERTIFICATE'),
      clientKey: path(options.clientKey, 'HANSA_CLIENT_KEY'),
    },
  );
}

/** Ignores variables, which belong to HANSA_SITE. A credential flag replaces the credential of the context. */
function contextConnection(
  url: URL,
  context: NamedContext,
  options: ConnectionOptions,
  { cwd, clock }: Surroundings,
): SiteConnection {
  const path = (flag: string | undefined): string | undefined =>
    flag === undefined ? undefined : resolve(cwd, flag);
  const given = {
    tokenFile: path(options.tokenFile),
    clientCertificate: path(options.clientCertificate),
    clientKey: path(options.clientKey),
  };
  const isGiven = Object.values(given).some((file) => file !== undefined);
  const caFile = path(options.caFile) ?? context.caFile ?? '';
  const files = isGiven ? given : filesOf(context, clock.now());
  return withCredential({ via: 'url', url, caFile, context: context.name }, files);
}

interface CredentialFiles {
  readonly tokenFile: string | undefined;
  readonly clientCertificate: string | undefined;
  readonly clientKey: string | undefined;
}

/** The certificate of the last login while it is valid, otherwise the files that the context names. */
function filesOf(context: NamedContext, nowMs: number): CredentialFiles {
  const { name, user = 'unknown', tokenFile, clientCertificate, clientKey, credential } = context;
  const login = credential === undefined ? undefined : readCredential(credential);
  if (login !== undefined && nowMs < login.notAfterMs) {
    return { tokenFile: undefined, clientCertificate: credential, clientKey: credential };
  }
  if ((tokenFile ?? clientCertificate) !== undefined) {
    return { tokenFile, clientCertificate, clientKey };
  }
  const why =
    credential === undefined
      ? 'you are not logged in'
      : login === undefined
        ? `the certificate of ${user} is no longer in ${credential}`
        : `the certificate of ${user} expired ${humanDuration(nowMs - login.notAfterMs)} ago`;
  throw new HansaError(
    'HANSA_UNAUTHENTICATED',
    `Cannot use the context ${name}: ${why}. Log in again: hansa login --context ${name} --token-file FILE, or --data-dir on the machine of the site.`,
  );
}

function withCredential(connection: SiteConnection, files: CredentialFiles): SiteConnection {
  const { tokenFile, clientCertificate, clientKey } = files;
  if ((clientCertificate === undefined) !== (clientKey === undefined)) {
    throw new HansaError('HANSA_USAGE', 'Give --client-certificate and --client-key together.');
  }
  return {
    ...connection,
    ...(tokenFile === undefined ? {} : { tokenFile }),
    ...(clientCertificate === undefined || clientKey === undefined
      ? {}
      : { clientCertificate, clientKey }),
  };
}

export function openConnection(connection: Connection, clock: Clock): SiteChannel {
  return connection.via === 'socket'
    ? openSocket(join(connection.dataDir, 'admin.sock'))
    : openUrl(connection, clock);
}

/** Callers over the socket are admin, so the socket would ignore a credential. */
function refuseCredentialFlags(options: ConnectionOptions): void {
  const given = [
    options.caFile === undefined ? [] : ['--ca-file'],
    options.tokenFile === undefined ? [] : ['--token-file'],
    options.clientCertificate === undefined ? [] : ['--client-certificate'],
    options.clientKey === undefined ? [] : ['--client-key'],
  ].flat();
  if (given.length === 0) return;
  throw new HansaError(
    'HANSA_USAGE',
    `${given.join(' and ')} ${given.length === 1 ? 'needs' : 'need'} --site: the admin socket uses no credential.`,
  );
}

function openSocket(socketPath: string): SiteChannel {
  if (Buffer.byteLength(socketPath) > longestSocketPathBytes) {
    throw new HansaError(
      'HANSA_USAGE',
      `Cannot reach the site at ${socketPath}: the path of a socket has at most ${longestSocketPathBytes} bytes. Give a shorter --data-dir, for example a symbolic link.`,
    );
  }
  const agent = new OwnerAgent();
  return {
    target: socketPath,
    send: (request) =>
      exchange(
        request,
        (options) => httpRequest({ ...options, socketPath, agent }),
        (cause) => socketProblem(socketPath, cause),
      ),
    close: () => agent.destroy(),
  };
}

function socketProblem(socketPath: string, cause: NodeJS.ErrnoException): string {
  const where = `Cannot reach the site at ${socketPath}`;
  switch (cause.code) {
    case 'ENOENT':
      if (userOfFolder(dirname(socketPath)) === 'agent') {
        return `${where}: ${dirname(socketPath)} is the data folder of an agent. For its state: hansa agent status --data-dir ${dirname(socketPath)}`;
      }
      return `${where}: there is no such socket. Start the site with hansa server, or name its folder with --data-dir.`;
    case 'ECONNREFUSED':
      return `${where}: the daemon no longer runs. Start the site with hansa server.`;
    case 'EACCES':
      return `${where}: only the owner of the data folder may connect. Run the command as that user, or use --site with a token.`;
    case 'ENOTDIR':
      return `${where}: the data folder is a file. Name a folder with --data-dir.`;
    default:
      return `${where}: ${cause.message}.`;
  }
}

/** A distant site behind a slow name server takes a few seconds. */
const connectWithinMs = 30_000;

type Connected = (error: Error | null, stream?: Duplex) => void;

/** Connects in the same way as sites: see core/identity/tls/dial.ts. */
class DialingAgent extends HttpsAgent {
  readonly #clock: Clock;
  readonly #stop = new AbortController();

  constructor(options: AgentOptions, clock: Clock) {
    super(options);
    this.#clock = clock;
  }

  override createConnection(
    options: RequestOptions,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    void this.#connect(options, callback as Connected);
  }

  async #connect(options: RequestOptions, done: Connected): Promise<void> {
    let secured: Duplex;
    try {
      const socket = await dial({
        host: String(options.host),
        port: Number(options.port),
        clock: this.#clock,
        timeoutMs: connectWithinMs,
        signal: this.#stop.signal,
      });
      secured = super.createConnection({ ...options, socket } as RequestOptions) as Duplex;
    } catch (error) {
      done(error as Error);
      return;
    }
    done(null, secured);
  }

  /** Also aborts connection attempts, which would keep the process alive. */
  override destroy(): void {
    this.#stop.abort();
    super.destroy();
  }
}

function openUrl(connection: SiteConnection, clock: Clock): SiteChannel {
  const { url, caFile, tokenFile, clientCertificate: certificate, clientKey } = connection;
  const token = tokenFile === undefined ? undefined : readToken(tokenFile);
  // No session cache: a resumed session would skip the check of the server's certificate.
  const settings = {
    keepAlive: true,
    maxCachedSessions: 0,
    ca: readGiven(caFile, '--ca-file'),
    ...(certificate === undefined || clientKey === undefined
      ? {}
      : {
          cert: readGiven(certificate, '--client-certificate'),
          key: readGiven(clientKey, '--client-key'),
        }),
  };
  const agent = new DialingAgent(settings, clock);
  const base = url.pathname.replace(/\/$/, '');
  return {
    target: url.origin + base,
    ...(tokenFile === undefined ? {} : { credential: `the token in ${tokenFile}` }),
    ...(certificate === undefined ? {} : { credential: `the certificate in ${certificate}` }),
    send: (request) =>
      exchange(
        {
          ...request,
          path: base + request.path,
          headers:
            token === undefined
              ? request.headers
              : { ...request.headers, authorization: `Bearer ${token}` },
        },
        (wire) =>
          httpsRequest({
            ...wire,
            host: url.hostname.replace(/^\[|\]$/g, ''),
            port: url.port === '' ? 443 : Number(url.port),
            agent,
          }),
        (cause) => urlProblem(url, caFile, cause),
      ),
    close: () => agent.destroy(),
  };
}

function urlProblem(url: URL, caFile: string, cause: NodeJS.ErrnoException): string {
  const where = `Cannot reach the site at ${url.origin}`;
  const code = cause.code ?? '';
  if (code === 'ECONNREFUSED') return `${where}: nothing listens there.`;
  if (code === 'ENOTFOUND') return `${where}: the name ${url.hostname} does not resolve.`;
  if (/CERT|SELF_SIGNED|ISSUER|SIGNATURE|ALTNAME/.test(code)) {
    // Node adds advice about its own flags.
    const why = cause.message.replace(/; if the root CA is installed locally.*/, '');
    return `${where}: its certificate does not verify against ${caFile} (${why}). Name the CA file of that site with --ca-file.`;
  }
  if (code === 'EPROTO') {
    return `${where}: the server there does not speak TLS. Give the URL of the api listener.`;
  }
  return `${where}: ${cause.message}.`;
}

/** Tokens are short. A larger file is the wrong file. */
const maxTokenBytes = 16 * 1024;

function readToken(path: string): string {
  const token = readGiven(path, '--token-file').toString('utf8').trim();
  if (token === '' || token.length > maxTokenBytes || !/^[\x21-\x7e]+$/.test(token)) {
    throw new HansaError('HANSA_USAGE', `--token-file ${path} does not contain a single token.`);
  }
  return token;
}

function readGiven(path: string, flag: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new HansaError('HANSA_USAGE', `Cannot read ${path} (${flag}): ${fileProblem(error)}.`);
  }
}

type Send = (options: {
  method: string;
  path: string;
  headers: Record<string, string>;
  signal?: AbortSignal;
}) => ReturnType<typeof httpRequest>;

function exchange(
  request: SiteRequest,
  send: Send,
  explain: (cause: NodeJS.ErrnoException) => string,
): Promise<IncomingMessage> {
  const { method, path, headers, body, signal } = request;
  return new Promise((answered, reject) => {
    const outgoing = send({
      method,
      path,
      headers: {
        ...headers,
        ...(body === undefined ? {} : { 'content-length': String(body.length) }),
      },
      ...(signal === undefined ? {} : { signal }),
    });
    outgoing.on('response', answered);
    outgoing.on('error', (cause) => {
      if (signal?.aborted === true) reject(signal.reason);
      else reject(new HansaError('HANSA_UNREACHABLE', explain(cause), { cause }));
    });
    outgoing.end(body);
  });
}
