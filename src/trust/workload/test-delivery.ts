// For tests only: the delivery with an in-memory store, a virtual clock, and an issuer that can be held up.

import { afterEach } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { systemRandom as random } from '../../core/clock/system.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { openStore } from '../../core/store/open.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { Delivery, type Subscriber } from './delivery.ts';
import { siteIssuer } from './svids/issuer.ts';
import { SvidSupply } from './svids/svid-supply.ts';
import { openAuthority } from './test-workload-site.ts';
import type { WorkloadProcess } from './entries/workload-process.ts';
import type { WorkloadState } from './workload-state.ts';
import { silentLog } from '../../core/log/test-log.ts';

export function nothing(): void {
  // Nobody reads it.
}

let stop = async (): Promise<void> => undefined;
afterEach(() => stop());

/** What waits for `open` once it is closed. */
export class Gate {
  readonly #waiting: (() => void)[] = [];
  #arrived = (): void => undefined;
  isClosed = false;
  /** Thrown by whatever passes. */
  breaks: Error | undefined;

  async pass(): Promise<void> {
    if (this.isClosed) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
        this.#arrived();
      });
    }
    if (this.breaks !== undefined) throw this.breaks;
  }

  /** Resolves when somebody waits. */
  async arrival(): Promise<void> {
    if (this.#waiting.length === 0) await new Promise<void>((done) => (this.#arrived = done));
  }

  letOnePass(): void {
    this.#waiting.shift()?.();
  }

  open(): void {
    this.isClosed = false;
    while (this.#waiting.length > 0) this.letOnePass();
  }
}

export async function scene(
  options: { readonly entriesAhead?: number; readonly agent?: string } = {},
) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const authority = await openAuthority('lubeck.example', clock);
  const issuing = new Gate();
  const bundles = new FederatedBundles(store, authority, clock);
  const issuer = siteIssuer({ authority, clock, audit: { later: nothing }, jwtIssuer: undefined });
  let pushed = nothing;
  const supply = new SvidSupply({
    issuer: {
      isTainted: (id) => authority.isTainted(id),
      issue: async (entry, key) => {
        const svid = await issuer.issue(entry, key);
        await issuing.pass();
        return svid;
      },
    },
    clock,
    random,
    issued: nothing,
    failed: nothing,
  });
  const delivery = new Delivery({
    ...options,
    store,
    clock,
    log: silentLog,
    trustDomain: TrustDomain.parse('lubeck.example'),
    bundles,
    federationState: new StoreFederationState(store, bundles),
    supply,
    pushed: () => pushed(),
  });
  stop = async () => {
    delivery.stop();
    await store.close();
  };
  return {
    store,
    clock,
    delivery,
    supply,
    authority,
    issuing,
    /** Resolves when the work that is under way, or the next, has told somebody something. */
    push: () => new Promise<void>((resolve) => (pushed = resolve)),
  };
}

export function processOf(uid: number, hashed: WorkloadProcess['hashed']): WorkloadProcess {
  const selectors = [`unix:uid:${uid}`];
  return { uid, gid: uid, pid: uid, selectors, key: `${uid}`, description: `uid ${uid}`, hashed };
}

/** Resolves to the first state, and how to end the stream; or rejects as the stream would end. */
export function streamOf(
  delivery: Delivery,
  process: WorkloadProcess,
  needsSvids = false,
): Promise<WorkloadState & { readonly close: () => void }> {
  return new Promise((resolve, reject) => {
    const subscriber: Subscriber = {
      needsSvids,
      versionOf: (state) => (needsSvids ? state.svidVersion : state.bundlesVersion),
      send: (state) => resolve(Object.assign(state, { close: () => close() })),
      denied: () => reject(new Error('denied')),
      failed: reject,
    };
    const close = delivery.subscribe(process, subscriber);
  });
}

/** Every state that a stream of SVIDs is told, and how to hear of the first. */
export function told(
  delivery: Delivery,
  process: WorkloadProcess,
  then = nothing,
): WorkloadState[] {
  const states: WorkloadState[] = [];
  delivery.subscribe(process, {
    needsSvids: true,
    versionOf: (state) => state.svidVersion,
    send: (state) => {
      states.push(state);
      then();
    },
    denied: nothing,
    failed: nothing,
  });
  return states;
}

export const idsIn = (states: readonly WorkloadState[]): readonly string[] =>
  states.flatMap(({ svids }) => svids.map(({ svid }) => svid.id.path));
export const unhashed = async (): Promise<void> => undefined;
