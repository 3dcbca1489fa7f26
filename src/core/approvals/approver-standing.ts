// Whether a decision still counts when it is used, which can be hours later: the token that decided must still be
// valid, and its holder must still have the right to decide. Otherwise a revoked approver would still approve.

import type { Approval } from '../../api/kinds/approval.ts';
import type { Authorizer } from '../access/authorizer.ts';
import { rightsOf } from '../access/escalation.ts';
import { type Caller, personCaller, tokenCaller, tokenNameOf } from '../access/identity.ts';
import { expiryOf, liveToken, tokensCollection } from '../access/token-register.ts';
import type { RecordExpectation, Store } from '../store/store.ts';
import { approvalsCollection, expectedAt } from './approval-object.ts';
import { approveVerb, changeVerbs } from './approver-rights.ts';

export interface StandingParts {
  readonly store: Pick<Store, 'get'>;
  readonly authorizer: Pick<Authorizer, 'authorize' | 'policy'>;
}

export type Standing =
  | {
      readonly counts: true;
      /** The token, roles and bindings that the decision relies on: they must be the same at the commit. */
      readonly expect: readonly RecordExpectation[];
      /** When the token expires. */
      readonly untilMs?: number;
    }
  | { readonly counts: false; readonly why: string };

/** Whether the caller may decide the Approval with this name, or all of them without a name. */
export function mayDecide(
  authorizer: Pick<Authorizer, 'authorize'>,
  caller: Caller,
  name?: string,
): boolean {
  const may = (verb: string): boolean =>
    authorizer.authorize(caller, {
      verb,
      plural: approvalsCollection,
      ...(name === undefined ? {} : { name }),
    }).allowed;
  return may(approveVerb) && changeVerbs.some(may);
}

export function standingOf(
  { store, authorizer }: StandingParts,
  { metadata, status }: Pick<Approval, 'metadata' | 'status'>,
  nowMs: number,
): Standing {
  const { user = '', tokenID = '' } = status?.decidedBy ?? {};
  const lost = (why: string): Standing => ({
    counts: false,
    why: `${user} approved it, and ${why}`,
  });
  const name = tokenNameOf(user);
  const token = name === undefined ? undefined : liveToken(store, name, tokenID, nowMs);
  if (name !== undefined && token === undefined) {
    return lost('that token was revoked or has expired');
  }
  const caller = name === undefined ? personCaller(user, '') : tokenCaller(name);
  if (!mayDecide(authorizer, caller, metadata.name)) return lost('may not approve any more');
  const entry = token && store.get(tokensCollection, token.name);
  return {
    counts: true,
    expect: [...(entry === undefined ? [] : [expectedAt(entry)]), ...rightsOf(authorizer, caller)],
    ...(token === undefined ? {} : { untilMs: expiryOf(token) }),
  };
}
