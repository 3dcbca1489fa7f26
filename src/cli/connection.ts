// How a command reaches a site: over the admin socket of a data folder, or by URL over TLS with a
// credential. Certificates are always verified, against the CA file of the site.

import { readFileSync } from 'node:fs';
import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { join, resolve } from 'node:path';
import { HansaError } from '../core/errors/error.ts';
import { longestSocketPathBytes } from '../server/config-values.ts';
import { fileProblem } from './file-problem.ts';

export interface ConnectionOptions {
  readonly dataDir?: string;
  readonly site?: string;
  readonly caFile?: string;
  readonly tokenFile?: string;
  readonly clientCertificate?: string;
  readonly clientKey?: string;
}

export interface TransportRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface Transport {
  /** For messages: the socket or the URL. */
  readonly target: string;
  /** For messages: what the site is shown, such as `the token in ./token`. Undefined where nothing is. */
  readonly credential?: string;
  /** Resolves with the head of the answer. Rejects with HANSA_UNREACHABLE where there is none. */
  send(request: TransportRequest): Promise<IncomingMessage>;
  close(): void;
}

interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/** The data folder that the flags and variables mean; absolute. */
export function dataDirOf(options: ConnectionOptions, surroundings: Surroundings): string {
  const given = options.dataDir ?? surroundings.env['HANSA_DATA_DIR'];
  return resolve(surroundings.cwd, given === undefined || given === '' ? 'hansa-data' : given);
}

export function openTransport(options: ConnectionOptions, surroundings: Surroundings): Transport {
  const site = options.site ?? surroundings.env['HANSA_SITE'];
  if (site === undefined || site === '') {
    refuseCredentialFlags(options);
    return openSocket(join(dataDirOf(options, surroundings), 'admin.sock'));
  }
  return openUrl(site, options, surroundings);
}

/** Over the socket one is admin: who names a token means to be somebody else. */
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
    `${given.join(' and ')} ${given.length === 1 ? 'needs' : 'need'} --site: the admin socket takes no credential.`,
  );
}

function openSocket(socketPath: string): Transport {
  if (Buffer.byteLength(socketPath) > longestSocketPathBytes) {
    throw new HansaError(
      'HANSA_USAGE',
      `Cannot reach the site at ${socketPath}: the path of a socket has at most ${longestSocketPathBytes} bytes. Give a shorter --data-dir, for example a symbolic link.`,
    );
  }
  const agent = new HttpAgent({ keepAlive: true });
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
      return `${where}: there is no such socket. Start the site with hansa server, or name its folder with --data-dir.`;
    case 'ECONNREFUSED':
      return `${where}: no daemon listens on it any more. Start the site with hansa server.`;
    case 'EACCES':
      return `${where}: only the owner of the data folder may. Become that user, or use --site with a token.`;
    case 'ENOTDIR':
      return `${where}: the data folder is a file. Name a folder with --data-dir.`;
    default:
      return `${where}: ${cause.message}.`;
  }
}

function openUrl(site: string, options: ConnectionOptions, surroundings: Surroundings): Transport {
  const url = URL.canParse(site) ? new URL(site) : undefined;
  if (url?.protocol !== 'https:') {
    throw new HansaError(
      'HANSA_USAGE',
      `--site is ${JSON.stringify(site)}: accepted is an https URL, for example https://127.0.0.1:7443.`,
    );
  }
  const path = (flag: string | undefined, variable: string): string | undefined => {
    const given = flag ?? surroundings.env[variable];
    return given === undefined || given === '' ? undefined : resolve(surroundings.cwd, given);
  };
  const caFile =
    path(options.caFile, 'HANSA_CA_FILE') ?? join(dataDirOf(options, surroundings), 'ca.pem');
  const tokenFile = path(options.tokenFile, 'HANSA_TOKEN_FILE');
  const certificate = path(options.clientCertificate, 'HANSA_CLIENT_CERTIFICATE');
  const clientKey = path(options.clientKey, 'HANSA_CLIENT_KEY');
  if ((certificate === undefined) !== (clientKey === undefined)) {
    throw new HansaError('HANSA_USAGE', 'Give --client-certificate and --client-key together.');
  }
  const token = tokenFile === undefined ? undefined : readToken(tokenFile);
  // No session cache: a resumed session would skip the check of the server's certificate.
  const agent = new HttpsAgent({
    keepAlive: true,
    maxCachedSessions: 0,
    ca: readGiven(caFile, '--ca-file'),
    ...(certificate === undefined || clientKey === undefined
      ? {}
      : {
          cert: readGiven(certificate, '--client-certificate'),
          key: readGiven(clientKey, '--client-key'),
        }),
  });
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
    return `${where}: what listens there does not speak TLS. Name the api listener of the site.`;
  }
  return `${where}: ${cause.message}.`;
}

/** Tokens are short; a larger file is another file by mistake. */
const maxTokenBytes = 16 * 1024;

function readToken(path: string): string {
  const token = readGiven(path, '--token-file').toString('utf8').trim();
  if (token === '' || token.length > maxTokenBytes || !/^[\x21-\x7e]+$/.test(token)) {
    throw new HansaError(
      'HANSA_USAGE',
      `--token-file ${path} does not hold one token on one line.`,
    );
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
  request: TransportRequest,
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
