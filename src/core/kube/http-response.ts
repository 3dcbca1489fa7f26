// Parses HTTP/1.1 responses (RFC 9112) as their bytes arrive. Pure. node:http would take four times
// the CPU time for a request, and forwarded reviews are many. It is stricter than a browser: what two
// parsers could read differently is an error.

/** Status line and headers, also of trailers and of each interim response. */
const maxHeadBytes = 16 * 1024;
const maxHeaders = 200;
/** Most interim responses (RFC 9110 §15.2) before the final one. */
const maxInterim = 8;
/** The size of a chunk. */
const maxChunkLine = 8;

export interface ResponseHead {
  readonly status: number;
  /** Names in lower case. Values of repeated headers are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** The length of the body where the headers tell it. */
  readonly length: number | undefined;
}

export interface ResponseHandler {
  onHead(head: ResponseHead): void;
  /** A part of the body. The bytes belong to the handler. */
  onData(chunk: Buffer): void;
  /** `isReusable`: the connection can take the next request. */
  onEnd(isReusable: boolean): void;
}

/** The response is not valid HTTP. The message is half a sentence. */
export class HttpSyntaxError extends Error {}

/** What the next bytes are. */
const parts = {
  head: 0,
  /** A body of known length. */
  body: 1,
  chunkLine: 2,
  chunkData: 3,
  /** The CRLF after the data of a chunk. */
  chunkEnd: 4,
  trailers: 5,
  /** A body that ends with the connection. */
  untilClose: 6,
  done: 7,
} as const;

/** One response. The caller pushes bytes until `onEnd`, and calls `finish` where the connection ends. */
export class ResponseParser {
  readonly #handler: ResponseHandler;
  #part: (typeof parts)[keyof typeof parts] = parts.head;
  /** Bytes of a line or head that is not complete. */
  #pending: Buffer | undefined;
  /** Bytes left of the body or chunk. */
  #left = 0;
  #interim = 0;
  #isReusable = true;

  constructor(handler: ResponseHandler) {
    this.#handler = handler;
  }

  /** Whether a byte of the response arrived. */
  get hasBegun(): boolean {
    return this.#part !== parts.head || this.#pending !== undefined || this.#interim > 0;
  }

  /** Throws HttpSyntaxError. The handler may not push from within. */
  push(bytes: Buffer): void {
    let chunk = bytes;
    while (chunk.length > 0) {
      switch (this.#part) {
        case parts.head:
          chunk = this.#pushHead(chunk);
          break;
        case parts.body:
        case parts.chunkData:
          chunk = this.#pushData(chunk);
          break;
        case parts.chunkLine:
        case parts.chunkEnd:
          chunk = this.#pushLine(chunk);
          break;
        case parts.trailers:
          chunk = this.#pushTrailers(chunk);
          break;
        case parts.untilClose:
          this.#handler.onData(chunk);
          return;
        case parts.done:
          throw new HttpSyntaxError('it sent more than one response');
      }
    }
  }

  /** The server ended the connection. Returns whether the response is complete. */
  finish(): boolean {
    if (this.#part === parts.untilClose) this.#end(false);
    return this.#part === parts.done;
  }

  #pushHead(chunk: Buffer): Buffer {
    const held = this.#pending?.length ?? 0;
    const all = this.#pending === undefined ? chunk : Buffer.concat([this.#pending, chunk]);
    // The end may have begun in the bytes before.
    const end = all.indexOf('\r\n\r\n', Math.max(0, held - 3), 'latin1');
    if (end === -1 ? all.length > maxHeadBytes : end > maxHeadBytes) {
      throw new HttpSyntaxError(`its headers have more than ${maxHeadBytes} bytes`);
    }
    if (end === -1) {
      // Another protocol may wait for us to speak.
      const start = all.toString('latin1', 0, httpStart.length);
      if (!httpStart.startsWith(start)) throw new HttpSyntaxError('it is not HTTP/1.1');
      this.#pending = all;
      return nothing;
    }
    this.#pending = undefined;
    this.#readHead(all.toString('latin1', 0, end));
    return all.subarray(end + 4);
  }

  #readHead(text: string): void {
    const lineEnd = text.indexOf('\r\n');
    const statusLine = lineEnd === -1 ? text : text.slice(0, lineEnd);
    const [, minor, code] = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/.exec(
      statusLine,
    ) ?? [undefined, undefined, undefined];
    if (code === undefined) throw new HttpSyntaxError('its status line is malformed');
    const status = Number(code);
    const headers = lineEnd === -1 ? noHeaders : readHeaders(text.slice(lineEnd + 2));
    if (status < 200) {
      this.#interim++;
      if (status === 101) {
        throw new HttpSyntaxError('it wants to speak another protocol');
      }
      if (this.#interim > maxInterim) {
        throw new HttpSyntaxError(`it sent more than ${maxInterim} interim responses`);
      }
      return;
    }
    const framing = framingOf(status, minor === '1', headers);
    this.#isReusable =
      minor === '1' && !/(?:^|,)\s*close\s*(?:,|$)/i.test(headers['connection'] ?? '');
    const length = framing.part === parts.body ? framing.length : undefined;
    this.#handler.onHead({ status, headers, length });
    this.#part = framing.part;
    this.#left = framing.length;
    if (framing.part === parts.body && framing.length === 0) this.#end(this.#isReusable);
  }

  #pushData(chunk: Buffer): Buffer {
    const taken = chunk.length <= this.#left ? chunk : chunk.subarray(0, this.#left);
    this.#left -= taken.length;
    this.#handler.onData(taken);
    if (this.#left === 0) {
      if (this.#part === parts.chunkData) this.#part = parts.chunkEnd;
      else this.#end(this.#isReusable);
    }
    return chunk.subarray(taken.length);
  }

  /** The line of a chunk's size, or the empty line after its data. */
  #pushLine(chunk: Buffer): Buffer {
    const held = this.#pending?.length ?? 0;
    const all = this.#pending === undefined ? chunk : Buffer.concat([this.#pending, chunk]);
    const end = all.indexOf('\r\n', Math.max(0, held - 1), 'latin1');
    if (end === -1 ? all.length > maxChunkLine : end > maxChunkLine) {
      throw new HttpSyntaxError('the size of a chunk is malformed');
    }
    if (end === -1) {
      this.#pending = all;
      return nothing;
    }
    this.#pending = undefined;
    const line = all.toString('latin1', 0, end);
    if (this.#part === parts.chunkEnd) {
      if (line !== '') throw new HttpSyntaxError('a chunk is longer than its size');
      this.#part = parts.chunkLine;
    } else {
      // RFC 9112 §7.1, without extensions: no server sends them, and parsers disagree about them.
      if (!/^[0-9a-fA-F]{1,8}$/.test(line)) {
        throw new HttpSyntaxError('the size of a chunk is malformed');
      }
      this.#left = Number.parseInt(line, 16);
      this.#part = this.#left === 0 ? parts.trailers : parts.chunkData;
    }
    return all.subarray(end + 2);
  }

  /** RFC 9112 §7.1.2: they are read and ignored. */
  #pushTrailers(chunk: Buffer): Buffer {
    const all = this.#pending === undefined ? chunk : Buffer.concat([this.#pending, chunk]);
    const isEmpty = all.length >= 2 && all[0] === 0x0d && all[1] === 0x0a;
    const end = isEmpty ? 0 : all.indexOf('\r\n\r\n', 0, 'latin1');
    if (end === -1 ? all.length > maxHeadBytes : end > maxHeadBytes) {
      throw new HttpSyntaxError(`its trailers have more than ${maxHeadBytes} bytes`);
    }
    if (end === -1) {
      this.#pending = all;
      return nothing;
    }
    this.#pending = undefined;
    const trailers = isEmpty ? noHeaders : readHeaders(all.toString('latin1', 0, end));
    // RFC 9110 §6.5.1.
    if ('content-length' in trailers || 'transfer-encoding' in trailers) {
      throw new HttpSyntaxError('its trailers tell a length');
    }
    const rest = all.subarray(isEmpty ? 2 : end + 4);
    this.#end(this.#isReusable);
    return rest;
  }

  #end(isReusable: boolean): void {
    this.#part = parts.done;
    this.#handler.onEnd(isReusable);
  }
}

const httpStart = 'HTTP/1.';
const nothing = Buffer.alloc(0);
const noHeaders: ResponseHead['headers'] = Object.freeze(
  Object.create(null) as Record<string, string>,
);

function readHeaders(text: string): ResponseHead['headers'] {
  const headers = Object.create(null) as Record<string, string>;
  const lines = text.split('\r\n');
  if (lines.length > maxHeaders) {
    throw new HttpSyntaxError(`it sent more than ${maxHeaders} headers`);
  }
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon));
    // A line that begins with a space would continue the one before (RFC 9112 §5.2).
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
      throw new HttpSyntaxError('the name of a header is malformed');
    }
    const value = line.slice(colon + 1);
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw new HttpSyntaxError('the value of a header has control characters');
    }
    const key = name.toLowerCase();
    const before = headers[key];
    const trimmed = withoutSpaces(value);
    headers[key] = before === undefined ? trimmed : `${before}, ${trimmed}`;
  }
  return headers;
}

/** RFC 9110 §5.5: spaces and tabs only, unlike String.trim. */
function withoutSpaces(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isSpace(value.charCodeAt(start))) start++;
  while (end > start && isSpace(value.charCodeAt(end - 1))) end--;
  return value.slice(start, end);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** RFC 9112 §6.3. */
function framingOf(
  status: number,
  is11: boolean,
  headers: ResponseHead['headers'],
): {
  readonly part: typeof parts.body | typeof parts.chunkLine | typeof parts.untilClose;
  readonly length: number;
} {
  const encoding = headers['transfer-encoding'];
  const length = headers['content-length'];
  if (encoding !== undefined && length !== undefined) {
    throw new HttpSyntaxError('it has both Content-Length and Transfer-Encoding');
  }
  if (length !== undefined && !/^\d{1,15}$/.test(length)) {
    throw new HttpSyntaxError('its Content-Length is malformed');
  }
  if (encoding !== undefined && (!is11 || encoding.toLowerCase() !== 'chunked')) {
    throw new HttpSyntaxError('its Transfer-Encoding is not chunked');
  }
  if (status === 204 || status === 304) return { part: parts.body, length: 0 };
  if (encoding !== undefined) return { part: parts.chunkLine, length: 0 };
  return length === undefined
    ? { part: parts.untilClose, length: 0 }
    : { part: parts.body, length: Number(length) };
}
