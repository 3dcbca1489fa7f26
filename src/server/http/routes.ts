// The type of the site's own routes, and the table in which every listener looks up its routes: first
// in a map of exact paths, then segment by segment for paths with parameters.

import type { ApiAccess, ApiRouteOptions } from '../../core/plane/route.ts';
import type { Exchange } from './exchange.ts';

/** A route of the site on the api listener. Planes declare theirs as PlaneRoute. */
export type Route = ApiAccess &
  ApiRouteOptions & {
    readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
    /** A path. A segment `{name}` is a parameter. */
    readonly path: string;
    readonly handle: (exchange: Exchange, params: RouteParams) => void | Promise<void>;
  };

export type RouteParams = Readonly<Record<string, string>>;

interface TableRoute {
  readonly method: string;
  readonly path: string;
}

export interface Found<R> {
  readonly route: R;
  readonly params: RouteParams;
}

/** One segment of the paths that have parameters. */
interface Step<R> {
  readonly literal: Map<string, Step<R>>;
  parameter: Step<R> | undefined;
  /** If a path ends here: its routes by method. */
  readonly routes: Map<string, R>;
}

const noParams: RouteParams = {};

export class RouteTable<R extends TableRoute> {
  readonly #exact = new Map<string, Map<string, Found<R>>>();
  readonly #root: Step<R> = step();

  constructor(routes: readonly R[]) {
    for (const route of routes) {
      if (route.path.includes('{')) put(this.#walk(route.path).routes, route, route);
      else {
        const methods = this.#exact.get(route.path) ?? new Map<string, Found<R>>();
        put(methods, route, { route, params: noParams });
        this.#exact.set(route.path, methods);
      }
    }
  }

  /** 'method' if the path exists, but not with this method. */
  find(method: string, path: string): Found<R> | 'method' | undefined {
    const asked = method === 'HEAD' ? 'GET' : method;
    const exact = this.#exact.get(path);
    if (exact !== undefined) return exact.get(asked) ?? 'method';
    const segments = path.split('/');
    // The first segment is not walked: it is empty in a path that begins with a slash.
    if (segments[0] !== '') return undefined;
    const routes = descend(this.#root, segments, 1);
    if (routes === undefined) return undefined;
    const route = routes.get(asked);
    if (route === undefined) return 'method';
    const params = paramsOf(route.path, segments);
    return params && { route, params };
  }

  #walk(path: string): Step<R> {
    let at = this.#root;
    for (const segment of path.split('/').slice(1)) {
      if (segment.startsWith('{')) {
        at.parameter ??= step();
        at = at.parameter;
      } else {
        const next = at.literal.get(segment) ?? step<R>();
        at.literal.set(segment, next);
        at = next;
      }
    }
    return at;
  }
}

function step<R>(): Step<R> {
  return { literal: new Map(), parameter: undefined, routes: new Map() };
}

function put<V>(methods: Map<string, V>, route: TableRoute, value: V): void {
  if (methods.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`);
  methods.set(route.method, value);
}

/** Prefers a literal segment to a parameter. The depth is bounded by the longest declared path. */
function descend<R>(
  from: Step<R>,
  segments: readonly string[],
  at: number,
): ReadonlyMap<string, R> | undefined {
  if (at === segments.length) return from.routes.size === 0 ? undefined : from.routes;
  const segment = segments[at] as string;
  const literal = from.literal.get(segment);
  const found = literal && descend(literal, segments, at + 1);
  if (found !== undefined || from.parameter === undefined || segment === '') return found;
  return descend(from.parameter, segments, at + 1);
}

/** Undefined if a value is not properly encoded. */
function paramsOf(path: string, segments: readonly string[]): RouteParams | undefined {
  const params: Record<string, string> = {};
  try {
    for (const [at, declared] of path.split('/').entries()) {
      if (!declared.startsWith('{')) continue;
      params[declared.slice(1, -1)] = decodeURIComponent(segments[at] as string);
    }
  } catch {
    return undefined;
  }
  return params;
}
