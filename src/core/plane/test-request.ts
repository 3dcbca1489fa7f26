// Test fixture: calls a route as the server does, without a listener.

import { Authorizer } from '../access/authorizer.ts';
import { unauthorized } from '../access/denial.ts';
import { anonymous, type Caller } from '../access/identity.ts';
import { parseJsonBody } from '../json/json-body.ts';
import type { Certificate } from '../identity/x509/certificate.ts';
import type { ValidatedSvid } from '../identity/x509/svid-validator.ts';
import { HansaError } from '../errors/error.ts';
import type { Store } from '../store/store.ts';
import type { AgentRequest, ApiRequest, PeerRequest, PlaneResponse, PlaneRoute } from './route.ts';
import { type Admitted, apiCheck, type Directories, federationCheck } from './route-access.ts';

export interface TestCall {
  readonly caller?: Caller | undefined;
  readonly params?: Readonly<Record<string, string>>;
  readonly host?: string | undefined;
  readonly serverName?: string | undefined;
  readonly query?: URLSearchParams;
  readonly headers?: Readonly<Record<string, string>>;
  readonly address?: string | undefined;
  readonly body?: Buffer | string;
  /** Answers the access checks of the route. */
  readonly svid?: () => ValidatedSvid | undefined;
  readonly peerChain?: readonly Certificate[];
}

export interface TestHost extends Directories {
  /** Store with roles and bindings; without it, the caller has every right. */
  readonly store?: Store;
}

const noContent = Buffer.alloc(0);

const granting = { authorize: () => granted, authorizePath: () => granted };
const granted = { allowed: true, reason: '' };

/** Checks who may call, before the handler runs and when it has read the body. */
export async function callRoute(
  route: PlaneRoute | undefined,
  call: TestCall = {},
  host: TestHost = {},
): Promise<PlaneResponse> {
  if (route === undefined) throw new Error('there is no such route');
  // Like the api listener, which authenticates every caller.
  if (route.listener === 'api' && call.caller === undefined) throw unauthorized('nobody');
  const body = Buffer.from(call.body ?? '');
  let admitted: Admitted = {};
  const check = checkOf(route, host);
  const request: ApiRequest & PeerRequest & AgentRequest = {
    method: route.method,
    path: route.path.replace(/\{(\w+)\}/g, (_, name: string) => call.params?.[name] ?? ''),
    params: call.params ?? {},
    host: call.host,
    serverName: call.serverName,
    query: call.query ?? new URLSearchParams(),
    headers: call.headers ?? {},
    address: call.address,
    requestId: 'r1',
    caller: call.caller ?? anonymous,
    content: noContent,
    get svid() {
      return call.svid?.();
    },
    peerChain: call.peerChain ?? [],
    get peer() {
      return admitted.peer as NonNullable<Admitted['peer']>;
    },
    get agent() {
      return admitted.agent as NonNullable<Admitted['agent']>;
    },
    body: async (limit) => {
      if (body.byteLength > limit) throw new HansaError('HANSA_TOO_LARGE', 'too much');
      admitted = check(request);
      return body;
    },
    json: async (limit, parse) => parse(parseJsonBody(await request.body(limit))),
  };
  admitted = check(request);
  if (route.listener === 'api' && route.readsBody !== undefined) {
    const content = await request.body(route.readsBody);
    return await route.handle({ ...request, content });
  }
  return await route.handle(request);
}

function checkOf(
  route: PlaneRoute,
  host: TestHost,
): (request: ApiRequest & PeerRequest) => Admitted {
  if (route.listener === 'web') return () => ({});
  if (route.listener === 'federation') return federationCheck(route, host) ?? (() => ({}));
  const kinds = route.allow === 'rights' ? route.rights.map(({ kind }) => kind) : [];
  const { store } = host;
  const check = apiCheck(route, store === undefined ? granting : new Authorizer({ store, kinds }));
  return (request) => {
    check(request.caller, request);
    return {};
  };
}
