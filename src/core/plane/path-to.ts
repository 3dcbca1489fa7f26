// Fills the parameters of a path such as `/hansa/v1/tokens/{name}`. A plane writes each path once; its
// routes serve it, and its commands call it through this function.

import type { Params } from './route.ts';

export function pathTo<P extends string>(path: P, params: Params<P>): string {
  const values = new Map(Object.entries<string>(params));
  return path.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent(values.get(name) ?? ''),
  );
}
