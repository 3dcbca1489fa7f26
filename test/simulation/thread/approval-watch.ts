// Checks approvals on every commit of every site, in the order in which they became durable. An Approval takes only
// the steps of its life, and another person decides it. It is spent once, in time, in the commit of the action that
// it allows. No caller who needs approval does anything without one.

import assert from 'node:assert/strict';
import type { Approval } from '../../../src/api/kinds/approval.ts';
import { adminUser, tokenNameOf, tokenUser } from '../../../src/core/access/identity.ts';
import { tokensCollection } from '../../../src/core/access/token-register.ts';
import { approvalsCollection } from '../../../src/core/approvals/approval-object.ts';
import type { AuditEvent } from '../../../src/core/audit/event.ts';
import type { Batch, ChangeRow } from '../../../src/core/store/driver.ts';
import { wishesCollection } from '../../../src/peering/peers/wishes.ts';

/** May not approve, so it needs another person for everything. */
export const clerk = 'clerk';

/** Every step of an Approval. A review is only decided. */
const steps: ReadonlySet<string> = new Set([
  'new → pending',
  'pending → approved',
  'pending → rejected',
  'approved → spent',
  'approved → expired',
]);

/** The verbs of what a caller does itself. Controllers do the others later. */
const immediate: ReadonlySet<string> = new Set([
  'peer.invite',
  'peer.accept',
  'peer.confirm',
  'witness.acknowledge',
  'witness.confirm',
]);

interface Wish {
  readonly by: { readonly caller: { readonly user: string } };
  readonly approval?: string;
}

interface Wishes {
  readonly desiredState?: Wish & { readonly value: string };
  readonly deletion?: Wish;
}

export class ApprovalWatch {
  readonly #approvals = new Map<string, Approval>();
  readonly #wishes = new Map<string, Wishes>();
  /** The id of each token. */
  readonly #tokens = new Map<string, string>();
  /** Uids of Approvals. */
  readonly #spent = new Set<string>();
  /** `site|peer|user`: an Approval to confirm the peer was spent. */
  readonly #confirmed = new Set<string>();
  /** Sites where the owner needs another person, too. */
  readonly twoPersons = new Set<string>();
  /** How many were spent, and how many ended unused, in all sites. */
  readonly ended = { spent: 0, rejected: 0, expired: 0 };

  /** Throws where the commit is not as it must be. */
  see(site: string, { changes }: Batch, events: readonly AuditEvent[]): void {
    const spent: Approval[] = [];
    for (const change of changes) {
      if (change.collection === tokensCollection) this.#seeToken(site, change);
      if (change.collection !== approvalsCollection) continue;
      const next = this.#seeApproval(site, change, events);
      if (next !== undefined) spent.push(next);
    }
    for (const change of changes) {
      if (change.collection === wishesCollection) this.#seeWishes(site, change);
    }
    const others = changes.filter(({ collection }) => collection !== approvalsCollection);
    assert.ok(spent.length <= others.length, `${site} spends an approval and does nothing`);
    for (const event of events) this.#seeEvent(site, event, spent);
  }

  /** The database of the site was replaced while it was down: what it had forgotten may happen again. */
  putBack(site: string, rows: readonly ChangeRow[]): void {
    for (const [key, { metadata }] of this.#approvals) {
      if (!key.startsWith(`${site}|`)) continue;
      this.#approvals.delete(key);
      this.#spent.delete(metadata.uid);
    }
    for (const { collection, name, value } of rows) {
      if (value === undefined) continue;
      if (collection === tokensCollection) this.#seeToken(site, { name, value });
      if (collection !== approvalsCollection) continue;
      const approval = parsed(value) as Approval;
      this.#approvals.set(`${site}|${name}`, approval);
      if (approval.status?.state === 'spent') this.#spent.add(approval.metadata.uid);
    }
  }

  #seeToken(site: string, { name, value }: Pick<ChangeRow, 'name' | 'value'>): void {
    const key = `${site}|${name}`;
    if (value === undefined) this.#tokens.delete(key);
    else this.#tokens.set(key, (parsed(value) as { readonly id: string }).id);
  }

  /** Returns it where this commit spends it. */
  #seeApproval(
    site: string,
    { name, value }: ChangeRow,
    events: readonly AuditEvent[],
  ): Approval | undefined {
    const key = `${site}|${name}`;
    const before = this.#approvals.get(key);
    if (value === undefined) {
      const state = before?.status?.state ?? 'pending';
      assert.ok(state !== 'pending' && state !== 'approved', `${site} lost ${name}, ${state}`);
      this.#approvals.delete(key);
      return undefined;
    }
    const next = parsed(value) as Approval;
    this.#approvals.set(key, next);
    const [from, to] = [before?.status?.state ?? 'new', next.status?.state];
    if (before !== undefined) {
      const { decision: _before, comment: _c, ...fixed } = before.spec;
      const { decision: _next, comment: _d, ...now } = next.spec;
      assert.deepEqual(now, fixed, `${site} changed what ${name} allows`);
    }
    if (from === to) return undefined;
    const step = `${from} → ${to}`;
    assert.ok(steps.has(step), `${site}: ${name} went ${step}`);
    if (to === 'approved') this.#checkDecision(site, next);
    if (to === 'rejected' || to === 'expired') this.ended[to] += 1;
    if (to !== 'spent') return undefined;
    const { uid } = next.metadata;
    assert.ok(!this.#spent.has(uid), `${site}: ${name} was spent twice`);
    this.#spent.add(uid);
    this.ended.spent += 1;
    const { action, target } = next.spec;
    if (action === 'peer.confirm') {
      this.#confirmed.add(`${site}|${target.name}|${next.spec.requester.user}`);
    }
    this.#checkDecision(site, next);
    const told = events.find((event) => event.verb === 'approval.spent' && event.uid === uid);
    assert.ok(told !== undefined, `${site}: the use of ${name} is not in the audit log`);
    const { expiresAt, requester, review } = next.spec;
    assert.ok(
      told.time < expiresAt,
      `${site}: ${name} was used at ${told.time}, after ${expiresAt}`,
    );
    assert.equal(told.actor.user, requester.user, `${site}: another caller used ${name}`);
    assert.notEqual(review, true, `${site}: the review ${name} allowed an action`);
    return next;
  }

  /** Another person decided, whose token is valid. */
  #checkDecision(site: string, { metadata, spec, status }: Approval): void {
    const { user = '', origin, tokenID } = status?.decidedBy ?? {};
    const what = `${site}: ${user} approved ${metadata.name}`;
    assert.equal(spec.decision, 'approved', what);
    assert.notEqual(user, spec.requester.user, `${what}, and requested it`);
    assert.notEqual(user, tokenUser(clerk), `${what}, and may not approve`);
    if (spec.mode === 'two-person') assert.equal(origin, 'token', `${what} without a token`);
    const token = tokenNameOf(user);
    if (token === undefined) return;
    assert.equal(this.#tokens.get(`${site}|${token}`), tokenID, `${what} with a revoked token`);
  }

  #needsApproval(site: string, user: string): boolean {
    return user === tokenUser(clerk) || (user === adminUser && this.twoPersons.has(site));
  }

  /** What a controller will do on behalf of a caller has been approved. To suspend needs no approval. */
  #seeWishes(site: string, { name, value }: ChangeRow): void {
    const key = `${site}|${name}`;
    const before = this.#wishes.get(key);
    // Until the peer is gone, its controller may still do what was wished.
    if (value === undefined) return;
    const next = parsed(value) as Wishes;
    this.#wishes.set(key, next);
    const { desiredState, deletion } = next;
    const isNew = (wish: Wish | undefined, old: Wish | undefined): wish is Wish =>
      wish !== undefined && JSON.stringify(wish) !== JSON.stringify(old);
    for (const wish of [
      ...(isNew(desiredState, before?.desiredState) && desiredState?.value === 'active'
        ? [desiredState]
        : []),
      ...(isNew(deletion, before?.deletion) ? [deletion] : []),
    ]) {
      if (!this.#needsApproval(site, wish.by.caller.user)) continue;
      const isApproved = wish.approval !== undefined && this.#spent.has(wish.approval);
      assert.ok(isApproved, `${site}: ${wish.by.caller.user} wishes about ${name} unapproved`);
    }
  }

  #seeEvent(site: string, event: AuditEvent, spent: readonly Approval[]): void {
    const { verb, name = '', actor, outcome } = event;
    const { user } = actor;
    if (outcome !== 'allow' || !this.#needsApproval(site, user)) return;
    const isSpentHere = spent.some(
      ({ spec }) => spec.action === verb && spec.requester.user === user,
    );
    if (isSpentHere) return;
    // A confirmation can take two steps. The first one spends the Approval.
    const isSecondStep =
      verb === 'peer.confirm' && event.reason?.includes('although another site tried') === true;
    if (isSecondStep && this.#confirmed.has(`${site}|${name}|${user}`)) return;
    const wishes = this.#wishes.get(`${site}|${name}`);
    const isWished = [wishes?.desiredState, wishes?.deletion].some(
      (wish) => wish?.approval !== undefined && this.#spent.has(wish.approval),
    );
    const isReviewed = [...this.#approvals].some(
      ([key, { spec }]) =>
        key.startsWith(`${site}|`) &&
        spec.review === true &&
        spec.target.name === name &&
        spec.requester.user === user,
    );
    const isAllowed =
      verb === 'peer.revoke'
        ? isWished || isReviewed
        : verb === 'peer.resume'
          ? isWished
          : !immediate.has(verb);
    assert.ok(isAllowed, `${site}: ${user} did ${verb} of ${name} without approval`);
  }
}

function parsed(value: Buffer): unknown {
  return JSON.parse(value.toString('utf8'));
}
