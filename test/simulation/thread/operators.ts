// Simulated operators: the commands that they send to their sites, and what they do when a site
// does not answer. What a site has acknowledged must be durable then, and stay so.

import { federationGrantKind } from '../../../src/api/kinds/federation-grant.ts';
import { federationPeerKind, type FederationPeer } from '../../../src/api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../../src/api/kinds/service-offer.ts';
import type { SeededRandom } from '../../../src/core/clock/seeded-random.ts';
import { sleep, type Timer } from '../../../src/core/clock/clock.ts';
import { socketOwner } from '../../../src/core/access/identity.ts';
import { HansaError, toHansaError } from '../../../src/core/errors/error.ts';
import type { WriteAs } from '../../../src/core/reconcile/resource-client.ts';
import { peerFinalizer } from '../../../src/peering/peers/peer-repository.ts';
import { invitationsCollection } from '../../../src/peering/handshake/records.ts';
import { AcknowledgedWrites } from './acknowledged-writes.ts';
import type { ThreadSite } from './site.ts';
import type { World } from './world.ts';

const operator: WriteAs = { controller: 'operator' };
/** People look again after a while; longer than `accept` waits by itself. */
const patienceMs = 20_000;
const lookMs = 400;

export type Answer = { readonly code: string | undefined; readonly body: unknown };

/** An invitation that somebody holds in hands. */
export interface HandedOut {
  readonly from: string;
  readonly line: string;
  readonly for?: string;
}

export class Operators {
  readonly #world: World;
  /** Some of them leak. */
  readonly lines: HandedOut[] = [];
  readonly acknowledged: AcknowledgedWrites;

  constructor(world: World) {
    this.#world = world;
    this.acknowledged = new AcknowledgedWrites(world);
  }

  /** Does it as the operator of the site. Undefined where the site was down, died over it, or refused it. */
  protected act<T>(
    name: string,
    work: (site: ThreadSite, as: WriteAs) => Promise<T>,
  ): Promise<T | undefined> {
    return this.attempt(name, (site) => work(site, operator));
  }

  /** Whether `act` does something about this error, and tries again. */
  protected comesBack(_error: HansaError): boolean {
    return false;
  }

  /** Undefined where the site was down, or died over it. */
  async ask(name: string, path: string, body: object = {}): Promise<Answer | undefined> {
    return this.act(name, async (site, { caller = socketOwner }) => {
      const { error, body: bytes } = await site.operate('POST', path, body, caller);
      if (error !== undefined && this.comesBack(error)) throw error;
      if (error?.code === 'HANSA_INTERNAL') this.#world.simulation.fail(error.cause ?? error);
      this.#world.simulation.event(`${name} ${path.split('/')[0]}: ${error?.code ?? 'ok'}`);
      return { code: error?.code, body: JSON.parse(bytes.toString('utf8')) as unknown };
    });
  }

  async invite(from: string, whom: string | undefined): Promise<string | undefined> {
    const made = await this.ask(from, 'invite', whom === undefined ? {} : { for: whom });
    if (made === undefined) return undefined;
    const { invitation: line, id = '' } = made.body as {
      readonly invitation?: string;
      readonly id?: string;
    };
    if (line !== undefined) {
      this.lines.push({ from, line, ...(whom === undefined ? {} : { for: whom }) });
      this.acknowledged.begin(from, invitationsCollection, id)((value) => value !== undefined);
    }
    return line;
  }

  /** Two operators who agreed go on until both of their sites have heard of it. Nothing may refuse them. */
  async peer(inviter: string, acceptor: string, meant: boolean): Promise<void> {
    const line = await this.#lineOf(inviter, meant ? acceptor : undefined);
    if (!(await this.#acceptUntilHeard(inviter, acceptor, line, false)) || meant) return;
    await this.#confirmUntilHeard(inviter, acceptor);
  }

  /** Two operators who agreed, and who both invite and both accept, at about the same time. */
  async cross(one: string, other: string, meant: boolean, apartMs: number): Promise<void> {
    const ofOne = await this.#lineOf(one, meant ? other : undefined);
    const ofOther = await this.#lineOf(other, meant ? one : undefined);
    const later = async (): Promise<boolean> => {
      await sleep(this.#world.simulation.clock, apartMs);
      return this.#acceptUntilHeard(other, one, ofOther, true);
    };
    const accepted = [this.#acceptUntilHeard(one, other, ofOne, true), later()];
    await Promise.all(accepted);
  }

  async #lineOf(from: string, whom: string | undefined): Promise<string> {
    for (;;) {
      const line = await this.invite(from, whom);
      if (line !== undefined) return line;
      await this.#rest();
    }
  }

  /** False where it was refused, which ends the run. */
  async #acceptUntilHeard(
    inviter: string,
    acceptor: string,
    line: string,
    crossing: boolean,
  ): Promise<boolean> {
    const { witness } = this.#world;
    for (;;) {
      const answer = await this.ask(acceptor, 'accept', { invitation: line });
      if (answer !== undefined && answer.code === undefined) return true;
      // Where an earlier attempt went through unheard, or the other invitation did, this one says so.
      const state = witness.peer(acceptor, inviter)?.state;
      const done =
        state !== undefined && (crossing || (state !== 'proposed' && state !== 'accepted'));
      if (answer !== undefined && done && alreadyDone.has(answer.code ?? '')) return true;
      if (answer !== undefined && !passing.has(answer.code ?? '')) {
        this.#refused('the acceptance', inviter, acceptor, answer.code ?? '');
        return false;
      }
      await this.#rest();
    }
  }

  async #confirmUntilHeard(inviter: string, acceptor: string): Promise<void> {
    while (waits(this.#world.witness.peer(inviter, acceptor)?.state)) {
      const answer = await this.ask(inviter, `confirm/${acceptor}`);
      // The acceptor may be about to redeem it.
      if (answer?.code !== undefined && !confirmLater.has(answer.code)) {
        this.#refused('the confirmation', inviter, acceptor, answer.code);
        return;
      }
      await this.#rest();
    }
  }

  #refused(what: string, inviter: string, acceptor: string, code: string): void {
    this.#world.simulation.fail(
      new Error(`${what} of ${inviter} and ${acceptor} was refused: ${code}`),
    );
  }

  /** A step of a rotation. What the phases do not allow is refused, and that is all right. */
  async rotate(name: string, verb: string, body: object = {}): Promise<string | undefined> {
    return this.attempt(name, async (site) => {
      const { error } = await site.rotate(verb, body);
      if (error?.code === 'HANSA_INTERNAL') this.#world.simulation.fail(error.cause ?? error);
      this.#world.simulation.event(
        `${name} ${verb} ${JSON.stringify(body)}: ${error?.code ?? 'ok'}`,
      );
      return error?.code ?? 'ok';
    });
  }

  /** Confirms whoever waits under one of these names. */
  async confirmAll(name: string, names: readonly string[]): Promise<void> {
    for (const other of names) {
      const peer = this.#world.witness.peer(name, other);
      if (peer?.state !== 'proposed' || peer.role !== 'inviter') continue;
      await this.ask(name, `confirm/${other}`);
    }
  }

  async revoke(name: string, other: string, emergency?: string): Promise<void> {
    const before = this.#world.witness.peer(name, other)?.uid;
    const answer = await this.ask(
      name,
      `revoke/${other}`,
      emergency === undefined ? {} : { emergency },
    );
    const after = this.#world.witness.peer(name, other);
    const site = this.#world.site(name);
    if (answer === undefined || answer.code !== undefined || site === undefined) return;
    // A new invitation may have made it a peer again in the meantime.
    if (after !== undefined && (after.uid !== before || after.state !== 'revoked')) return;
    if (this.#world.believes(site, other)) {
      this.#world.simulation.fail(new Error(`${name} believes ${other} after revoking it`));
    }
  }

  async desire(name: string, other: string, desiredState: 'active' | 'suspended'): Promise<void> {
    this.#world.simulation.event(`${name} wants ${other} ${desiredState}`);
    const { plural } = federationPeerKind;
    const acknowledge = this.acknowledged.begin(name, plural, other);
    const peer = await this.act(name, (site, as) =>
      site
        .resources<FederationPeer>(federationPeerKind)
        .patchSpec(other, (current) => ({ ...current.spec, desiredState }), as),
    );
    if (peer === undefined) return;
    acknowledge((value) => {
      const stored = value && (JSON.parse(value.toString('utf8')) as FederationPeer);
      // Another peer of this name has another wish.
      const isSame = stored?.metadata.uid === peer.metadata.uid;
      return !isSame || stored.spec.desiredState === desiredState;
    });
  }

  /** As with kubectl. */
  async deletePeer(name: string, other: string): Promise<void> {
    this.#world.simulation.event(`${name} deletes ${other}`);
    await this.act(name, (site, as) => site.resources(federationPeerKind).delete(other, as));
  }

  /** As with a manifest. */
  async declare(name: string, other: string): Promise<void> {
    this.#world.simulation.event(`${name} declares ${other}`);
    const spec = { url: `https://${other}:8443`, desiredState: 'active' };
    await this.attempt(name, (site) =>
      site.resources(federationPeerKind).create({ name: other, spec }, operator),
    );
  }

  /** As with a patch. */
  async removeFinalizer(name: string, other: string): Promise<void> {
    this.#world.simulation.event(`${name} removes the finalizer of ${other}`);
    await this.attempt(name, (site) =>
      site.resources(federationPeerKind).removeFinalizer(other, peerFinalizer, operator),
    );
  }

  async grant(name: string, other: string, random: SeededRandom): Promise<void> {
    const offer = random.pick(['db', 'metrics']);
    const take = random.chance(0.4);
    const grant = `${other}-${offer}`;
    const acknowledge = this.acknowledged.begin(name, federationGrantKind.plural, grant);
    const done = await this.act(name, async (site, as) => {
      const grants = site.resources(federationGrantKind);
      if (take) {
        await grants.delete(grant, as);
        return true;
      }
      const offers = site.resources(serviceOfferKind);
      const spec = { spiffeID: `spiffe://${name}/${offer}` };
      await offers.create({ name: offer, spec }, as).catch(unlessThere);
      await grants.create({ name: grant, spec: grantOf(other, offer) }, as).catch(unlessThere);
      return true;
    });
    if (done === true) acknowledge((value) => (value === undefined) === take);
  }

  #rest(): Promise<void> {
    return sleep(this.#world.simulation.clock, 700);
  }

  /** Whatever a disk or a race refuses is tried again another day; a fault of ours ends the run. */
  protected attempt<T>(
    name: string,
    work: (site: ThreadSite) => Promise<T>,
  ): Promise<T | undefined> {
    const { simulation } = this.#world;
    const site = this.#world.site(name);
    if (site === undefined) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      let timer: Timer | undefined;
      const lookAgain = (leftMs: number): void => {
        if (leftMs <= 0 || !site.process.alive) resolve(undefined);
        else timer = simulation.clock.timer(lookMs, () => lookAgain(leftMs - lookMs));
      };
      lookAgain(patienceMs);
      work(site)
        .catch((error: unknown) => {
          if (!(error instanceof HansaError) || error.code === 'HANSA_INTERNAL') {
            simulation.fail(error);
          }
          return undefined;
        })
        .then((value) => {
          timer?.cancel();
          return resolve(value);
        })
        .catch((error: unknown) => simulation.fail(toHansaError(error)));
    });
  }
}

function grantOf(other: string, offer: string) {
  const unrestricted = { unrestricted: true };
  return {
    peer: other,
    offers: [offer],
    nodeInstances: { ids: [`spiffe://${other}/web`] },
    networks: unrestricted,
    sourceCIDRs: unrestricted,
  };
}

function waits(state: string | undefined): boolean {
  return state === undefined || state === 'proposed';
}

function unlessThere(error: unknown): void {
  if (toHansaError(error).code !== 'HANSA_ALREADY_EXISTS') throw error;
}

const alreadyDone: ReadonlySet<string> = new Set(['HANSA_INVITATION_REDEEMED', 'HANSA_PEER_STATE']);
/** What passes by itself: the other site or the disk is away, or somebody is in the middle. */
const passing: ReadonlySet<string> = new Set([
  'HANSA_PEER_UNREACHABLE',
  'HANSA_PEER_UNTRUSTED',
  'HANSA_STORE_FULL',
  'HANSA_UNAVAILABLE',
  'HANSA_CONFLICT',
]);
const confirmLater: ReadonlySet<string> = new Set([
  'HANSA_NOT_FOUND',
  'HANSA_STORE_FULL',
  'HANSA_UNAVAILABLE',
  'HANSA_CONFLICT',
]);
