// The worker thread with one SqliteDatabase: handles requests one after another.

import { parentPort } from 'node:worker_threads';
import { systemClock } from '../../clock/system.ts';
import type { CoreErrorCode } from '../../errors/error.ts';
import { HansaError } from '../../errors/error.ts';
import { CommitUncertain, isFull, resultCode, SqliteDatabase } from './database.ts';
import type {
  Answer,
  Answers,
  Packed,
  Questions,
  Request,
  RequestKind,
  WireError,
} from './messages.ts';

let database: SqliteDatabase | undefined;

type Handlers = {
  readonly [Kind in RequestKind]: (question: Questions[Kind]) => Answers[Kind];
};

const handlers: Handlers = {
  open: ({ path }) => {
    database = SqliteDatabase.open(path, systemClock);
    return database.opened();
  },
  openReader: ({ path }) => {
    database = SqliteDatabase.openReader(path, systemClock);
    return undefined;
  },
  changes: (question) => present().changes(question),
  first: (question) => present().first(question),
  write: (question) => present().write(question),
  audit: (question) => present().audit(question),
  leafHashes: (question) => present().leafHashes(question),
  subtreeHashes: (question) => present().subtreeHashes(question),
  close: () => database?.close(),
};

function present(): SqliteDatabase {
  if (database === undefined) throw new Error('the database is not open');
  return database;
}

function answer<Kind extends RequestKind>({ kind, question }: Request<Kind>): Answers[Kind] {
  return handlers[kind](question);
}

const codes: Readonly<Record<number, CoreErrorCode>> = {
  11: 'HANSA_STORE_CORRUPT', // SQLITE_CORRUPT
  26: 'HANSA_STORE_CORRUPT', // SQLITE_NOTADB
};

const messages: Partial<Record<CoreErrorCode, string>> = {
  HANSA_STORE_FULL:
    'Cannot write to the store: the disk of the data folder is full. Free some space; writes then work again.',
  HANSA_STORE_CORRUPT:
    'Cannot use the store: its file is damaged or not a database. Restore it from a backup.',
};

function describe(thrown: unknown): WireError {
  const uncertain = thrown instanceof CommitUncertain;
  const error = uncertain ? thrown.cause : thrown;
  const outcome = uncertain ? 'unknown' : 'none';
  const cause = error instanceof Error ? error.message : String(error);
  if (error instanceof HansaError)
    return { code: error.general, message: error.message, cause, outcome };
  const noSpace = error instanceof Error && 'code' in error && error.code === 'ENOSPC';
  const code =
    noSpace || isFull(error)
      ? 'HANSA_STORE_FULL'
      : (codes[resultCode(error) ?? 0] ?? 'HANSA_UNAVAILABLE');
  const message = messages[code] ?? `Cannot use the store: ${cause}.`;
  return { code, message, cause, outcome };
}

/** The byte blocks in a response, which are transferred. */
function blocks(reply: Answers[RequestKind]): ArrayBuffer[] {
  if (typeof reply !== 'object' || 'commitMs' in reply) return [];
  const packed: Packed | undefined =
    'bytes' in reply ? reply : 'packed' in reply ? reply.packed : reply.edges;
  return [packed.bytes.buffer];
}

parentPort?.on('message', (request: Request) => {
  if (request.kind === 'first') {
    answer(request);
    return;
  }
  let reply: Answer;
  let moved: ArrayBuffer[] = [];
  try {
    const result = answer(request);
    reply = { id: request.id, answer: result };
    moved = blocks(result);
  } catch (error) {
    reply = { id: request.id, error: describe(error) };
  }
  parentPort?.postMessage(reply, moved);
  if (request.kind === 'close') parentPort?.close();
});
