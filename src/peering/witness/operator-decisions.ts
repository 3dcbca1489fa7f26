// What operators decide about the log of a peer: they end a finding, or confirm a size after a restore of this
// site. Both give trust back, so both can need approval.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { requestedBy, type Requester } from '../../core/access/audit-draft.ts';
import type { ApprovalGate, SpentApproval } from '../../core/approvals/approval-gate.ts';
import { withApproval } from '../../core/approvals/with-approval.ts';
import { readIntroduction } from '../../core/audit/introduction.ts';
import type { Audit } from '../../core/audit/log.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { acknowledgeRequest, confirmLogRequest } from '../approval-actions.ts';
import type { Kept } from '../handshake/records.ts';
import { type Finding, findingId, type FindingReason, wordsOf } from './finding.ts';
import type { Witness } from './witness.ts';
import { emptyHead, type WitnessedLog } from './witnessed-logs.ts';

export interface OperatorDecisionParts {
  /** The trust domain of this site. */
  readonly self: string;
  readonly store: Store;
  readonly audit: Pick<Audit, 'record'>;
  readonly approvals: Pick<ApprovalGate, 'allow'>;
  readonly witness: Pick<Witness, 'logs' | 'show'>;
}

/** A log with one of these findings starts over when an operator acknowledges it. */
const contradictions: ReadonlySet<FindingReason> = new Set([
  'Shrank',
  'Forked',
  'Unproven',
  'SplitView',
  'KeyChanged',
]);

/** More conflicts in a row indicate a fault. */
const maxAttempts = 8;

const peersReader = kindReader(federationPeerKind);

export class OperatorDecisions {
  readonly #parts: OperatorDecisionParts;

  constructor(parts: OperatorDecisionParts) {
    this.#parts = parts;
  }

  /**
   * An operator has checked the finding with this id. A contradicted log starts over with its next checkpoint.
   * Throws HANSA_CONFLICT if the log has no finding, or a graver one has replaced it: the operator has not seen that.
   */
  acknowledge(name: string, id: string, by: Requester): Promise<void> {
    return withApproval(
      this.#parts.approvals,
      by,
      async () => acknowledgeRequest(name, this.#peer(name), id, this.#finding(name, id).finding),
      (spent) =>
        this.#change(name, by, spent, () => {
          const { before, finding } = this.#finding(name, id);
          const { finding: _ended, ...log } = before.value;
          const next = contradictions.has(finding.reason)
            ? { ...log, key: this.#keyAfter(name, log.key, finding), ...emptyHead, note: '' }
            : log;
          const reason = `acknowledged ${wordsOf(finding)}`;
          return { before, next, verb: 'witness.acknowledge', reason };
        }),
    );
  }

  /** An operator has confirmed the size that this site holds after its restore. */
  confirm(name: string, by: Requester): Promise<void> {
    return withApproval(
      this.#parts.approvals,
      by,
      async () => {
        const { restore, before } = this.#unconfirmed(name);
        return confirmLogRequest(name, this.#peer(name), restore, before.value.key);
      },
      (spent) =>
        this.#change(name, by, spent, () => {
          const { restore, before } = this.#unconfirmed(name);
          const next = { ...before.value, confirmed: restore };
          const reason = `confirmed ${before.value.size} events after the restore of this site`;
          return { before, next, verb: 'witness.confirm', reason };
        }),
    );
  }

  #peer(name: string): ReturnType<typeof peersReader.get> {
    return peersReader.get(this.#parts.store, name);
  }

  #known(name: string): Kept<WitnessedLog> {
    const known = this.#parts.witness.logs.get(name);
    if (known !== undefined) return known;
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `This site witnesses no audit log of ${name}. To list those that it witnesses: hansa witness list`,
    );
  }

  #finding(
    name: string,
    id: string,
  ): { readonly before: Kept<WitnessedLog>; readonly finding: Finding } {
    const before = this.#known(name);
    const { finding } = before.value;
    if (finding === undefined) {
      throw new HansaError(
        'HANSA_CONFLICT',
        `There is no finding about the audit log of ${name}. To list the logs: hansa witness list`,
      );
    }
    if (findingId(finding) !== id) {
      throw new HansaError(
        'HANSA_CONFLICT',
        `Cannot acknowledge the finding ${id} about the audit log of ${name}: there is another one now, ${findingId(finding)} (${finding.reason}). Look at it first: hansa witness show ${name}`,
      );
    }
    return { before, finding };
  }

  #unconfirmed(name: string): { readonly before: Kept<WitnessedLog>; readonly restore: string } {
    const { logs } = this.#parts.witness;
    const before = this.#known(name);
    const restore = logs.restoreId();
    if (restore !== undefined && !logs.isConfirmed(before.value)) return { before, restore };
    throw new HansaError(
      'HANSA_CONFLICT',
      `The size of the audit log of ${name} needs no confirmation: this site was not restored, or the size is confirmed already. To see its state: hansa witness show ${name}`,
    );
  }

  /** A finding about another key carries the introduction of that key. */
  #keyAfter(name: string, key: string, { reason, proof }: Finding): string {
    const introduction = reason === 'KeyChanged' ? proof.at(-1) : undefined;
    return introduction === undefined
      ? key
      : readIntroduction(introduction, name, this.#parts.self).text;
  }

  /**
   * Heartbeats change the record at any time, so `decide` runs again after a conflict. With an Approval,
   * `withApproval` does that.
   */
  async #change(
    name: string,
    by: Requester,
    spent: SpentApproval | undefined,
    decide: () => Decision,
  ): Promise<void> {
    const { audit, witness } = this.#parts;
    for (let attempt = 1; ; attempt++) {
      const { before, next, verb, reason } = decide();
      const row = audit.record({
        ...requestedBy(by),
        verb,
        kind: 'FederationPeer',
        name,
        outcome: 'allow',
        reason,
      });
      try {
        await witness.logs.put(name, before, next, [row], spent);
        break;
      } catch (error) {
        const isOvertaken = spent === undefined && hasCode(error, 'HANSA_CONFLICT');
        if (!isOvertaken || attempt >= maxAttempts) throw error;
      }
    }
    await witness.show(name);
  }
}

interface Decision {
  readonly before: Kept<WitnessedLog>;
  readonly next: WitnessedLog;
  readonly verb: string;
  readonly reason: string;
}
