// Writes log lines: JSON for machines, text for people. Logged values may be untrusted, so each line
// has a bounded length, contains no line breaks, and hides values whose key names a secret.

import type { Clock } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import type { Log, LogFields, LogLevel } from './log.ts';

/** The destination of lines, such as `process.stderr`; its `writableLength` is the unwritten backlog. */
export interface LogSink {
  write(line: string): unknown;
  readonly writableLength?: number;
}

export interface LogOptions {
  readonly sink: LogSink;
  readonly clock: Clock;
  readonly level: LogLevel;
  readonly format: 'json' | 'text';
}

const severity: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

const longestStringChars = 2048;
const longestStackChars = 8192;
const deepestLevel = 6;
const longestCauseChain = 5;
/** Values in one line, all levels together: a cycle or a huge object ends here. */
const mostValues = 256;
/** Largest backlog. Beyond it, lines are dropped and counted, so that a stalled reader cannot fill the memory. */
const fullestSinkBytes = 4 * 1024 * 1024;

const secretKey =
  /token|secret|passw|passphrase|authorization|cookie|credential|private.?key|api.?key|bearer/i;
const secretText = /-----BEGIN [A-Z ]*PRIVATE KEY-----|\bBearer\s+[\w.~+/-]{8,}/i;
const redacted = '[redacted]';

/** Never throws, so that a logging failure does not fail the caller. */
export function createLog(options: LogOptions): Log {
  return new LineLog(options, { dropped: 0 }, {});
}

class LineLog implements Log {
  readonly #options: LogOptions;
  readonly #shared: { dropped: number };
  readonly #fields: LogFields;

  constructor(options: LogOptions, shared: { dropped: number }, fields: LogFields) {
    this.#options = options;
    this.#shared = shared;
    this.#fields = fields;
  }

  debug(message: string, fields?: LogFields): void {
    this.#write('debug', message, fields);
  }

  info(message: string, fields?: LogFields): void {
    this.#write('info', message, fields);
  }

  warn(message: string, fields?: LogFields): void {
    this.#write('warn', message, fields);
  }

  error(message: string, fields?: LogFields): void {
    this.#write('error', message, fields);
  }

  with(fields: LogFields): Log {
    return new LineLog(this.#options, this.#shared, { ...this.#fields, ...fields });
  }

  #write(level: LogLevel, message: string, fields: LogFields | undefined): void {
    const { sink, level: threshold } = this.#options;
    if (severity[level] < severity[threshold]) return;
    if ((sink.writableLength ?? 0) > fullestSinkBytes) {
      this.#shared.dropped++;
      return;
    }
    try {
      if (this.#shared.dropped > 0) {
        const dropped = this.#shared.dropped;
        this.#shared.dropped = 0;
        sink.write(
          this.#line('warn', 'log lines were dropped: the reader is too slow', { dropped }),
        );
      }
      sink.write(this.#line(level, message, { ...this.#fields, ...fields }));
    } catch {
      this.#shared.dropped++;
    }
  }

  #line(level: LogLevel, message: string, fields: LogFields): string {
    const { clock, format, level: threshold } = this.#options;
    const line = renderFields(fields, threshold === 'debug');
    const time = new Date(clock.now()).toISOString();
    return format === 'json'
      ? `${JSON.stringify({ time, level, message: bounded(message), ...line })}\n`
      : textLine(time, level, message, line);
  }
}

type Rendered = string | number | boolean | null | Rendered[] | { [key: string]: Rendered };

/** Fields of callers must not replace `time`, `level` or `message`. */
const reserved = new Set(['time', 'level', 'message']);

function renderFields(fields: LogFields, stacks: boolean): Record<string, Rendered> {
  const renderer = new Renderer(stacks);
  const line: Record<string, Rendered> = {};
  for (const key of Object.keys(fields)) {
    const value = renderer.field(key, fields, 0);
    if (value !== undefined) line[reserved.has(key) ? `field.${key}` : bounded(key)] = value;
  }
  return line;
}

class Renderer {
  readonly #stacks: boolean;
  #left = mostValues;

  constructor(stacks: boolean) {
    this.#stacks = stacks;
  }

  /** One property of an object, which may be a getter that throws. */
  field(key: string, of: object, depth: number): Rendered | undefined {
    try {
      const value: unknown = (of as Record<string, unknown>)[key];
      const harmless =
        value === null ||
        value === undefined ||
        typeof value === 'boolean' ||
        typeof value === 'number';
      if (!harmless && secretKey.test(key)) return redacted;
      return this.value(value, depth);
    } catch {
      return '[unreadable]';
    }
  }

  value(value: unknown, depth: number): Rendered | undefined {
    switch (typeof value) {
      case 'undefined':
        return undefined;
      case 'boolean':
        return value;
      case 'number':
        return Number.isFinite(value) ? value : String(value);
      case 'string':
        return secretText.test(value) ? redacted : bounded(value);
      case 'bigint':
      case 'symbol':
        return value.toString();
      case 'function':
        return '[function]';
      case 'object':
      default:
        return value === null ? null : this.#object(value as object, depth);
    }
  }

  #object(value: object, depth: number): Rendered {
    if (value instanceof Error) return this.#error(value, 0);
    // Bytes may be keys, so log only their length.
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (value instanceof Date) {
      return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
    }
    if (value instanceof URL) return bounded(`${value.origin}${value.pathname}`);
    if (depth >= deepestLevel) return '[deeper]';
    if (value instanceof Map) {
      return this.#object(Object.fromEntries([...value].map(([k, v]) => [String(k), v])), depth);
    }
    if (value instanceof Set) return this.#object([...value], depth);
    if (Array.isArray(value)) return this.#array(value, depth);
    const rendered: { [key: string]: Rendered } = {};
    for (const key of Object.keys(value)) {
      if (this.#left-- <= 0) {
        rendered['…'] = '[more]';
        break;
      }
      const field = this.field(key, value, depth + 1);
      if (field !== undefined) rendered[bounded(key)] = field;
    }
    return rendered;
  }

  #array(items: readonly unknown[], depth: number): Rendered {
    const rendered: Rendered[] = [];
    for (const item of items) {
      if (this.#left-- <= 0) {
        rendered.push('[more]');
        break;
      }
      rendered.push(this.value(item, depth + 1) ?? null);
    }
    return rendered;
  }

  #error(error: Error, chain: number): Rendered {
    const rendered: { [key: string]: Rendered } = {};
    const code = error instanceof HansaError ? error.code : (error as NodeJS.ErrnoException).code;
    if (typeof code === 'string') rendered['code'] = bounded(code);
    else if (error.name !== 'Error') rendered['name'] = bounded(error.name);
    rendered['message'] = secretText.test(error.message) ? redacted : bounded(error.message);
    if (this.#stacks && error.stack !== undefined && !secretText.test(error.stack)) {
      rendered['stack'] = bounded(error.stack, longestStackChars);
    }
    if (chain >= longestCauseChain) return rendered;
    if (error.cause !== undefined) {
      rendered['cause'] =
        error.cause instanceof Error
          ? this.#error(error.cause, chain + 1)
          : (this.value(error.cause, deepestLevel - 1) ?? null);
    }
    if (error instanceof AggregateError) {
      rendered['errors'] = error.errors
        .slice(0, longestCauseChain)
        .map((inner: unknown) =>
          inner instanceof Error
            ? this.#error(inner, longestCauseChain)
            : (this.value(inner, deepestLevel - 1) ?? null),
        );
    }
    return rendered;
  }
}

function bounded(text: string, longest: number = longestStringChars): string {
  return text.length <= longest
    ? text
    : `${text.slice(0, longest)}… (${text.length - longest} more characters)`;
}

/** `2026-01-01T00:00:00.000Z warn  store: cannot compact revision=7 error="disk full (ENOSPC)"` */
function textLine(
  time: string,
  level: LogLevel,
  message: string,
  { component, ...fields }: Record<string, Rendered>,
): string {
  const speaker = typeof component === 'string' ? `${plain(component)}: ` : '';
  let line = `${time} ${level.padEnd(5)} ${speaker}${plain(bounded(message))}`;
  for (const [key, value] of Object.entries(fields)) line += ` ${plain(key)}=${textValue(value)}`;
  return `${line}\n`;
}

function textValue(value: Rendered): string {
  if (typeof value !== 'string') return typeof value === 'object' ? escaped(value) : String(value);
  return /^[\w.:/@%+,-]+$/.test(value) ? value : escaped(value);
}

/** JSON does not escape C1 controls and DEL, which some terminals interpret. */
function escaped(value: Rendered): string {
  return plain(JSON.stringify(value));
}

function plain(text: string): string {
  return text.replace(
    // oxlint-disable-next-line no-control-regex -- control characters are what this removes
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
