// The tokens that may approve, and the protection of the approval policy and of the right to approve. Otherwise
// one person could become two: by switching the policy off, or by creating a token that approves.

import type { Requester } from '../access/audit-draft.ts';
import type { Authorizer } from '../access/authorizer.ts';
import { forbiddenObject } from '../access/denial.ts';
import { tokenCaller } from '../access/identity.ts';
import { tokenKind } from '../access/presets.ts';
import { expiryOf, type TokenRecord, type TokenRegister } from '../access/token-register.ts';
import type { Clock } from '../clock/clock.ts';
import type { ActionRequest, ApprovalGate, SpentApproval } from './approval-gate.ts';
import { grantsApproval } from './approver-rights.ts';
import { mayDecide } from './approver-standing.ts';
import { actionOfWrite, type ApprovalMode } from './policy.ts';

export interface ApproversParts {
  readonly clock: Clock;
  readonly authorizer: Pick<Authorizer, 'authorize' | 'policy'>;
  readonly tokens: Pick<TokenRegister, 'list'>;
  readonly gate: ApprovalGate;
}

export interface CheckedRevocation {
  /** Another token that may approve. The revocation relies on it: it must still be there at the commit. */
  readonly relied: string;
  /** What needs approval first. */
  readonly request?: ActionRequest;
}

export class Approvers {
  readonly #parts: ApproversParts;

  constructor(parts: ApproversParts) {
    this.#parts = parts;
  }

  /** Live tokens that may approve. Certificates of the admin socket do not count: under the two-person rule they cannot. */
  list(): readonly TokenRecord[] {
    const { clock, tokens, authorizer } = this.#parts;
    const nowMs = clock.now();
    return tokens
      .list()
      .filter(
        (record) => nowMs < expiryOf(record) && mayDecide(authorizer, tokenCaller(record.name)),
      );
  }

  /**
   * The mode for a change of the policy or of who may approve, where the policy has `mode` for it. Where no token
   * can approve any more, nobody could ever: then the owner recovers with the right to approve. An owner cannot
   * bring this about: the last token cannot be revoked, and its rights are protected. It can only expire.
   */
  protection(mode: ApprovalMode): ApprovalMode {
    return mode === 'two-person' && this.list().length === 0 ? 'approver' : mode;
  }

  /**
   * Asks for approval of a new token that could approve: by its role, or by bindings that name it already. Any other
   * token needs what the policy has for a new RoleBinding, because it comes with one.
   */
  async allowToken(
    token: {
      readonly name: string;
      readonly role: string;
      readonly ttlSeconds: number | undefined;
    },
    by: Requester,
  ): Promise<SpentApproval | undefined> {
    const { authorizer, gate } = this.#parts;
    const { name, role, ttlSeconds } = token;
    const { policy } = authorizer;
    const roles = policy.bindingsOf(tokenCaller(name)).map(({ binding }) => binding.role);
    const isApprover = [role, ...roles].some((one) =>
      grantsApproval(policy.role(one)?.rules ?? []),
    );
    return gate.allow(
      {
        action: `${tokenKind.kind}.create`,
        verb: 'create',
        target: { kind: tokenKind.kind, name },
        change: { role, ttlSeconds },
        summary: `create the token ${name} with the role ${role}${isApprover ? ', which can approve' : ''}`,
        // No rule is stronger than the strongest. Only where no token can approve, this is weaker than the rule.
        mode: isApprover
          ? this.protection(gate.policy.strongest)
          : gate.policy.modeOf(actionOfWrite(gate.actions, 'RoleBinding', 'create')),
      },
      by,
    );
  }

  /**
   * Throws HANSA_FORBIDDEN for the last token that may approve, where the policy needs two persons. Needs
   * approval where every other one expires earlier: then the owner could soon recover, without a second person.
   */
  checkRevocation(name: string): CheckedRevocation | undefined {
    const { strongest } = this.#parts.gate.policy;
    if (strongest !== 'two-person') return undefined;
    const approvers = this.list();
    const revoked = approvers.find((one) => one.name === name);
    if (revoked === undefined) return undefined;
    const [other] = approvers
      .filter((one) => one.name !== name)
      .toSorted((a, b) => expiryOf(b) - expiryOf(a));
    if (other === undefined) {
      throw forbiddenObject(
        tokenKind.plural,
        name,
        'no other token can approve, and the policy of the site needs two persons. Create another token with the role approver first',
      );
    }
    if (expiryOf(other) >= expiryOf(revoked)) return { relied: other.name };
    return {
      relied: other.name,
      request: {
        action: `${tokenKind.kind}.delete`,
        verb: 'delete',
        target: { kind: tokenKind.kind, name, uid: revoked.id },
        change: {},
        summary: `revoke the token ${name}, which can approve until ${revoked.expiresAt}, longer than any other`,
        mode: strongest,
      },
    };
  }

  allow(request: ActionRequest, by: Requester): Promise<SpentApproval | undefined> {
    return this.#parts.gate.allow(request, by);
  }
}
