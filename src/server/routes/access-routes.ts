// Routes for credentials: tokens and user SVIDs. What they do is decided in core/access.

import type { Caller } from '../../core/access/identity.ts';
import type { Origin } from '../../core/access/audit-draft.ts';
import {
  createToken,
  listTokens,
  revokeToken,
  type TokenParts,
} from '../../core/access/token-operations.ts';
import {
  issueUserCredential,
  type UserCredentialParts,
} from '../../core/access/user-credentials.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { type Exchange, readBody, respondJson } from '../http/exchange.ts';
import type { Route } from '../http/routes.ts';

/** Names, a role and a public key: far below this. */
const maxBodyBytes = 16 * 1024;

export function accessRoutes(
  tokens: TokenParts,
  credentials: UserCredentialParts,
): readonly Route[] {
  const answer =
    (status: number, act: (caller: Caller, body: unknown, origin: Origin) => Promise<unknown>) =>
    async (exchange: Exchange): Promise<void> => {
      const body = await readJson(exchange);
      respondJson(exchange, status, await act(exchange.caller, body, originOf(exchange)));
    };
  return [
    {
      method: 'POST',
      path: '/hansa/v1/tokens',
      handle: answer(201, (caller, body, origin) => createToken(tokens, caller, body, origin)),
    },
    {
      method: 'GET',
      path: '/hansa/v1/tokens',
      handle: (exchange) =>
        respondJson(exchange, 200, { tokens: listTokens(tokens, exchange.caller) }),
    },
    {
      method: 'DELETE',
      path: '/hansa/v1/tokens/*',
      handle: async (exchange, name) =>
        respondJson(
          exchange,
          200,
          await revokeToken(tokens, exchange.caller, name, originOf(exchange)),
        ),
    },
    {
      method: 'POST',
      path: '/hansa/v1/user-svids',
      handle: answer(201, (caller, body, origin) =>
        issueUserCredential(credentials, caller, body, origin),
      ),
    },
  ];
}

function originOf(exchange: Exchange): Origin {
  return {
    requestId: exchange.requestId,
    ...(exchange.address === undefined ? {} : { address: exchange.address }),
  };
}

export async function readJson(exchange: Exchange): Promise<unknown> {
  const body = await readBody(exchange, maxBodyBytes);
  try {
    return parseBoundedJson(body);
  } catch (error) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot read the body: it is not JSON (${(error as Error).message}).`,
    );
  }
}
