// Simulated operators at sites with approvals: a clerk who may approve nothing, the owner of the site, and two
// approvers. They decide and use approvals late, reject some, forget others, and lose their tokens.

import { type Approval, approvalKind } from '../../../src/api/kinds/approval.ts';
import { siteKind } from '../../../src/api/kinds/site.ts';
import type { Resource } from '../../../src/api/object.ts';
import {
  adminUser,
  type Caller,
  socketOwner,
  tokenCaller,
} from '../../../src/core/access/identity.ts';
import { createToken, revokeToken } from '../../../src/core/access/token-operations.ts';
import { tokensCollection } from '../../../src/core/access/token-register.ts';
import { sleep } from '../../../src/core/clock/clock.ts';
import type { SeededRandom } from '../../../src/core/clock/seeded-random.ts';
import { type HansaError, hasCode } from '../../../src/core/errors/error.ts';
import type { WriteAs } from '../../../src/core/reconcile/resource-client.ts';
import { peeringActions } from '../../../src/peering/approval-actions.ts';
import { clerk } from './approval-watch.ts';
import { Operators } from './operators.ts';
import type { ThreadSite } from './site.ts';
import type { World } from './world.ts';

const approvers = ['ada', 'bob'] as const;
/** A user may request one more approval each minute. */
const longestWaitSeconds = 60;
/** More than people ever wait for one another. */
const mostWaits = 10;
/** Everything about peers that can need approval. */
const guarded = peeringActions.map(({ action }) => action);

export interface Manners {
  /** How long an Approval lasts. */
  readonly ttlMs: number;
  /** Sites whose policy needs two persons for everything about peers. */
  readonly twoPersons: ReadonlySet<string>;
}

export class People extends Operators {
  readonly #world: World;
  readonly #manners: Manners;
  readonly #random: SeededRandom;
  /** From here on, everybody answers soon and with yes. */
  #areKind = false;

  constructor(world: World, manners: Manners) {
    super(world);
    this.#world = world;
    this.#manners = manners;
    this.#random = world.simulation.random.fork('people');
  }

  calm(): void {
    this.#areKind = true;
  }

  /** Gives the people of a new site their tokens, and the site its policy. */
  async found(name: string): Promise<void> {
    await this.attempt(name, async (site) => {
      await createToken(site.access, socketOwner, { name: clerk, role: 'editor' });
      for (const approver of approvers) await this.#giveToken(site, approver);
      if (!this.#manners.twoPersons.has(name)) return;
      const rules = guarded.map((action) => ({ action, mode: 'two-person' }));
      const sites = site.resources<Resource>(siteKind);
      await sites.create({ name: 'site', spec: { approvals: { rules } } }, { controller: 'owner' });
      this.#world.approvals.twoPersons.add(name);
    });
  }

  /** An approver loses the token, and gets another one. What it approved no longer counts. */
  async replaceApprover(name: string): Promise<void> {
    // With two persons, the new token itself needs an approval.
    if (this.#manners.twoPersons.has(name)) return;
    const approver = this.#random.pick(approvers);
    this.#world.simulation.event(`${name} revokes the token of ${approver}`);
    await this.attempt(name, (site) => revokeToken(site.access, socketOwner, approver));
    await sleep(this.#world.simulation.clock, 500);
    await this.attempt(name, (site) => this.#giveToken(site, approver));
  }

  async #giveToken(site: ThreadSite, approver: string): Promise<void> {
    await createToken(site.access, socketOwner, { name: approver, role: 'approver' });
  }

  /** Asks for the approvals that it needs, and tries again until it is done or they forget it. */
  protected override async act<T>(
    name: string,
    work: (site: ThreadSite, as: WriteAs) => Promise<T>,
  ): Promise<T | undefined> {
    const user = this.#random.chance(0.6) ? clerk : adminUser;
    for (let waits = 0; ; ) {
      let needed: string | undefined;
      let toldSeconds: number | undefined;
      const done = await this.attempt(name, async (site) => {
        try {
          return await work(site, { controller: 'operator', caller: this.#caller(name, user) });
        } catch (error) {
          if (hasCode(error, 'HANSA_APPROVAL_REQUIRED')) needed = error.details?.name;
          if (isRequestLimit(error)) toldSeconds = error.details?.retryAfterSeconds;
          throw error;
        }
      });
      if (toldSeconds !== undefined) {
        waits += 1;
        await this.#waitAsTold(name, user, toldSeconds, waits);
        continue;
      }
      if (needed === undefined) return done;
      if (!this.#areKind && this.#random.chance(0.1)) return undefined;
      await this.#decideSoon(name, needed, user);
    }
  }

  protected override comesBack(error: HansaError): boolean {
    return error.code === 'HANSA_APPROVAL_REQUIRED' || isRequestLimit(error);
  }

  /** The site says when there is room for one more request. Another one of the same user may take it first. */
  async #waitAsTold(name: string, user: string, seconds: number, waits: number): Promise<void> {
    const { simulation, toldWaits } = this.#world;
    simulation.event(`${name} tells ${user} to wait ${seconds} s`);
    if (seconds > longestWaitSeconds || waits > mostWaits) {
      simulation.fail(new Error(`${name} lets ${user} wait ${seconds} s, ${waits} times by now`));
    }
    await toldWaits.wait(seconds);
  }

  async #decideSoon(name: string, approval: string, requester: string): Promise<void> {
    await this.#wait(1.1);
    const approver = this.#random.pick(approvers);
    const decision = this.#areKind || this.#random.chance(0.9) ? 'approved' : 'rejected';
    const acknowledge = this.acknowledged.begin(name, approvalKind.plural, approval);
    const decided = await this.attempt(name, (site) =>
      site
        .resources<Approval>(approvalKind)
        .patchSpec(approval, (one) => ({ ...one.spec, decision }), {
          controller: 'approver',
          caller: this.#caller(name, approver),
        }),
    );
    this.#world.simulation.event(
      `${name}: ${approver} has ${decided === undefined ? 'not ' : ''}${decision} ${approval} of ${requester}`,
    );
    if (decided === undefined) return;
    acknowledge((value) => {
      const stored = value && (JSON.parse(value.toString('utf8')) as Approval);
      return (
        stored?.metadata.uid === decided.metadata.uid &&
        stored.spec.decision === decided.spec.decision
      );
    });
    await this.#wait(0.6);
  }

  /** Up to that part of the life of an Approval. */
  #wait(part: number): Promise<void> {
    const longestMs = this.#areKind ? 300 : Math.min(this.#manners.ttlMs * part, 8000);
    return sleep(this.#world.simulation.clock, this.#random.integer(0, Math.ceil(longestMs)));
  }

  #caller(name: string, user: string): Caller {
    if (user === adminUser) return socketOwner;
    const record = this.#world.database(name).read(tokensCollection, user);
    const token = record && (JSON.parse(record.toString('utf8')) as { readonly id: string });
    return tokenCaller(user, 'token', user, token?.id);
  }
}

/** Not of what waits for other people, which may take any time. */
function isRequestLimit(error: unknown): error is HansaError {
  const isLimit = hasCode(error, 'HANSA_TOO_MANY_REQUESTS');
  return isLimit && error.message.includes('requested too many approvals');
}
