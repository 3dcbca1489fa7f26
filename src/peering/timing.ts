// The intervals, timeouts and rate limits of peering that users do not set. settings.ts has the others.

/** How often the acceptor polls the inviter for the confirmation. */
export const confirmPollMs = 2000;
/** How long the inviter waits for the first heartbeat of the acceptor, which may have to poll first. */
export const firstHeartbeatMs = 2 * confirmPollMs;
/** Minimum time between heartbeats to one peer when grants change. */
export const tellEveryMs = 100;
/** Rate limit for storing changed offers and receipts of one peer. Equals the rate at which a site sends them. */
export const newsLimit = { burst: 20, perSecond: 1000 / tellEveryMs } as const;
/**
 * Rate limit for storing a changed condition that one peer reports about itself, such as its clock. A peer that changes it with
 * every heartbeat writes about 150 records a day.
 */
export const changesLimit = { burst: 4, perSecond: 1 / 600 } as const;
/**
 * Rate limit for messages of one peer, in bytes. Parsing a heartbeat of maximum size takes about 12 ms,
 * so a hostile peer costs about 1 % of a core. A conforming peer stays below the limit, even with a
 * heartbeat of maximum size in every interval and `tellLimit` on top.
 */
export const messageLimit = { burst: 256 * 1024, perSecond: 64 * 1024 } as const;
/** Minimum cost of a message, in bytes. */
export const messageCost = 2 * 1024;
/** Rate limit for heartbeats that a site sends to one peer between the regular ones, in bytes. */
export const tellLimit = { burst: 128 * 1024, perSecond: 16 * 1024 } as const;
/** Rate limit for reads of the catalog and of capabilities by one peer. Its own, so that reads do not delay heartbeats. */
export const readLimit = { burst: 20, perSecond: 2 } as const;
/** Rate limit for findings about the log of one peer. Each is an audit record, and a peer can make restore records without end. */
export const findingLimit = { burst: 8, perSecond: 1 / 60 } as const;
/** How long `accept` waits for the peer to become active before it returns the current state. */
export const acceptWaitMs = 15_000;
