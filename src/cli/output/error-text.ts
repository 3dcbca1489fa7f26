// An error as a person reads it: one line, or where several fields of an object are wrong, one
// line a field, as kubectl prints them.

import type { Cause, HansaError } from '../../core/errors/error.ts';

/** Without the code, which callers put behind it. */
export function errorText(error: HansaError): string {
  if (error.code !== 'HANSA_INVALID') return error.message;
  const causes = (error.details?.causes ?? []).filter(isAboutAField);
  const head = /^.*? is invalid(?=: )/.exec(error.message)?.[0];
  if (head === undefined || causes.length === 0) return error.message;
  const lines = causes.map(lineOf);
  return lines.length === 1 ? `${head}: ${lines[0]}` : `${head}:\n  ${lines.join('\n  ')}`;
}

/** Kubernetes adds that further rules were not looked at; that is clear from the others. */
function isAboutAField({ field }: Cause): boolean {
  return field !== undefined && field !== '' && field !== '<nil>';
}

function lineOf({ field = '', message }: Cause): string {
  // The field is said once: some messages begin with it again.
  return `${field}: ${message.replace(`${field} in body `, '')}`;
}
