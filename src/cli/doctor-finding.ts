// What a check of `hansa doctor` says.

export interface Finding {
  readonly check: string;
  /** A warning is worth knowing; a problem makes the exit code. */
  readonly level: 'ok' | 'warning' | 'problem';
  readonly text: string;
  readonly remedy?: string;
}

export const ok = (check: string, text: string): Finding => ({ check, level: 'ok', text });

export const warning = (check: string, text: string, remedy: string): Finding => ({
  check,
  level: 'warning',
  text,
  remedy,
});

export const problem = (check: string, text: string, remedy: string): Finding => ({
  check,
  level: 'problem',
  text,
  remedy,
});
