// Routes beside the resource API: discovery, health, reviews, and what planes add.

import type { Exchange } from './exchange.ts';

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** A whole path, or one that ends in `/*`, which stands for exactly one further segment. */
  readonly path: string;
  /** It writes no audit record, whatever its method: a caller that wrote too many may still use it. */
  readonly rowless?: true;
  /** Authorises the caller itself: what it takes differs from route to route. */
  readonly handle: (exchange: Exchange, segment: string) => void | Promise<void>;
}

export interface Found {
  readonly route: Route;
  /** What stands for `*`. */
  readonly segment: string;
}

export class RouteTable {
  readonly #exact = new Map<string, Map<string, Found>>();
  readonly #below = new Map<string, Map<string, Route>>();

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      if (route.path.endsWith('/*')) add(this.#below, route.path.slice(0, -2), route, route);
      else add(this.#exact, route.path, route, { route, segment: '' });
    }
  }

  /** 'method' where the path exists, but not for this method. */
  find(method: string, path: string): Found | 'method' | undefined {
    const asked = method === 'HEAD' ? 'GET' : method;
    const exact = this.#exact.get(path);
    if (exact !== undefined) {
      return exact.get(asked) ?? 'method';
    }
    const slash = path.lastIndexOf('/');
    const below = this.#below.get(path.slice(0, slash));
    if (below === undefined || slash === path.length - 1) return undefined;
    const route = below.get(asked);
    if (route === undefined) return 'method';
    try {
      return { route, segment: decodeURIComponent(path.slice(slash + 1)) };
    } catch {
      return undefined;
    }
  }
}

function add<T>(table: Map<string, Map<string, T>>, path: string, route: Route, value: T): void {
  const methods = table.get(path) ?? new Map<string, T>();
  if (methods.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`);
  methods.set(route.method, value);
  table.set(path, methods);
}
