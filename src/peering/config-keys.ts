// The configuration keys of the peering plane. settings.ts turns their values into settings.

import { configKey, optionalConfigKey } from '../core/config/config-key.ts';
import { parseChoice, parseCount } from '../core/config/config-values.ts';

export const peeringKeys = {
  // Not below 2: the limits in timing.ts admit a heartbeat of maximum size every two seconds.
  'peering.heartbeatSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'How often the site sends a heartbeat to each peer.',
    default: '2',
    parse: parseCount(2, 600),
  }),
  'peering.silentAfterSeconds': optionalConfigKey({
    placeholder: 'SECONDS',
    meaning:
      'After how many seconds without a heartbeat, in either direction, a peer counts as silent and becomes degraded. Silence does not end trust.',
    withoutIt: 'three heartbeats, and at least one heartbeat plus peering.callTimeoutSeconds',
    parse: parseCount(3, 86_400),
  }),
  'peering.callTimeoutSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'How long the site waits for the answer to a heartbeat or announcement.',
    default: '4',
    parse: parseCount(1, 60),
  }),
  'peering.handshakeTimeoutSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'How long one step of the handshake with another site may take.',
    default: '10',
    parse: parseCount(1, 120),
  }),
  // The default is half of the time by which authorities backdate certificates.
  'peering.maxClockSkewSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How far the clock of a peer may be from that of this site. Beyond it, the condition ClockInSync of the peer is False. Certificates of a site whose clock is a minute ahead are not valid yet for others.',
    default: '30',
    parse: parseCount(1, 86_400),
  }),
  'peering.witness': configKey({
    placeholder: 'yes|no',
    meaning:
      'Whether the site shows checkpoints of its audit log to its peers, and cosigns theirs. A peer learns from a checkpoint how many events the log has. If you turn this off later, the peers report that the log is no longer signed.',
    default: 'yes',
    parse: parseChoice(['yes', 'no']),
  }),
  'peering.passOnCheckpoints': configKey({
    placeholder: 'yes|no',
    meaning:
      'Whether the site passes on checkpoints of the audit logs of its peers to peers that do the same. This shows a log that gives two sites different histories. It also shows which peers the site has.',
    default: 'no',
    parse: parseChoice(['yes', 'no']),
  }),
  'peering.confirmWithinMinutes': configKey({
    placeholder: 'MINUTES',
    meaning: 'How long a redeemed invitation waits for an operator who confirms it.',
    default: '240',
    parse: parseCount(1, 10_080),
  }),
};
