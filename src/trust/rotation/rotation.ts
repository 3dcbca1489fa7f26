// Combines authorities, receipts and requests: plans the next step of a rotation, and builds the status
// for the API.

import { timestamp } from '../../api/object.ts';
import type { AuthorityView } from '../../core/identity/authority/state.ts';
import {
  type AuthorityKind,
  clockDoubt,
  isValidAt,
  signedUntilMs,
  sinceMsOf,
} from '../../core/identity/authority/phases.ts';
import { lastPublished } from '../../core/identity/bundle/published-bundle.ts';
import { federationsCollection } from '../federation/federated-bundles.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { RotationSettings } from '../settings.ts';
import { ClockJumps } from './clock-jumps.ts';
import { isLive, Receipts } from './receipts.ts';
import { type NextStep, planRotation, type RotationPlan } from './rotation-plan.ts';
import { rotationRecord } from './rotation-request.ts';

export const kinds: readonly AuthorityKind[] = ['x509', 'jwt'];

/** The response of the API. Times are RFC 3339. */
export interface RotationStatus {
  readonly trustDomain: string;
  readonly bundle: { readonly sequence: number; readonly hash: string };
  readonly authorities: readonly AuthorityStatus[];
  readonly rotation: readonly KindStatus[];
  /** Live peers whose receipt does not confirm the bundle. */
  readonly unconfirmed: readonly string[];
  /** Those of them that reject this site. Once such a peer is silent, a rotation does not wait for it. */
  readonly rejectedBy: readonly string[];
  /** The trust domains that may be unable to verify this site after an emergency rotation now. */
  readonly emergencyLoses: {
    readonly prepared: readonly string[];
    readonly fresh: readonly string[];
  };
}

export interface AuthorityStatus {
  readonly kind: AuthorityKind;
  readonly id: string;
  readonly state: string;
  /** Since when it is in this state. */
  readonly since: string;
  readonly notAfter: string;
  /** When it leaves the bundle automatically. */
  readonly goesAt?: string;
  /** Peers verify it against an upstream root, so after a revocation they trust it until it expires. */
  readonly belowRoot?: true;
}

export interface KindStatus {
  readonly kind: AuthorityKind;
  /** The site executes prune, prepare and activate at once. */
  readonly waitsFor: 'life' | 'spread' | 'receipts' | 'clock' | 'prune' | 'prepare' | 'activate';
  readonly until?: string;
  /** The steps that follow, if no other one is due before. */
  readonly next?: readonly NextStep[];
  /** Peers that the rotation waits for. */
  readonly peers: readonly string[];
  /** Who may not have held the active authority at its activation. */
  readonly wentOnWithout: readonly string[];
  readonly problem?: string;
}

/** The conditions for an activation. */
interface NextAuthority {
  readonly rootIds: readonly string[];
  readonly preparedAtMs?: number;
}

export class Rotation {
  readonly #parts: Pick<PlaneContext, 'trustDomain' | 'store' | 'clock' | 'authority'>;
  readonly #settings: RotationSettings;
  readonly #receipts: Receipts;
  readonly #jumps: ClockJumps;
  readonly #servedSinceMs: number;
  readonly #problems = new Map<AuthorityKind, string>();

  constructor(
    parts: Pick<PlaneContext, 'trustDomain' | 'store' | 'clock' | 'authority'>,
    settings: RotationSettings,
  ) {
    this.#parts = parts;
    this.#settings = settings;
    this.#receipts = new Receipts(parts.store);
    this.#jumps = new ClockJumps(parts.clock);
    this.#servedSinceMs = parts.clock.now();
  }

  /** Publish the bundle before, because receipts refer to the published bundle. */
  plan(kind: AuthorityKind): RotationPlan {
    const { authority, clock, store } = this.#parts;
    const authorities = authority.authorities.filter((one) => one.kind === kind);
    const prepared = authorities.find(({ state }) => state === 'prepared');
    const { requested } = rotationRecord(store, kind);
    const nowMs = clock.now();
    const { settlesInMs } = this.#jumps;
    if (settlesInMs > 0) {
      return { act: 'wait', for: 'clock', untilMs: nowMs + settlesInMs, unconfirmed: [] };
    }
    if (this.clockDoubt() !== undefined) {
      return { act: 'wait', for: 'clock', untilMs: Infinity, unconfirmed: [] };
    }
    const deadlineMs = this.#settings.receiptDeadlineSeconds * 1000;
    const active = authorities.find(({ state }) => state === 'active');
    const isNew = prepared !== undefined && !isHeldWith(active, prepared.rootIds);
    return planRotation({
      nowMs,
      authorities,
      requested,
      servedSinceMs: this.#servedSinceMs,
      spreadMs: this.#settings.spreadSeconds * 1000,
      deadlineMs,
      unconfirmed: isNew
        ? this.#receipts.unconfirmed(nowMs, deadlineMs)
        : { waits: [], goesOn: [] },
    });
  }

  /** Why rotation waits for the clock: it jumped while the site was running. */
  clockDoubt(): string | undefined {
    const { authority, clock } = this.#parts;
    const x509 = authority.authorities.filter(({ kind }) => kind === 'x509');
    const active = x509.find(({ state }) => state === 'active');
    // An operator confirmed the time, so overdue steps run now.
    if (active !== undefined && this.#jumps.steadyNowMs >= active.notAfterMs) return undefined;
    return clockDoubt(x509, clock.now(), this.#settings.clockTrustedUntilMs);
  }

  /** Why the last step of a kind failed; undefined after a success. */
  noteProblem(kind: AuthorityKind, problem: string | undefined): void {
    if (problem === undefined) this.#problems.delete(kind);
    else this.#problems.set(kind, problem);
  }

  /** `freshRootIds`: the roots that verify a new authority, if they are known. */
  status(freshRootIds: readonly string[] = []): RotationStatus {
    const fresh = { rootIds: freshRootIds };
    const { authority, store, trustDomain } = this.#parts;
    const published = lastPublished(store);
    const unconfirmed = this.#receipts.all().filter(({ holds, state }) => !holds && isLive(state));
    return {
      trustDomain: trustDomain.name,
      bundle: { sequence: published?.sequence ?? 0, hash: authority.bundle.hash },
      authorities: authority.authorities.map(statusOf),
      rotation: kinds.map((kind) => this.#kindStatus(kind)),
      unconfirmed: unconfirmed.map(({ peer }) => peer),
      rejectedBy: unconfirmed.filter(({ rejects }) => rejects).map(({ peer }) => peer),
      emergencyLoses: {
        prepared: this.losesWith(this.prepared('x509') ?? fresh),
        fresh: this.losesWith(fresh),
      },
    };
  }

  /**
   * Trust domains that may need the bundle again if this authority replaced the active one now: peers
   * that have not confirmed it, and other federations until it had time to spread. None, if the same
   * root verifies both authorities. Without a time, the authority was never published.
   */
  losesWith({ rootIds, preparedAtMs }: NextAuthority): readonly string[] {
    const { authority, store, clock } = this.#parts;
    const active = authority.authorities.find(
      ({ kind, state }) => kind === 'x509' && state === 'active',
    );
    if (isHeldWith(active, rootIds)) return [];
    const peers = this.#receipts.all();
    const lost = peers.filter(
      ({ holds, state }) => isLive(state) && (preparedAtMs === undefined || !holds),
    );
    const names = lost.map(({ peer }) => peer);
    const spreadMs = this.#settings.spreadSeconds * 1000;
    if (preparedAtMs !== undefined && clock.now() >= preparedAtMs + spreadMs) return names;
    const known = new Set(peers.map(({ peer }) => peer));
    const others = store.list(federationsCollection).entries.map(({ name }) => name);
    return [...names, ...others.filter((name) => !known.has(name))];
  }

  /** The prepared authority. */
  prepared(kind: AuthorityKind): AuthorityView | undefined {
    const { authority, clock } = this.#parts;
    return authority.authorities.find(
      (one) => one.kind === kind && one.state === 'prepared' && isValidAt(one, clock.now()),
    );
  }

  #kindStatus(kind: AuthorityKind): KindStatus {
    const plan = this.plan(kind);
    const { unconfirmed } = rotationRecord(this.#parts.store, kind);
    const active = this.#parts.authority.authorities.find(
      (one) => one.kind === kind && one.state === 'active',
    );
    const problem = this.clockDoubt() ?? this.#problems.get(kind);
    return {
      kind,
      waitsFor: plan.act === 'wait' ? plan.for : plan.act,
      ...(plan.act === 'wait' && Number.isFinite(plan.untilMs)
        ? { until: timestamp(plan.untilMs) }
        : {}),
      ...(plan.act === 'wait' && plan.next !== undefined ? { next: plan.next } : {}),
      peers: plan.act === 'wait' ? plan.unconfirmed : [],
      wentOnWithout: unconfirmed?.id === active?.id ? (unconfirmed?.peers ?? []) : [],
      ...(problem === undefined ? {} : { problem }),
    };
  }
}

/** The roots that verify it: the upstream roots, or the authority itself. */
function isHeldWith(active: AuthorityView | undefined, rootIds: readonly string[]): boolean {
  return rootIds.length > 0 && rootIds.every((id) => active?.rootIds.includes(id) === true);
}

function statusOf(view: AuthorityView): AuthorityStatus {
  const goesAtMs = signedUntilMs(view);
  return {
    kind: view.kind,
    id: view.id,
    state: view.state,
    since: timestamp(sinceMsOf(view)),
    notAfter: timestamp(view.notAfterMs),
    ...(goesAtMs === undefined ? {} : { goesAt: timestamp(goesAtMs) }),
    ...(view.certificate?.subject.equals(view.certificate.issuer) === false
      ? { belowRoot: true }
      : {}),
  };
}
