// Runs the rest of a command from the module that contains it (`CommandKit.continueIn`).

import type { ContinuedCommand, ContinuedKit } from '../core/plane/command-kit.ts';

export interface Continuation {
  /** Its address. It exports a ContinuedCommand as `continueCommand`. */
  readonly module: string;
  readonly input: unknown;
}

export async function continueCommand(
  kit: ContinuedKit,
  { module, input }: Continuation,
): Promise<void> {
  const loaded = (await import(module)) as { readonly continueCommand: ContinuedCommand };
  await loaded.continueCommand(kit, input);
}
