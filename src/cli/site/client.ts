// A client of the resource API, which follows Kubernetes conventions. The same calls work over the
// admin socket and over TLS.

import type { IncomingMessage } from 'node:http';
import type { Resource } from '../../api/object.ts';
import {
  type Answer,
  collectionPath,
  fieldManager,
  type List,
  objectPath,
  type RequestOptions,
  type SiteClient,
  type Table,
  type WatchEvent,
} from '../../core/plane/site-client.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { SiteChannel } from './connection.ts';
import type { ErrorCatalog } from '../../core/errors/plane-errors.ts';
import { errorFromStatus } from './status-error.ts';

const tableAccept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

/** Objects per page of a list: usually enough for one round trip, and small enough for the site. */
const pageLimit = 500;

/** No response or event of a site is larger. */
const maxAnswerBytes = 64 * 1024 * 1024;

export function createClient(
  transport: SiteChannel,
  warn: (text: string) => void,
  errors: ErrorCatalog,
): SiteClient {
  const open = async (options: RequestOptions): Promise<IncomingMessage> => {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) query.set(key, value);
    }
    const search = query.size > 0 ? `?${query.toString()}` : '';
    const body = options.body === undefined ? undefined : Buffer.from(JSON.stringify(options.body));
    const answer = await transport.send({
      method: options.method ?? 'GET',
      path: options.path + search,
      headers: {
        accept: options.accept ?? 'application/json',
        'user-agent': fieldManager,
        ...(body === undefined
          ? {}
          : { 'content-type': options.contentType ?? 'application/json' }),
      },
      body,
      signal: options.signal,
    });
    for (const warning of warningsOf(answer.headers['warning'])) warn(warning);
    return answer;
  };

  const request = async (options: RequestOptions): Promise<Answer> => {
    const answer = await open(options);
    const status = answer.statusCode ?? 0;
    const body = parseBody(await readAll(answer), transport.target, status);
    if (status < 200 || status > 299) throw refusal(transport, status, body, errors);
    return { status, body };
  };

  const pages = async <T extends List | Table>(options: RequestOptions): Promise<T[]> => {
    const all: T[] = [];
    let next: string | undefined;
    do {
      const query = { ...options.query, limit: String(pageLimit), continue: next };
      const page = (await request({ ...options, query })).body as T;
      all.push(page);
      next = page.metadata.continue === '' ? undefined : page.metadata.continue;
    } while (next !== undefined);
    return all;
  };

  return {
    target: transport.target,
    request,
    text: async (path, query = {}) => {
      const answer = await open({ path, query, accept: 'text/plain, */*' });
      return (await readAll(answer)).toString('utf8');
    },
    stream: async (path) => {
      const answer = await open({ path, accept: '*/*' });
      const status = answer.statusCode ?? 0;
      if (status === 200) return answer;
      throw refusal(
        transport,
        status,
        parseBody(await readAll(answer), transport.target, status),
        errors,
      );
    },
    get: async (kind, name) => (await request({ path: objectPath(kind, name) })).body as Resource,
    list: async (kind, selection) => {
      const lists = await pages<List>({ path: collectionPath(kind), query: { ...selection } });
      const { apiVersion: version, kind: listKind, metadata } = lists[0] as List;
      return {
        apiVersion: version,
        kind: listKind,
        metadata: { resourceVersion: metadata.resourceVersion },
        items: lists.flatMap((list) => list.items),
      };
    },
    table: async (kind, name, selection) => {
      if (name !== undefined) {
        const path = objectPath(kind, name);
        return (await request({ path, accept: tableAccept })).body as Table;
      }
      const query = { ...selection };
      const path = collectionPath(kind);
      const tables = await pages<Table>({ path, query, accept: tableAccept });
      return { ...(tables[0] as Table), rows: tables.flatMap((table) => table.rows) };
    },
    apply: async (kind, name, object, options = {}) => {
      const answer = await request({
        method: 'PATCH',
        path: objectPath(kind, name),
        query: {
          fieldManager: options.fieldManager ?? fieldManager,
          force: options.force === true ? 'true' : undefined,
          dryRun: options.dryRun === true ? 'All' : undefined,
          fieldValidation: 'Strict',
        },
        contentType: 'application/apply-patch+yaml',
        body: object,
      });
      return { object: answer.body as Resource, created: answer.status === 201 };
    },
    create: async (kind, object, options = {}) => {
      const answer = await request({
        method: 'POST',
        path: collectionPath(kind),
        query: { fieldManager, dryRun: options.dryRun === true ? 'All' : undefined },
        body: object,
      });
      return answer.body as Resource;
    },
    delete: async (kind, name, options = {}) => {
      const answer = await request({
        method: 'DELETE',
        path: objectPath(kind, name),
        query: { dryRun: options.dryRun === true ? 'All' : undefined },
      });
      return answer.body as Resource;
    },
    watch: async function* (kind, options) {
      const answer = await open({
        path: collectionPath(kind),
        query: {
          watch: '1',
          allowWatchBookmarks: 'true',
          resourceVersion: options.resourceVersion,
          labelSelector: options.labelSelector,
          fieldSelector: options.fieldSelector,
        },
        accept: options.table === true ? tableAccept : 'application/json',
        signal: options.signal,
      });
      const status = answer.statusCode ?? 0;
      if (status !== 200) {
        throw refusal(
          transport,
          status,
          parseBody(await readAll(answer), transport.target, status),
          errors,
        );
      }
      for await (const line of lines(answer)) {
        const event = parseBody(line, transport.target, status) as WatchEvent<Resource | Table>;
        if (event.type === 'ERROR') throw errorFromStatus(500, event.object, errors);
        yield event;
      }
    },
  };
}

/** The error in a response, with the target and credential that only the client knows. */
function refusal(
  transport: SiteChannel,
  status: number,
  body: unknown,
  errors: ErrorCatalog,
): HansaError {
  const { target, credential } = transport;
  const error = errorFromStatus(status, body, errors);
  if (error.code === 'HANSA_UNAUTHENTICATED') {
    const message =
      credential === undefined
        ? `${target} requires a credential. Give --token-file, or a context that you are logged in to (hansa login, hansa context list).`
        : `${target} rejects ${credential}: it is expired, revoked, or from another site.`;
    return new HansaError(error, message, { cause: error });
  }
  // Not a missing object, for which a site sends a Status. Other listeners and servers answer like this.
  if (status === 404 && !isStatus(body)) {
    const message = `${target} does not serve the resource API (HTTP status 404). Check that it is the api listener of a Hansa site.`;
    return new HansaError('HANSA_UNREACHABLE', message);
  }
  return error;
}

function isStatus(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'kind' in body && body.kind === 'Status';
}

async function readAll(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxAnswerBytes) {
      answer.destroy();
      throw new HansaError(
        'HANSA_TOO_LARGE',
        `The response is larger than ${maxAnswerBytes} bytes.`,
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

/** The lines of a stream. It drops a last line without a line break, which is incomplete. */
export async function* lines(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  let rest: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      const line = Buffer.concat([...rest, chunk.subarray(start, end)]);
      rest = [];
      length = 0;
      start = end + 1;
      if (line.length > 0) yield line;
    }
    if (start < chunk.length) {
      rest.push(chunk.subarray(start));
      length += chunk.length - start;
      if (length > maxAnswerBytes) {
        throw new HansaError('HANSA_TOO_LARGE', `An event is larger than ${maxAnswerBytes} bytes.`);
      }
    }
  }
}

function parseBody(body: Buffer, target: string, status: number): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch (cause) {
    if (status >= 300) return undefined;
    const message = `The response of ${target} is not JSON. Check that it is a Hansa site.`;
    throw new HansaError('HANSA_UNREACHABLE', message, { cause });
  }
}

/** The texts of `Warning: 299 - "text"` headers (RFC 7234 section 5.5), joined by commas where there are several. */
export function warningsOf(header: string | string[] | undefined): string[] {
  const texts = typeof header === 'string' ? header : (header ?? []).join(', ');
  return [...texts.matchAll(/\b\d{3} \S+ "((?:[^"\\]|\\.)*)"/g)].map((found) =>
    (found[1] ?? '').replaceAll(/\\(.)/g, '$1'),
  );
}
