// An abort signal that follows several others, for loops that live as long as the process.
//
// AbortSignal.any does this too, but Node keeps its result, and everything that its listeners reach,
// as long as no source aborts, even when nothing else refers to the sources any more.

export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Removes it from its sources. It follows them no longer. */
  readonly unlink: () => void;
}

/** Aborts with the reason of the first source that aborts; at once where one is aborted already. */
export function linkedSignal(...sources: readonly AbortSignal[]): LinkedSignal {
  const controller = new AbortController();
  const follow = (event: Event): void => abort(event.target as AbortSignal);
  const unlink = (): void => {
    for (const source of sources) source.removeEventListener('abort', follow);
  };
  const abort = (source: AbortSignal): void => {
    unlink();
    controller.abort(source.reason);
  };
  const aborted = sources.find((source) => source.aborted);
  if (aborted !== undefined) abort(aborted);
  else for (const source of sources) source.addEventListener('abort', follow, { once: true });
  return { signal: controller.signal, unlink };
}
