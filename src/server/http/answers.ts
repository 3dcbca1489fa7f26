// Sends answers as fast as their clients read them. A large answer is made and written in chunks, in turns
// with those of other users, so that an answer that nobody reads costs one chunk, and one that takes long
// to render does not block the site.

import type { ServerResponse } from 'node:http';
import type { Clock } from '../../core/clock/clock.ts';
import { WorkTurns } from '../../core/limits/work-turns.ts';
import type { Response } from './exchange.ts';
import { UnreadBudget, type UnreadLimits, type UnreadOutput } from './unread-output.ts';

/** A response of this size fits into the kernel buffer. */
const smallBytes = 16 * 1024;
/** Memory of an unread response besides its body. */
const responseBytes = 1024;

/** The body of an answer, made piece by piece. */
export interface AnswerBody {
  /** Memory that the body takes until it is sent. */
  readonly keptBytes: number;
  /** If it is known before. */
  readonly length?: number;
  /** Each piece has a deadline of its own, because the body keeps nothing that changes meanwhile. */
  readonly isLong?: true;
  /**
   * The next piece: at most about so many bytes, and not more than one step of work (work-turns.ts), so
   * that it may be empty. Undefined after the last piece.
   */
  next(bytes: number): Buffer | undefined | Promise<Buffer | undefined>;
}

/** Whether the response is destroyed, so that no close event follows. */
function isOver(response: Response): boolean {
  return 'stream' in response ? response.stream.destroyed : response.destroyed;
}

/** Whether the output of the response takes memory of the site, because the kernel does not have it yet. */
function isUnread(response: Response): boolean {
  if (isOver(response) || response.writableFinished) return false;
  if ('stream' in response) return true;
  // Without a socket, it waits for another response on its connection.
  return response.socket === null || response.writableLength > smallBytes;
}

/** A response that the client has not read yet. */
class UnreadAnswer implements UnreadOutput {
  readonly #response: Response;
  readonly #over = Promise.withResolvers<void>();
  isOver = false;

  constructor(response: Response) {
    this.#response = response;
  }

  /** Resolves when the client has read the response, or was cut off. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  end(): void {
    this.isOver = true;
    this.#over.resolve();
  }

  cutOff(): void {
    this.#response.destroy();
    // A response that waits for another on its connection emits no close event.
    this.end();
  }
}

/** A body that exists already. */
class WholeBody implements AnswerBody {
  readonly keptBytes: number;
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer, isShared: boolean) {
    this.#bytes = bytes;
    this.keptBytes = isShared ? 0 : bytes.length;
  }

  next(bytes: number): Buffer | undefined {
    if (this.#at >= this.#bytes.length) return undefined;
    const piece = this.#bytes.subarray(this.#at, this.#at + bytes);
    this.#at += piece.length;
    return piece;
  }
}

export class Answers {
  readonly unread: UnreadBudget;
  /** The work of lists and watches that look at many objects or render them. */
  readonly turns: WorkTurns;
  /** Those that `send` writes. */
  readonly #sent = new WeakMap<Response, UnreadAnswer>();

  constructor(clock: Clock, limits: UnreadLimits) {
    this.unread = new UnreadBudget(clock, limits);
    this.turns = new WorkTurns(clock);
  }

  /** Writes a body after its head: at once, or in chunks if it is large. */
  end(response: Response, user: string, body: Buffer | string, length: number): void {
    if (length > smallBytes && length > this.unread.writeBytes(user)) {
      // A body that is a string was made for this answer. Buffers are stored objects and prebuilt documents.
      const isShared = typeof body !== 'string';
      const whole = new WholeBody(isShared ? body : Buffer.from(body), isShared);
      void this.send(response, user, () => undefined, whole);
      // The compatibility layer of HTTP/2 has the same methods with narrower types.
      // Only ASCII has as many bytes as characters. It needs no conversion.
    } else if (typeof body === 'string' && length === body.length)
      (response as ServerResponse).end(body, 'latin1');
    else (response as ServerResponse).end(body);
  }

  /**
   * Writes the head before the first piece, and then the body as the client reads it. Resolves when the
   * last piece is written or the client has gone. Rejects with an error of `body`.
   */
  async send(
    response: Response,
    user: string,
    writeHead: () => void,
    body: AnswerBody,
  ): Promise<void> {
    if (isOver(response)) return;
    const keptBytes = responseBytes + body.keptBytes;
    const answer = this.#track(response, user, keptBytes);
    this.#sent.set(response, answer);
    let hasHead = false;
    let written: Promise<void> | undefined;
    const step = async (): Promise<boolean> => {
      written = undefined;
      if (answer.isOver || isOver(response)) return false;
      // The client waits for the site meanwhile, which may search for long.
      if (body.isLong === true) this.unread.release(answer);
      const piece = await body.next(this.unread.writeBytes(user));
      if (piece?.length === 0) return !answer.isOver;
      if (body.isLong === true && !answer.isOver) this.unread.hold(answer, user, keptBytes);
      if (answer.isOver) return false;
      if (!hasHead) writeHead();
      hasHead = true;
      if (piece === undefined) response.end();
      else written = this.#write(response, answer, piece);
      return piece !== undefined;
    };
    while (await this.turns.run(user, step)) {
      if (written !== undefined) await Promise.race([written, answer.over]);
    }
  }

  #write(response: Response, answer: UnreadAnswer, piece: Buffer): Promise<void> {
    return new Promise((resolve) => {
      this.unread.grow(answer, piece.length);
      if (answer.isOver) return;
      (response as ServerResponse).write(piece, () => {
        this.unread.grow(answer, -piece.length);
        resolve();
      });
    });
  }

  /**
   * Counts what is unread of a response. Calls `leave` once: when the client has read the response or was cut
   * off, or at once if little is unread.
   */
  hold(response: Response, user: string, leave: () => void): void {
    let answer = this.#sent.get(response);
    if (answer === undefined) {
      if (!isUnread(response)) {
        leave();
        return;
      }
      const { writableLength } = response;
      answer = this.#track(response, user, responseBytes + writableLength);
      if (writableLength <= smallBytes) {
        leave();
        return;
      }
    }
    if (answer.isOver) leave();
    else void answer.over.then(leave);
  }

  #track(response: Response, user: string, bytes: number): UnreadAnswer {
    const answer = new UnreadAnswer(response);
    response.once('close', () => {
      this.unread.release(answer);
      answer.end();
    });
    this.unread.hold(answer, user, bytes);
    return answer;
  }
}
