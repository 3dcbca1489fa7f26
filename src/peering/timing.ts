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
/** When a peer was last seen is a live fact; its status follows at most this far behind. */
export const lastSeenWriteMs = 60_000;
/** News in heartbeats of one peer (its offers, what it holds) is written so often for long, and so much at once. */
export const newsEveryMs = heartbeatIntervalMs;
export const newsAtOnce = 20;
/** How long `accept` waits for the peer to become active before it answers with how far it got. */
export const acceptWaitMs = 15_000;
