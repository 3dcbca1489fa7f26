// The text of an error for users: one line, or one line per field if several fields of an object are
// invalid, as in kubectl.

import type { Cause, HansaError } from '../../core/errors/error.ts';

/** Without the error code, which callers append. */
export function errorText(error: HansaError): string {
  if (error.code !== 'HANSA_INVALID') return error.message;
  const causes = (error.details?.causes ?? []).filter(isAboutAField);
  const head = /^.*? is invalid(?=: )/.exec(error.message)?.[0];
  if (head === undefined || causes.length === 0) return error.message;
  const lines = causes.map(lineOf);
  return lines.length === 1 ? `${head}: ${lines[0]}` : `${head}:\n  ${lines.join('\n  ')}`;
}

/** Skips the cause in which Kubernetes says that it did not check further rules. */
function isAboutAField({ field }: Cause): boolean {
  return field !== undefined && field !== '' && field !== '<nil>';
}

function lineOf({ field = '', message }: Cause): string {
  // Some messages repeat the field.
  return `${field}: ${message.replace(`${field} in body `, '')}`;
}
