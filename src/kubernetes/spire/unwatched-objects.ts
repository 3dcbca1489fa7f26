// Remembers which objects that no watch shows were as wanted a short time ago: roles, and objects that should not
// exist. So a cluster in a steady state is not asked for each of them every minute.

import type { Clock } from '../../core/clock/clock.ts';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { manifestPath } from '../../core/kube/manifests/manifest-path.ts';

/** A change that somebody makes by hand is repaired within this time. */
export const compareEveryMs = 5 * 60_000;

export class UnwatchedObjects {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #seen = new Map<string, { readonly content: string; readonly atMs: number }>();
  #generation: number | undefined;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** After a change of the SpireServer, everything is compared again. */
  follow(generation: number): void {
    if (this.#generation !== generation) this.#seen.clear();
    this.#generation = generation;
  }

  wasAsWanted(manifest: Manifest): boolean {
    const seen = this.#seen.get(manifestPath(manifest));
    return (
      seen !== undefined &&
      this.#clock.monotonic() - seen.atMs < compareEveryMs &&
      seen.content === JSON.stringify(manifest)
    );
  }

  remember(manifest: Manifest): void {
    const content = JSON.stringify(manifest);
    this.#seen.set(manifestPath(manifest), { content, atMs: this.#clock.monotonic() });
  }

  forget(manifest: Manifest): void {
    this.#seen.delete(manifestPath(manifest));
  }
}
