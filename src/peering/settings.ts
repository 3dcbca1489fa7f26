// The settings of the peering plane, and the function that builds them from its configuration keys.

import type { ValuesOf } from '../core/config/config-key.ts';
import { definePlaneSettings } from '../core/config/plane-settings.ts';
import { peeringKeys } from './config-keys.ts';

export interface PeeringSettings {
  /** How often a site sends a heartbeat to each peer. */
  readonly heartbeatMs: number;
  /** Silence does not end trust, so this may be short. */
  readonly silentAfterMs: number;
  /** Timeout of a call between sites. Below `silentAfterMs`, so that a slow answer does not count as silence. */
  readonly callTimeoutMs: number;
  /** Timeout of one step of the handshake, which takes two connections. */
  readonly handshakeTimeoutMs: number;
  /** How long a redeemed invitation waits for confirmation by an operator. */
  readonly confirmWithinMs: number;
  /** How far the clock of a peer may be from ours before this site reports it. */
  readonly maxClockSkewMs: number;
  /** Whether peers and this site witness the audit logs of each other. */
  readonly witnesses: boolean;
  /** Whether to pass on checkpoints of peers to peers that do the same. */
  readonly passesOnCheckpoints: boolean;
}

export const defaultPeeringSettings: PeeringSettings = {
  heartbeatMs: 2000,
  silentAfterMs: 6000,
  callTimeoutMs: 4000,
  handshakeTimeoutMs: 10_000,
  confirmWithinMs: 4 * 3_600_000,
  maxClockSkewMs: 30_000,
  witnesses: true,
  passesOnCheckpoints: false,
};

/** The least time after which a missed heartbeat can be told from a slow one. */
const leastSilence = (values: ValuesOf<typeof peeringKeys>): number =>
  values['peering.heartbeatSeconds'] + values['peering.callTimeoutSeconds'];

export const peeringSettings = definePlaneSettings({
  keys: peeringKeys,
  read: (values): PeeringSettings => ({
    heartbeatMs: values['peering.heartbeatSeconds'] * 1000,
    silentAfterMs:
      (values['peering.silentAfterSeconds'] ??
        Math.max(3 * values['peering.heartbeatSeconds'], leastSilence(values))) * 1000,
    callTimeoutMs: values['peering.callTimeoutSeconds'] * 1000,
    handshakeTimeoutMs: values['peering.handshakeTimeoutSeconds'] * 1000,
    confirmWithinMs: values['peering.confirmWithinMinutes'] * 60_000,
    maxClockSkewMs: values['peering.maxClockSkewSeconds'] * 1000,
    witnesses: values['peering.witness'] === 'yes',
    passesOnCheckpoints: values['peering.passOnCheckpoints'] === 'yes',
  }),
  problems: (values, _site, remembered) => {
    const silentAfter = values['peering.silentAfterSeconds'];
    return silentAfter === undefined || silentAfter >= leastSilence(values)
      ? []
      : [
          `peering.silentAfterSeconds (${silentAfter}) must be at least ${leastSilence(values)}: peering.heartbeatSeconds plus peering.callTimeoutSeconds${remembered('peering.silentAfterSeconds', 'peering.heartbeatSeconds', 'peering.callTimeoutSeconds')}`,
        ];
  },
});
