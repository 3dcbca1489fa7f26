// The attacker in simulation, who impersonates a site: on the network between two sites, with a
// stolen invitation, or with the name of a peer and other keys. Messages that reach the attacker
// must reveal no secret, and sites must reject all messages of the attacker.

import { TrustDomain } from '../../../src/api/values/trust-domain.ts';
import type { SeededRandom } from '../../../src/core/clock/seeded-random.ts';
import { toHansaError } from '../../../src/core/errors/error.ts';
import { SiteAuthority } from '../../../src/core/identity/authority/authority.ts';
import { Bundle } from '../../../src/core/identity/bundle/bundle.ts';
import { generateEd25519, PublicKey } from '../../../src/core/identity/x509/keys.ts';
import { encodeSpiffeBundle } from '../../../src/core/identity/bundle/spiffe-bundle.ts';
import { MemoryVault } from '../../../src/core/identity/authority/test-vault.ts';
import {
  invitationId,
  parseInvitation,
  secretDigest,
} from '../../../src/peering/handshake/invitation.ts';
import { encodeMessage, paths } from '../../../src/peering/messages.ts';
import type { Process } from '../simulation.ts';
import { encodeChain } from '../site-transport.ts';
import type { HandedOut } from './operators.ts';
import type { World } from './world.ts';

export const malloryName = 'mallory.example';

interface Disguise {
  readonly authority: SiteAuthority;
  readonly chain: readonly Buffer[];
}

export class Mallory {
  readonly #world: World;
  readonly #random: SeededRandom;
  /** By trust domain: his own, and those that he claims. */
  readonly #disguises = new Map<string, Disguise>();
  #process: Process | undefined;
  /** What he answers with, to whoever was led to him. */
  #face: { readonly claims: string; readonly bundle: 'false' | 'true' | 'both' } | undefined;

  constructor(world: World) {
    this.#world = world;
    this.#random = world.simulation.random.fork('mallory');
    world.simulation.node(malloryName, (process) => {
      this.#process = process;
      process.spawn(() => this.#start(process));
    });
  }

  /** Stands between a site and another one for a while. */
  intercept(): void {
    const { names, hijacked, simulation } = this.#world;
    const random = this.#random;
    const victim = random.pick(names);
    const other = random.pick(names.filter((name) => name !== victim));
    this.#face = {
      claims: random.pick([malloryName, other, victim]),
      bundle: random.pick(['false', 'true', 'both']),
    };
    simulation.event(`mallory is ${other} to ${victim}, as ${this.#face.claims}`);
    const key = `${victim}|${other}`;
    hijacked.set(key, malloryName);
    simulation.clock.timer(random.integer(500, 6000), () => hijacked.delete(key));
  }

  /** Redeems a line that leaked, in one disguise or another. */
  steal({ from, line, for: whom }: HandedOut): void {
    const random = this.#random;
    const { secret } = parseInvitation(line, 0);
    const spent = this.#world.witness.isRedeemed(invitationId(secretDigest(secret)));
    // A line is a secret: whoever has one that is not used yet may use it, under the name that it is
    // for. What leaks here is used, or is tried under another name.
    const names = [malloryName, malloryName, from, ...(spent && whom !== undefined ? [whom] : [])];
    const claims = random.pick(names);
    const borrowed = random.chance(0.2) ? this.#genuine(random.pick(this.#world.names)) : undefined;
    this.#spawn(async () => {
      const { authority } = await this.#disguise(claims);
      const status = await this.#post(from, claims, paths.redeem, {
        contractVersions: [1],
        secret,
        trustDomain: TrustDomain.parse(claims),
        url: new URL(`https://${malloryName}:8443`),
        bundle: documentOf(borrowed ?? authority.bundle),
      });
      this.#world.simulation.event(`mallory redeems as ${claims} at ${from}: ${status}`);
      // A line for anybody is for him too, as long as no operator has looked at his name.
      const fair = claims === malloryName && whom === undefined && borrowed === undefined;
      if (status === 200 && !fair) this.#fail(`${from} let mallory redeem as ${claims}`);
    });
  }

  /** Speaks as a peer. */
  pose(): void {
    const { names } = this.#world;
    const to = this.#random.pick(names);
    const claims = this.#random.pick([malloryName, ...names]);
    this.#spawn(async () => {
      const heartbeat = { contractVersion: 1, bundleSequence: 999, offers: [] };
      const status = await this.#post(to, claims, paths.heartbeat, heartbeat);
      if (status === 200) this.#fail(`${to} took a heartbeat of mallory as ${claims}`);
    });
  }

  async #start(process: Process): Promise<void> {
    process.transport.serve({
      request: async (from, path, body) => {
        const face = this.#face ?? { claims: malloryName, bundle: 'false' };
        const { authority, chain } = await this.#disguise(face.claims);
        if (path === '/hello') return { chain: encodeChain(chain), life: 1 };
        const { method } = body as { readonly method: string };
        if (method !== 'GET') this.#fail(`${from} sent ${path} to mallory`);
        const host = this.#hostOf(from);
        const genuine = this.#genuine(host);
        const bundle =
          face.bundle === 'false' || genuine === undefined
            ? authority.bundle
            : face.bundle === 'true'
              ? genuine
              : new Bundle(genuine.trustDomain, [
                  ...genuine.authorities,
                  ...authority.bundle.authorities,
                ]);
        const text = Buffer.from(documentOf(bundle)).toString('base64');
        return { status: 200, headers: {}, body: text };
      },
    });
    await this.#disguise(malloryName);
  }

  /** As whom he was called. */
  #hostOf(from: string): string {
    const keys = [...this.#world.hijacked.keys()];
    return keys.find((key) => key.startsWith(`${from}|`))?.split('|')[1] ?? malloryName;
  }

  #genuine(name: string): Bundle | undefined {
    return this.#world.site(name)?.authority.bundle;
  }

  async #disguise(claims: string): Promise<Disguise> {
    const known = this.#disguises.get(claims);
    if (known !== undefined) return known;
    const { clock } = this.#process as Process;
    const random = this.#random.fork(claims);
    const authority = await SiteAuthority.open({
      trustDomain: TrustDomain.parse(claims),
      vault: new MemoryVault(),
      clock,
      random,
      generateKey: generateEd25519,
    });
    const publicKey = PublicKey.of(await generateEd25519(random));
    const { chain } = await authority.issueSite({ publicKey });
    const made = { authority, chain };
    this.#disguises.set(claims, made);
    return made;
  }

  /** The HTTP status; undefined where nobody answered. */
  async #post(
    to: string,
    claims: string,
    path: string,
    message: Parameters<typeof encodeMessage>[0],
  ): Promise<number | undefined> {
    const { chain } = await this.#disguise(claims);
    const { transport } = this.#process as Process;
    try {
      const { life } = (await transport.request(to, '/hello', {})) as { readonly life: number };
      const answer = await transport.request(to, path, {
        method: 'POST',
        chain: encodeChain(chain),
        life,
        headers: {
          'content-type': 'application/json',
          'x-forwarded-client-cert': 'URI=spiffe://somebody/hansa/site',
        },
        body: encodeMessage(message).toString('base64'),
      });
      return (answer as { readonly status: number }).status;
    } catch (error) {
      if (toHansaError(error).code !== 'HANSA_UNREACHABLE') throw error;
      return undefined;
    }
  }

  #spawn(task: () => Promise<void>): void {
    this.#process?.spawn(task);
  }

  #fail(what: string): void {
    this.#world.simulation.fail(new Error(what));
  }
}

function documentOf(bundle: Bundle): string {
  return encodeSpiffeBundle(bundle, { sequence: 1, refreshHintSeconds: 300 });
}
