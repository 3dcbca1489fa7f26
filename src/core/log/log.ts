// The interface of structured logs: one event per line, with a level, a constant message and fields.

/** Secrets never go into fields; an error goes in as `error`, which keeps its chain of causes. */
export type LogFields = Readonly<Record<string, unknown>>;

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A log whose every line carries these fields too; `component` names the source. */
  with(fields: LogFields): Log;
}
