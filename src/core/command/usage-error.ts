// The error for a command line that cannot be parsed.

import { HansaError } from '../errors/error.ts';

export function usageError(message: string): HansaError {
  return new HansaError('HANSA_USAGE', message);
}
