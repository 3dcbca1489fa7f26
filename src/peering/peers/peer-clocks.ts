// Measures the clocks of peers by the times in heartbeats, and remembers what it needs for that. Each replica
// measures by itself, from the messages that it exchanges.

import type { Clock } from '../../core/clock/clock.ts';
import type { ClockPart, HeardMessage } from './clock-part.ts';
import { agree, type ClockSkew, measureSkew } from './clock-skew.ts';

interface Sent {
  readonly sentAtMs: number;
  /** Monotonic, so that setting our clock is no skew of the peer. */
  readonly monotonicMs: number;
}

interface PeerClock {
  /** The newest last. */
  readonly sent: Sent[];
  heard: HeardMessage | undefined;
  samples: readonly ClockSkew[];
}

/** The peer answers one of these. A request and an answer can be under way in each direction. */
const mostSent = 8;
/** The best of these counts: it came with the fastest answer. */
const mostSamples = 8;
/** Our clock was set between two messages if it moved this much more or less than time passed. */
const jumpMs = 500;

export class PeerClocks {
  readonly #clock: Clock;
  readonly #peers = new Map<string, PeerClock>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** For a message to the peer that is sent now. */
  part(peer: string): ClockPart {
    const known = this.#of(peer);
    const sentAtMs = Math.round(this.#clock.now());
    known.sent.push({ sentAtMs, monotonicMs: this.#clock.monotonic() });
    if (known.sent.length > mostSent) known.sent.shift();
    return { sentAtMs, ...(known.heard && { heard: known.heard }) };
  }

  /** A message of the peer that arrived now. Returns the best of the last measurements. */
  heard(peer: string, { sentAtMs, heard }: ClockPart): ClockSkew | undefined {
    const known = this.#of(peer);
    known.heard = { sentAtMs, atMs: Math.round(this.#clock.now()) };
    const sample = heard && this.#measure(known, heard, sentAtMs);
    if (sample === undefined) return undefined;
    const before = known.samples.filter((each) => agree(each, sample));
    known.samples = [...before.slice(1 - mostSamples), sample];
    return known.samples.reduce((best, each) =>
      each.uncertaintyMs < best.uncertaintyMs ? each : best,
    );
  }

  forget(peer: string): void {
    this.#peers.delete(peer);
  }

  /** Undefined for a message that this process did not send, and if our clock was set meanwhile. */
  #measure(known: PeerClock, heard: HeardMessage, returnedMs: number): ClockSkew | undefined {
    const sent = known.sent.findLast(({ sentAtMs }) => sentAtMs === heard.sentAtMs);
    if (sent === undefined) return undefined;
    const { sentAtMs: sentMs, monotonicMs } = sent;
    const elapsedMs = this.#clock.monotonic() - monotonicMs;
    if (Math.abs(this.#clock.now() - sentMs - elapsedMs) > jumpMs) {
      known.sent.length = 0;
      return undefined;
    }
    return measureSkew({ sentMs, arrivedMs: heard.atMs, returnedMs, elapsedMs });
  }

  #of(peer: string): PeerClock {
    const known = this.#peers.get(peer) ?? { sent: [], heard: undefined, samples: [] };
    this.#peers.set(peer, known);
    return known;
  }
}
