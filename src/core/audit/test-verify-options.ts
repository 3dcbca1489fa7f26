// For tests: what a caller knows who knows nothing.

import type { VerifyOptions } from './signed-head.ts';

export const knowsNothing: VerifyOptions = {
  key: undefined,
  earlier: undefined,
  witnesses: [],
  progress: undefined,
};
