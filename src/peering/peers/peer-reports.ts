// What heartbeats report about the peer itself: its clock and its features. A report never changes what the
// sites agreed on. It is measured or compared, and a change of the result is stored with an audit record.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import type { FeatureNames } from '../features.ts';
import type { Heartbeat } from '../messages.ts';
import type { PeeringSettings } from '../settings.ts';
import { changesLimit } from '../timing.ts';
import { clockCondition, type ClockSkew, judgeSkew, skewText } from './clock-skew.ts';
import { capabilitiesCondition, driftOf, driftText, withReport } from './feature-drift.ts';
import { PeerClocks } from './peer-clocks.ts';
import { PeerRate } from './peer-rate.ts';
import type { PeerRepository, PeerStatus } from './peer-repository.ts';
import { ReportedFeatures } from './reported-features.ts';

export interface PeerReportsParts {
  readonly clock: Clock;
  readonly settings: Pick<PeeringSettings, 'maxClockSkewMs'>;
  readonly peers: Pick<PeerRepository, 'note' | 'record'>;
}

export interface PeerReport {
  readonly skew: ClockSkew | undefined;
  readonly names: FeatureNames | undefined;
  /** The part for the live status. */
  readonly live: Pick<PeerStatus, 'clock'>;
}

/** A condition that heartbeats report. */
interface Change {
  readonly type: string;
  readonly verb: string;
  /** For the audit log. */
  readonly reason: string;
  readonly change: (status: PeerStatus, nowMs: number) => PeerStatus;
}

export class PeerReports {
  readonly #parts: PeerReportsParts;
  readonly #clocks: PeerClocks;
  readonly #features = new ReportedFeatures();
  /** Limits the writes for a peer whose clock or features change with every heartbeat. The next one repeats the report. */
  readonly #changes: PeerRate;

  constructor(parts: PeerReportsParts) {
    this.#parts = parts;
    this.#clocks = new PeerClocks(parts.clock);
    this.#changes = new PeerRate(parts.clock, changesLimit);
  }

  /** For a heartbeat that is sent now. */
  parts(peer: string): Pick<Heartbeat, 'clock' | 'features'> {
    return { features: this.#features.part(peer), clock: this.#clocks.part(peer) };
  }

  /** For a heartbeat that arrived now. */
  heard(peer: string, { clock, features }: Heartbeat): PeerReport {
    const skew = clock && this.#clocks.heard(peer, clock);
    const names = this.#features.heard(peer, features);
    const measuredAt = timestamp(this.#parts.clock.now());
    return {
      skew,
      names,
      live:
        skew === undefined
          ? {}
          : {
              clock: {
                skewMilliseconds: skew.skewMs,
                uncertaintyMilliseconds: skew.uncertaintyMs,
                measuredAt,
              },
            },
    };
  }

  /** Adds conditions that are good from the start to a status that is written anyway. */
  begun(status: PeerStatus, { skew, names }: PeerReport): PeerStatus {
    const nowMs = this.#parts.clock.now();
    const condition = skew && judgeSkew(skew, this.#parts.settings.maxClockSkewMs);
    const next = names === undefined ? status : withReport(status, names, nowMs);
    const isUnset = (type: string) => findCondition(status.conditions, type) === undefined;
    const isGood = findCondition(next.conditions, capabilitiesCondition)?.status === 'True';
    const begun = isUnset(capabilitiesCondition) && isGood ? next : status;
    return condition?.status === 'True' && isUnset(clockCondition)
      ? { ...begun, conditions: setCondition(begun.conditions, condition, nowMs) }
      : begun;
  }

  /** Stores what changed. In the steady state, this writes nothing. */
  async note(peer: FederationPeer, { skew, names }: PeerReport): Promise<void> {
    if (skew !== undefined) await this.#noteClock(peer, skew);
    if (names !== undefined) await this.#noteFeatures(peer, names);
  }

  forget(peer: string): void {
    this.#clocks.forget(peer);
    this.#features.forget(peer);
  }

  async #noteClock(peer: FederationPeer, skew: ClockSkew): Promise<void> {
    const condition = judgeSkew(skew, this.#parts.settings.maxClockSkewMs);
    if (condition === undefined) return;
    const isGood = condition.status === 'True';
    await this.#noteChange(peer, {
      type: clockCondition,
      verb: 'peer.clock',
      reason: isGood ? 'the clocks agree again' : `the clock of the peer is ${skewText(skew)}`,
      change: (status, nowMs) => ({
        ...status,
        conditions: setCondition(status.conditions, condition, nowMs),
      }),
    });
  }

  async #noteFeatures(peer: FederationPeer, names: FeatureNames): Promise<void> {
    const drift = driftOf(peer.status ?? {}, names);
    await this.#noteChange(peer, {
      type: capabilitiesCondition,
      verb: 'peer.capabilities',
      reason:
        drift === undefined ? 'the peer reports again what the sites agreed on' : driftText(drift),
      change: (status, nowMs) => withReport(status, names, nowMs),
    });
  }

  /** A first good condition is no transition. All other changes are in the audit log. */
  async #noteChange(peer: FederationPeer, { type, verb, reason, change }: Change): Promise<void> {
    const nowMs = this.#parts.clock.now();
    const { status = {} } = peer;
    const next = change(status, nowMs);
    if (jsonEquals(next, status)) return;
    if (!this.#changes.take(`${peer.metadata.uid} ${type}`)) return;
    const isFirst = findCondition(status.conditions, type) === undefined;
    const isGood = findCondition(next.conditions, type)?.status === 'True';
    const apply = (current: PeerStatus): PeerStatus => change(current, nowMs);
    if (isFirst && isGood) await this.#parts.peers.note(peer.metadata.name, apply);
    else await this.#parts.peers.record(peer, apply, { verb, reason });
  }
}
