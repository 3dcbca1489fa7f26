// Does an action with the approval that it needs, and asks again if its commit was overtaken.

import type { Requester } from '../access/audit-draft.ts';
import { hasCode } from '../errors/error.ts';
import type { ActionRequest, ApprovalGate, SpentApproval } from './approval-gate.ts';

const maxAttempts = 8;

/**
 * `request` describes the action as it is now, or is undefined if nothing is left to be approved. `act` puts the
 * Approval into its first commit, and throws HANSA_CONFLICT where that commit was overtaken. Then both run again.
 */
export async function withApproval<T>(
  approvals: Pick<ApprovalGate, 'allow'>,
  by: Requester,
  request: () => Promise<ActionRequest | undefined>,
  act: (spent: SpentApproval | undefined) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const asked = await request();
    const spent = asked && (await approvals.allow(asked, by));
    try {
      return await act(spent);
    } catch (error) {
      if (spent === undefined || attempt >= maxAttempts || !hasCode(error, 'HANSA_CONFLICT'))
        throw error;
    }
  }
}
