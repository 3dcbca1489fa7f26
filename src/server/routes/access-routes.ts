// Routes for tokens and user SVIDs. The logic is in core/access.

import type { Caller } from '../../core/access/identity.ts';
import type { Origin } from '../../core/access/audit-draft.ts';
import { tokenKind } from '../../core/access/presets.ts';
import {
  createToken,
  listTokens,
  revokeToken,
  type TokenParts,
} from '../../core/access/token-operations.ts';
import {
  issueUserCredential,
  noCredentialFor,
  type UserCredentialParts,
} from '../../core/access/user-credentials.ts';
import { type Exchange, readJson, respondJson } from '../http/exchange.ts';
import type { Route } from '../http/routes.ts';
import { sitePaths } from './paths.ts';

/** Names, a role and a public key are much smaller. */
const maxBodyBytes = 16 * 1024;

export function accessRoutes(
  tokens: TokenParts,
  credentials: UserCredentialParts,
): readonly Route[] {
  const answer =
    (status: number, act: (caller: Caller, body: unknown, origin: Origin) => Promise<unknown>) =>
    async (exchange: Exchange): Promise<void> => {
      const body = await readJson(exchange, maxBodyBytes);
      respondJson(exchange, status, await act(exchange.caller, body, originOf(exchange)));
    };
  const may = (verb: 'create' | 'list') =>
    ({ allow: 'rights', rights: [{ verb, kind: tokenKind }] }) as const;
  return [
    {
      method: 'POST',
      path: sitePaths.tokens,
      ...may('create'),
      handle: answer(201, (caller, body, origin) => createToken(tokens, caller, body, origin)),
    },
    {
      method: 'GET',
      path: sitePaths.tokens,
      ...may('list'),
      handle: (exchange) =>
        respondJson(exchange, 200, { tokens: listTokens(tokens, exchange.caller) }),
    },
    {
      method: 'DELETE',
      path: sitePaths.token,
      allow: 'rights',
      rights: [{ verb: 'delete', kind: tokenKind, nameFrom: 'name' }],
      handle: async (exchange, { name = '' }) =>
        respondJson(
          exchange,
          200,
          await revokeToken(tokens, exchange.caller, name, originOf(exchange)),
        ),
    },
    {
      method: 'POST',
      path: sitePaths.userSvids,
      // A certificate cannot get another one, so that a stolen one expires.
      allow: 'credential',
      via: ['socket', 'token'],
      refusal: noCredentialFor,
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
