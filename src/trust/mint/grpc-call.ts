// One gRPC call on an HTTP/2 stream ("gRPC over HTTP2"), unary or bidirectional. It is for the admin
// socket, where only the owner calls, so its limits only protect memory against mistakes. Messages are
// bytes, and responses are already framed.

import { constants, type ServerHttp2Stream } from 'node:http2';
import { HansaError } from '../../core/errors/error.ts';
import { FrameReader } from '../../core/rpc/frames.ts';
import { encodeStatusMessage } from '../../core/rpc/status.ts';
import { grpcStatus, type GrpcStatus } from '../workload/socket/grpc-status.ts';

export interface CallLimits {
  /** A larger message ends the call with RESOURCE_EXHAUSTED. */
  readonly maxMessageBytes: number;
  /** Messages of a stream that are worked on at once; no more are read meanwhile. */
  readonly inFlight: number;
  /** A call that waits for its one message is given up after this long without a byte. */
  readonly silentMs: number;
}

/** Resolves to the answer in its frame; rejecting ends the call with the error's status. */
export type Answer = (message: Buffer) => Promise<Buffer>;

const contentType = 'application/grpc';
const head = { ':status': 200, 'content-type': contentType };

/** One message, one answer. */
export function answerOnce(stream: ServerHttp2Stream, limits: CallLimits, answer: Answer): void {
  const frames = new FrameReader(limits.maxMessageBytes);
  stream.on('error', ignore);
  stream.setTimeout(limits.silentMs, () => stream.close(constants.NGHTTP2_CANCEL));
  const found: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => {
    try {
      takeAll(frames, chunk, found);
      if (found.length > 1) throw badRequest('it has more than one message');
    } catch (error) {
      endWith(stream, grpcStatus(error));
    }
  });
  stream.once('end', () => {
    if (stream.headersSent || stream.destroyed) return;
    stream.setTimeout(0);
    try {
      frames.finish();
      const [message] = found;
      if (message === undefined) throw badRequest('it has no message');
      void finish(stream, answer(message));
    } catch (error) {
      endWith(stream, grpcStatus(error));
    }
  });
}

async function finish(stream: ServerHttp2Stream, answer: Promise<Buffer>): Promise<void> {
  try {
    const framed = await answer;
    if (!open(stream)) return;
    stream.respond(head, { waitForTrailers: true });
    stream.once('wantTrailers', () => stream.sendTrailers(okTrailers));
    stream.end(framed);
  } catch (error) {
    endWith(stream, grpcStatus(error));
  }
}

/**
 * Messages in, answers out, in the order in which they are ready. What was read is answered before
 * the call ends. Answers that are ready together leave together.
 */
export function answerEach(stream: ServerHttp2Stream, limits: CallLimits, answer: Answer): void {
  const frames = new FrameReader(limits.maxMessageBytes);
  const waiting: Buffer[] = [];
  let working = 0;
  let ready: Buffer[] = [];
  let isFlushing = false;
  let isBlocked = false;
  let readAll = false;
  let final: GrpcStatus | undefined;

  const settle = (): void => {
    while (working < limits.inFlight && waiting.length > 0) {
      working++;
      answer(waiting.shift() as Buffer).then(answered, failed);
    }
    if (isBlocked || working >= limits.inFlight) stream.pause();
    else if (stream.isPaused()) stream.resume();
    const isOver = final !== undefined || (readAll && waiting.length === 0);
    if (isOver && working === 0 && !isFlushing && !isBlocked && open(stream)) stream.end();
  };
  const answered = (framed: Buffer): void => {
    working--;
    ready.push(framed);
    if (!isFlushing) {
      isFlushing = true;
      setImmediate(flush);
    }
    if (waiting.length > 0) settle();
  };
  const failed = (error: unknown): void => {
    working--;
    fail(error);
  };
  const fail = (error: unknown): void => {
    final ??= grpcStatus(error);
    waiting.length = 0;
    settle();
  };
  const flush = (): void => {
    isFlushing = false;
    const batch = ready;
    ready = [];
    if (!open(stream)) return;
    isBlocked = !stream.write(batch.length === 1 ? batch[0] : Buffer.concat(batch));
    settle();
  };

  stream.on('error', ignore);
  stream.respond(head, { waitForTrailers: true });
  stream.once('wantTrailers', () =>
    stream.sendTrailers(final === undefined ? okTrailers : trailersOf(final)),
  );
  stream.on('drain', () => {
    isBlocked = false;
    settle();
  });
  stream.on('data', (chunk: Buffer) => {
    if (final !== undefined) return;
    try {
      takeAll(frames, chunk, waiting);
      settle();
    } catch (error) {
      fail(error);
    }
  });
  stream.once('end', () => {
    readAll = true;
    try {
      frames.finish();
      settle();
    } catch (error) {
      fail(error);
    }
  });
}

/** Ends a call that has not been answered, with a status alone ("Trailers-Only"). */
function endWith(stream: ServerHttp2Stream, ended: GrpcStatus): void {
  if (!open(stream) || stream.headersSent) return;
  stream.respond({ ...head, ...trailersOf(ended) }, { endStream: true });
  // What still comes is not wanted: NO_ERROR after the answer, as RFC 9113 §8.1 has it.
  stream.close(constants.NGHTTP2_NO_ERROR);
}

const okTrailers = { 'grpc-status': '0' };

function trailersOf({ code, details }: GrpcStatus): Record<string, string> {
  return { 'grpc-status': String(code), 'grpc-message': encodeStatusMessage(details) };
}

function open(stream: ServerHttp2Stream): boolean {
  return !stream.destroyed && !stream.closed && !stream.writableEnded;
}

/** The end of the stream informs the caller. A broken connection is not an error of the site. */
function ignore(): void {
  // Without a listener, the process would end.
}

function badRequest(why: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', `The call cannot be read: ${why}.`);
}

/** Adds the messages that `chunk` completes to `messages`. Nothing is copied: none is kept after its answer. */
function takeAll(frames: FrameReader, chunk: Buffer, messages: Buffer[]): void {
  frames.push(chunk);
  for (let next = frames.take(); next !== undefined; next = frames.take()) messages.push(next);
}
