// A Lease object of Kubernetes: what the leader election reads from it and writes into it. Pure.

import type { KubeObject } from '../kube-client.ts';

export interface KubeLease extends KubeObject {
  readonly metadata: KubeObject['metadata'] & {
    readonly resourceVersion?: string;
    readonly uid?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  /** Anybody with rights in the cluster can write anything into it. */
  readonly spec?: Readonly<Record<string, unknown>>;
}

/** The annotations of epochs. A plane names them. */
export interface EpochKeys {
  /** The epoch of the last holder. */
  readonly epoch: string;
  /** The next epoch must exceed this one; the holder of a smaller one must acquire again. */
  readonly floor: string;
}

/** What matters of a Lease. Whatever a cluster sends has one meaning. */
export interface LeaseRecord {
  /** Empty where nobody holds it. */
  readonly holder: string;
  readonly durationMs: number;
  /** Changes with each renewal. */
  readonly mark: string;
  readonly epoch: number;
  readonly floor: number;
}

/** A hostile or strange record must not keep others out for long, nor make them ask without a pause. */
const longestMs = 600_000;
const shortestMs = 1000;
const defaultDurationSeconds = 15;

export function leaseRecord({ metadata, spec = {} }: KubeLease, keys: EpochKeys): LeaseRecord {
  const { holderIdentity, leaseDurationSeconds, renewTime, leaseTransitions } = spec;
  const seconds = numberIn(leaseDurationSeconds ?? defaultDurationSeconds);
  return {
    holder: typeof holderIdentity === 'string' ? holderIdentity : '',
    durationMs: Math.min(Math.max(seconds * 1000, shortestMs), longestMs),
    mark: JSON.stringify([holderIdentity, renewTime, leaseTransitions]),
    epoch: epochIn(metadata.annotations, keys.epoch),
    floor: epochIn(metadata.annotations, keys.floor),
  };
}

const numberIn = (value: unknown): number => (typeof value === 'number' ? value : 0);

/** The epoch in an annotation; 0 for what is not one. */
export function epochIn(
  annotations: Readonly<Record<string, string>> | undefined,
  key: string,
): number {
  const text = annotations?.[key] ?? '';
  return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : 0;
}

/** The time format of Leases has microseconds. */
const microTime = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z');

export interface LeaseChange {
  readonly holder: string;
  readonly epoch: number;
  readonly durationMs: number;
  readonly nowMs: number;
}

/** The Lease with a new holder. What others wrote into it stays. */
export function takenLease(lease: KubeLease, change: LeaseChange, keys: EpochKeys): KubeLease {
  const { holder, epoch, durationMs, nowMs } = change;
  return {
    ...lease,
    metadata: {
      ...lease.metadata,
      annotations: { ...lease.metadata.annotations, [keys.epoch]: String(epoch) },
    },
    spec: {
      ...lease.spec,
      holderIdentity: holder,
      leaseDurationSeconds: Math.ceil(durationMs / 1000),
      acquireTime: microTime(nowMs),
      renewTime: microTime(nowMs),
      leaseTransitions: numberIn(lease.spec?.['leaseTransitions']) + 1,
    },
  };
}

export function renewedLease(lease: KubeLease, nowMs: number): KubeLease {
  return { ...lease, spec: { ...lease.spec, renewTime: microTime(nowMs) } };
}

/** Free for others at once. The epoch stays. */
export function releasedLease(lease: KubeLease, nowMs: number): KubeLease {
  return { ...lease, spec: { ...lease.spec, holderIdentity: '', renewTime: microTime(nowMs) } };
}
