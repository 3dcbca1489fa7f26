// Every time limit of peering, in one place.

/** How often each side of a peering is heard from. */
export const heartbeatIntervalMs = 2000;
/** Three heartbeats that did not come: silent. Silence ends no trust, so it may be noticed early. */
export const silentAfterMs = 3 * heartbeatIntervalMs;
/** A call between sites; below the limit of silence, so that a slow answer is told from none. */
export const callTimeoutMs = 4000;
/** One step of the handshake: two connections and the work behind them. */
export const handshakeTimeoutMs = 10_000;
/** How long a redeemed invitation waits for the operator who must confirm it. */
export const confirmWithinMs = 4 * 3_600_000;
/** How often the acceptor asks whether it was confirmed. */
export const confirmPollMs = 2000;
/** How long the inviter leaves the first heartbeat to the acceptor, who may have to ask first. */
export const firstHeartbeatMs = 2 * confirmPollMs;
/** Changed grants are told at once; heartbeats to one peer are at least this far apart. */
export const tellEveryMs = 100;
/** News in heartbeats of one peer (its offers, what it holds) is written at most so often: as often as a site tells. */
export const newsLimit = { burst: 20, perSecond: 1000 / tellEveryMs } as const;
/**
 * What one peer may send, in bytes. A full heartbeat takes some 12 ms to read, so that a hostile peer
 * costs about 1 % of a core. A full heartbeat in every interval and `tellLimit` stay below it.
 */
export const messageLimit = { burst: 256 * 1024, perSecond: 64 * 1024 } as const;
/** What a message costs at least, in the same unit, whatever its size. */
export const messageCost = 2 * 1024;
/** What a site sends to one peer between the regular heartbeats, in bytes. */
export const tellLimit = { burst: 128 * 1024, perSecond: 16 * 1024 } as const;
/** How long `accept` waits for the peer to become active before it answers with how far it got. */
export const acceptWaitMs = 15_000;
