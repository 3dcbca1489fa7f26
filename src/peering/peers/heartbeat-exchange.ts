// Sends and receives heartbeats: they show that a peer is alive and carry offers, the bundle sequence,
// a receipt, the clock and the features of the sender. Both sides send. A heartbeat in either direction counts as a sign of life.

import { enrolmentOf } from '../../api/enrolment.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../api/object.ts';
import { parseTimestamp } from '../../api/values/date-time.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode, toHansaError } from '../../core/errors/error.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import { lastPublished } from '../../core/identity/bundle/published-bundle.ts';
import { federationsCollection } from './peer-federation.ts';
import type { KeptConnections } from '../../core/identity/tls/kept-connections.ts';
import type { PeerRequest } from '../../core/plane/route.ts';
import { setCondition } from '../../core/reconcile/conditions.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { pathBelow } from '../handshake/acceptor.ts';
import { peeringError } from '../errors.ts';
import {
  agreedByDefault,
  type Announcement,
  encodeMessage,
  type Heartbeat,
  type HeldBundle,
  maxHeartbeatBytes,
  type OfferTold,
  parseHeartbeat,
  paths,
} from '../messages.ts';
import { PeerRate } from './peer-rate.ts';
import { type PeerRepository, type PeerStatus, peersCollection } from './peer-repository.ts';
import { because, causeOfFailure } from './peer-cause.ts';
import { PeerReports } from './peer-reports.ts';
import type { PeerFederations } from './peer-federation.ts';
import { isLive } from './peer-states.ts';
import { isAboutAnswer, recordRefusedMessage } from './refused-message.ts';
import { refusalOf } from '../client/remote-error.ts';
import type { PeeringSettings } from '../settings.ts';
import { newsLimit } from '../timing.ts';
import type { LogPart } from '../witness/log-part.ts';
import type { Witness } from '../witness/witness.ts';

export interface HeartbeatParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: Pick<PeeringSettings, 'silentAfterMs' | 'callTimeoutMs' | 'maxClockSkewMs'>;
  readonly connections: Pick<KeptConnections, 'call'>;
  readonly bundles: BundleSource;
  readonly peers: PeerRepository;
  readonly federations: PeerFederations;
  readonly audit: Pick<Audit, 'deny'>;
  readonly offersFor: (peer: string) => readonly OfferTold[];
  readonly clustersFor?: (peer: string) => readonly string[] | undefined;
  readonly witness?: Pick<Witness, 'part' | 'answer' | 'heard' | 'forget'>;
}

const versions = kindReader(federationPeerKind).derive(
  ({ status }) => status?.contractVersion ?? agreedByDefault,
);
const sequences = kindReader(spiffeFederationKind).derive(({ status }) => status?.sequence ?? 0);

export class HeartbeatExchange {
  readonly #parts: HeartbeatParts;
  /**
   * Limits the writes for a peer that changes its message with every heartbeat. The next heartbeat
   * repeats what was not stored.
   */
  readonly #news: PeerRate;
  /**
   * The last sign of life of each peer, in monotonic time. Per process, and lost at a restart: the
   * replica that sends heartbeats also detects silence, and each answer is a sign of life.
   */
  readonly #signs = new Map<string, { readonly of: string; readonly atMs: number }>();
  readonly #reports: PeerReports;

  constructor(parts: HeartbeatParts) {
    this.#parts = parts;
    this.#news = new PeerRate(parts.clock, newsLimit);
    this.#reports = new PeerReports(parts);
  }

  /** The current heartbeat of this site for that peer. */
  message(peer: string): Heartbeat {
    const { store, offersFor, clustersFor } = this.#parts;
    const clusters = clustersFor?.(peer);
    const entry = store.get(peersCollection, peer);
    return {
      contractVersion: entry === undefined ? agreedByDefault : versions.of(entry),
      bundleSequence: lastPublished(store)?.sequence ?? 0,
      offers: offersFor(peer),
      ...(clusters === undefined ? {} : { clusters }),
      ...this.#receipt(peer),
    };
  }

  /** Which bundle of the peer this site trusts now. */
  #receipt(peer: string): { readonly holds?: HeldBundle } {
    const { store, bundles } = this.#parts;
    const entry = store.get(federationsCollection, peer);
    const bundle = entry && bundles.bundleFor(TrustDomain.parse(peer));
    if (entry === undefined || bundle === undefined) return {};
    return { holds: { sequence: sequences.of(entry), hash: bundle.hash } };
  }

  /** Sends a heartbeat. The answer counts as a heartbeat of the peer. */
  async send(peer: FederationPeer, message: Heartbeat, signal: AbortSignal): Promise<void> {
    const { name } = peer.metadata;
    const full = await this.#complete(message, this.#parts.witness?.part(name), name);
    const answer = await this.#post(peer, paths.heartbeat, full, signal);
    const now = await this.#parts.peers.get(name);
    if (now === undefined || enrolmentOf(now) !== enrolmentOf(peer)) {
      // The keys that verified the answer no longer count.
      throw peeringError('HANSA_PEER_UNTRUSTED', `${name} re-enrols or is another peer now.`);
    }
    await this.heard(name, this.#read(name, answer), full.log);
  }

  #read(name: string, answer: Buffer): Heartbeat {
    try {
      return parseHeartbeat(answer, TrustDomain.parse(name), this.#parts.trustDomain);
    } catch (error) {
      this.refused(name, error);
      throw error;
    }
  }

  /** The answer to this heartbeat of that peer. */
  answer(peer: string, request: Heartbeat): Promise<Heartbeat> {
    const log = this.#parts.witness?.answer(peer, request.log);
    return this.#complete(this.message(peer), log, peer);
  }

  /** Adds the parts that change without being news: those about audit logs, features and clocks. */
  async #complete(
    message: Heartbeat,
    log: Promise<LogPart> | undefined,
    peer: string,
  ): Promise<Heartbeat> {
    return {
      ...message,
      ...(log === undefined ? {} : { log: await log }),
      // Last, so that the time in it is that of sending.
      ...this.#reports.parts(peer),
    };
  }

  /** Records in the audit log that a message of the peer was refused: too large, too many, or malformed. */
  refused(name: string, error: unknown, request?: Pick<PeerRequest, 'path' | 'address'>): void {
    const { path = paths.heartbeat, address } = request ?? {};
    recordRefusedMessage(this.#parts.audit, name, { path, address }, error);
  }

  /** Announces a new bundle of this site to the peer. */
  async announce(
    peer: FederationPeer,
    announcement: Announcement,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#post(peer, paths.announce, announcement, signal);
  }

  /** Handles a heartbeat of the peer, received as a request or as the answer to one with the log part `sent`. */
  async heard(name: string, heartbeat: Heartbeat, sent?: LogPart): Promise<void> {
    const { store, clock, peers, federations } = this.#parts;
    const nowMs = clock.now();
    const heardMs = clock.monotonic();
    const lastHeartbeatAt = timestamp(nowMs);
    const known = await peers.get(name);
    this.#checkVersion(name, known?.status, heartbeat);
    const uid = known?.metadata.uid;
    const report = this.#reports.heard(name, heartbeat);
    if (uid !== undefined) {
      store.facts.merge(peersCollection, name, { uid, lastHeartbeatAt, ...report.live });
    }
    await federations.announced(name, heartbeat.bundleSequence);
    const told = ({ clusters: _clusters, ...status }: PeerStatus): PeerStatus => {
      const next = {
        ...status,
        ...(heartbeat.clusters === undefined ? {} : { clusters: heartbeat.clusters }),
        contractVersion: status.contractVersion ?? heartbeat.contractVersion,
        offers: heartbeat.offers,
        ...receiptOf(status, heartbeat, nowMs),
        lastHeartbeatAt,
        conditions: setCondition(status.conditions, reachable, nowMs),
      };
      return this.#reports.begun(next, report);
    };
    let peer = await peers.get(name);
    const { status } = peer ?? {};
    if (status?.state === 'enrolled') {
      peer = await peers.step(name, 'activate', 'first heartbeat', told);
    } else if (status?.state === 'degraded') {
      peer = await peers.step(name, 'recover', 'the peer sends or answers heartbeats again', told);
    } else if (
      peer !== undefined &&
      status?.state === 'active' &&
      isNews(status, heartbeat) &&
      this.#news.take(peer.metadata.uid)
    ) {
      await peers.note(name, told);
    }
    if (peer === undefined) return;
    this.#signs.set(name, { of: stayOf(peer), atMs: heardMs });
    if (isLive(peer.status?.state)) {
      await this.#reports.note(peer, report);
      await this.#parts.witness?.heard({ name, uid: enrolmentOf(peer) }, heartbeat.log, sent);
    }
  }

  /** A peer cannot change the version that the handshake agreed on, not even to one that this site supports. */
  #checkVersion(name: string, status: PeerStatus | undefined, heartbeat: Heartbeat): void {
    const agreed = status?.contractVersion ?? agreedByDefault;
    if (heartbeat.contractVersion === agreed) return;
    const message = `${name} uses version ${heartbeat.contractVersion} of the federation API, and the sites agreed on version ${agreed}.`;
    const error = peeringError('HANSA_CONTRACT_VERSION', message);
    this.refused(name, error);
    throw error;
  }

  /** The peer did not answer: updates its status, and degrades it after silence in both directions. */
  async missed(name: string, error: unknown): Promise<void> {
    const { peers, clock, settings } = this.#parts;
    const peer = await peers.get(name);
    if (!isLive(peer?.status?.state)) return;
    const why = wordsFor(error);
    const nowMs = clock.now();
    const cause = causeOfFailure(error);
    const unreachable = (status: PeerStatus): PeerStatus => ({
      // The peer still sends heartbeats, so it stays active and its reason unchanged.
      ...(status.state === 'active' ? status : because(status, cause, why)),
      conditions: setCondition(
        status.conditions,
        {
          type: 'Reachable',
          status: 'False',
          reason: cause === 'Refused' ? cause : 'NoAnswer',
          message: why,
        },
        nowMs,
      ),
    });
    if (peer?.status?.state === 'active' && this.silentForMs(peer) > settings.silentAfterMs) {
      await peers.step(name, 'degrade', why, unreachable);
    } else {
      await peers.note(name, unreachable);
    }
  }

  /**
   * How long the peer has been silent. A state change counts as a sign of life, so that a resumed peer
   * has time to answer. Uses monotonic time, so that setting the clock neither creates nor hides
   * silence.
   */
  silentForMs(peer: FederationPeer): number {
    const { name } = peer.metadata;
    const nowMs = this.#parts.clock.monotonic();
    let sign = this.#signs.get(name);
    if (sign?.of !== stayOf(peer)) {
      const silentMs = sign === undefined ? this.#silentBeforeMs(peer) : 0;
      sign = { of: stayOf(peer), atMs: nowMs - silentMs };
      this.#signs.set(name, sign);
    }
    return nowMs - sign.atMs;
  }

  /**
   * The silence before this process started, in wall time. At most `silentAfterMs`, so that one
   * heartbeat corrects the effect of a changed clock.
   */
  #silentBeforeMs(peer: FederationPeer): number {
    const heardMs = parseTimestamp(peer.status?.lastHeartbeatAt ?? '') ?? 0;
    const sinceMs = parseTimestamp(peer.status?.since ?? '') ?? 0;
    const silentMs = this.#parts.clock.now() - Math.max(heardMs, sinceMs);
    return Math.min(Math.max(silentMs, 0), this.#parts.settings.silentAfterMs);
  }

  /** Forgets a peer that is no longer live. */
  forget(name: string): void {
    this.#signs.delete(name);
    this.#reports.forget(name);
    this.#parts.witness?.forget(name);
  }

  async #post(
    peer: FederationPeer,
    path: string,
    message: Heartbeat | Announcement,
    signal: AbortSignal,
  ): Promise<Buffer> {
    const { name } = peer.metadata;
    const url = new URL(peer.spec.url);
    const response = await this.#parts.connections
      .call(
        { trustDomain: TrustDomain.parse(name), url },
        {
          method: 'POST',
          path: pathBelow(url, path),
          headers: { 'content-type': 'application/json' },
          body: encodeMessage(message),
        },
        {
          maxBytes: maxHeartbeatBytes,
          timeoutMs: this.#parts.settings.callTimeoutMs,
          signal,
          // A repeated heartbeat or announcement changes nothing.
          idempotent: true,
        },
      )
      .catch((error: unknown) => {
        if (isAboutAnswer(error)) recordRefusedMessage(this.#parts.audit, name, { path }, error);
        throw error;
      });
    const refusal = refusalOf(name, response);
    if (refusal !== undefined) throw refusal;
    return response.body;
  }
}

/** Identifies one stay of a peer in one state. */
function stayOf({ metadata, status }: FederationPeer): string {
  return `${metadata.uid} ${status?.state} ${status?.since}`;
}

const reachable = {
  type: 'Reachable',
  status: 'True',
  reason: 'Answers',
  message: 'The peer sends or answers heartbeats.',
} as const;

/** Whether the heartbeat changes the stored status. `lastHeartbeatAt` is a fact and needs no write. */
function isNews(status: PeerStatus, heartbeat: Heartbeat): boolean {
  return (
    status.contractVersion === undefined ||
    !jsonEquals(status.offers, heartbeat.offers) ||
    !jsonEquals(status.clusters ?? null, heartbeat.clusters ?? null) ||
    isNewReceipt(status, heartbeat) ||
    status.conditions?.find(({ type }) => type === 'Reachable')?.status !== 'True'
  );
}

function isNewReceipt({ receipt }: PeerStatus, { holds }: Heartbeat): boolean {
  return (
    holds !== undefined && (receipt?.hash !== holds.hash || receipt.sequence !== holds.sequence)
  );
}

/** A new receipt with its time. A repeated receipt keeps the time of the first. */
function receiptOf(
  status: PeerStatus,
  heartbeat: Heartbeat,
  nowMs: number,
): Pick<PeerStatus, 'receipt'> {
  if (heartbeat.holds === undefined || !isNewReceipt(status, heartbeat)) return {};
  return { receipt: { ...heartbeat.holds, at: timestamp(nowMs) } };
}

function wordsFor(error: unknown): string {
  if (hasCode(error, 'HANSA_CONTRACT_VERSION')) return error.message.slice(0, 500);
  if (hasCode(error, 'HANSA_BAD_REQUEST')) return error.message.slice(0, 500);
  if (hasCode(error, 'HANSA_PEER_REFUSED')) {
    return 'it rejects this site: it suspended or revoked us, has not enrolled us yet, or lacks our current bundle';
  }
  const { message } = error instanceof HansaError ? error : toHansaError(error);
  return `cannot connect: ${message}`.slice(0, 500);
}
