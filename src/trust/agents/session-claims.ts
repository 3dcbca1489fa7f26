// Session claims in the store. A process of an agent claims the agent for its stream. A second process
// with the same identity can claim it only if the first does not answer a ping; if it answers, the agent
// is conflicted. Claims are records, so this works across replicas.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AgentSessions, ClaimingStream } from '../../core/agent/agent-sessions.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { Log } from '../../core/log/log.ts';
import type { AuditRow, Commit, Store, Watch } from '../../core/store/store.ts';
import {
  type Claimant,
  type SessionRecord,
  sessionsCollection,
  sessionsReader,
} from './agent-session-records.ts';
import { ReplicaPulse } from './replica-pulse.ts';

export interface SessionClaimsParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly audit: Pick<Audit, 'record' | 'deny'>;
  /** A random id of this process. */
  readonly replica: string;
  readonly conflicts: {
    /** Why the agent is conflicted; undefined where it is not. */
    problemOf(agent: string): string | undefined;
    /** Resolves when it is durable. `why` is a clause. */
    mark(agent: string, why: string, audit: readonly AuditRow[]): Promise<unknown>;
  };
  /** Changes that belong to the end of the agent's stream, in the commit that releases its claim. */
  readonly released?: (agent: string) => Pick<Commit, 'put' | 'delete'>;
  /** Changes that belong to the end of a claim that its holder did not release, in the commit that ends it. */
  readonly lost?: (agent: string) => Pick<Commit, 'delete'>;
}

/**
 * How long a contender waits for the holder. The holder has 3 s for its pong, and the rest is for two
 * commits and their way to the other replica.
 */
const takeOverAfterMs = 6_000;
/** A contender that is older than this has died with its replica. */
const staleAfterMs = 15_000;

interface Live {
  readonly stream: ClaimingStream;
  readonly claimant: Claimant;
  /** False until its claim is committed. */
  isHeld: boolean;
  /** The contender that this stream was pinged for. */
  probedFor?: string;
}

/** Per process: the streams that this replica serves. Everything else is in the store. */
export class SessionClaims implements AgentSessions {
  readonly #parts: SessionClaimsParts;
  /** Streams that hold a claim, by agent and by their id. */
  readonly #live = new Map<string, Map<string, Live>>();
  /** Called on a change of the agent's record. */
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Streams that have ended, but whose claims could not be released yet. */
  readonly #unreleased = new Map<string, Claimant>();
  readonly #pulse: ReplicaPulse;
  #watch: Watch | undefined;
  #isStopped = false;

  constructor(parts: SessionClaimsParts) {
    this.#parts = parts;
    this.#pulse = new ReplicaPulse(parts, () => {
      for (const [agent, claimant] of this.#unreleased) this.#release(agent, claimant);
      return this.#live.size > 0 || this.#unreleased.size > 0;
    });
    this.#follow();
  }

  stop(): void {
    this.#isStopped = true;
    this.#watch?.stop();
    this.#pulse.stop();
  }

  async claim(stream: ClaimingStream): Promise<() => void> {
    const { clock, random, replica } = this.#parts;
    const { agent, session, signal } = stream;
    const claimant: Claimant = {
      stream: random.uuid(),
      session,
      replica,
      serial: stream.serialHex,
      ...(stream.address === undefined ? {} : { address: stream.address }),
      sinceMs: clock.now(),
    };
    for (;;) {
      signal.throwIfAborted();
      const { record, revision } = this.#read(agent);
      if (record === undefined || this.#yields(agent, record, session)) {
        // The same process again: a contender goes on waiting for the answer to a ping.
        const contender = record?.holder.session === session ? record.contender : undefined;
        const next =
          contender === undefined ? { holder: claimant } : { holder: claimant, contender };
        // Before the commit, so that no other process finds the claim without its stream.
        const live: Live = { stream, claimant, isHeld: false };
        this.#add(live);
        try {
          live.isHeld = await this.#write(agent, revision, next, this.#lost(agent, record));
        } finally {
          if (!live.isHeld) this.#remove(agent, claimant);
        }
        if (!live.isHeld) continue;
        this.#pulse.start();
        // It may have changed again before the commit returned.
        this.#changed(agent);
        return () => this.#release(agent, claimant);
      }
      const problem = this.#parts.conflicts.problemOf(agent);
      if (problem !== undefined) throw this.#deny(stream, problem);
      await this.#contend(stream, claimant, record, revision);
    }
  }

  /** Whether the holder must make way without a ping. */
  #yields(agent: string, { holder }: SessionRecord, session: string): boolean {
    if (holder.session === session) return true;
    const isHere = holder.replica === this.#parts.replica;
    return isHere && this.#live.get(agent)?.has(holder.stream) !== true;
  }

  /** Asks the replica of the holder to ping it. Resolves when the claim may be tried again. */
  async #contend(
    stream: ClaimingStream,
    claimant: Claimant,
    { holder, contender }: SessionRecord,
    revision: number,
  ): Promise<void> {
    const { clock } = this.#parts;
    const { agent, signal } = stream;
    if (contender !== undefined && clock.now() - contender.sinceMs < staleAfterMs) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Two other processes use the identity of agent ${agent}, and the site is checking which one is alive. Try again.`,
      );
    }
    // A busy replica may read the hello of a process that is already dead.
    if (!(await stream.probe())) {
      throw new HansaError('HANSA_TIMEOUT', 'The agent did not answer a ping after its hello.');
    }
    const mine = { ...claimant, sinceMs: clock.now() };
    if (!(await this.#write(agent, revision, { holder, contender: mine }))) return;
    const untilMs = clock.monotonic() + takeOverAfterMs;
    for (;;) {
      const { record, revision: now } = this.#read(agent);
      if (record?.contender?.stream !== claimant.stream) return;
      if (signal.aborted) {
        // The holder must not be judged by a process that is gone.
        if (await this.#write(agent, now, { holder: record.holder })) return;
        continue;
      }
      if (clock.monotonic() < untilMs) {
        await this.#changeOf(agent, untilMs - clock.monotonic(), signal);
        continue;
      }
      // Neither the holder nor its replica has answered.
      if (await this.#write(agent, now, undefined, this.#lost(agent, record))) return;
    }
  }

  #lost(agent: string, record: SessionRecord | undefined): Pick<Commit, 'delete'> {
    const wasReleased = record === undefined || record.holder.hasEnded === true;
    return wasReleased ? {} : (this.#parts.lost?.(agent) ?? {});
  }

  /** Resolves at the next change of the record, after `withinMs`, or when the stream ends. */
  #changeOf(agent: string, withinMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(agent) ?? new Set();
      this.#waiting.set(agent, waiting);
      const done = (): void => {
        waiting.delete(done);
        if (waiting.size === 0) this.#waiting.delete(agent);
        timer.cancel();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = this.#parts.clock.timer(withinMs, done);
      waiting.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  #follow(): void {
    const { store } = this.#parts;
    this.#watch = store.watch(sessionsCollection, store.revision, {
      changes: (changes) => {
        for (const { name } of changes) this.#changed(name);
      },
      ended: (error) => {
        if (this.#isStopped || !hasCode(error, 'HANSA_EXPIRED')) return;
        this.#follow();
        for (const agent of this.#live.keys()) this.#changed(agent);
      },
    });
  }

  #changed(agent: string): void {
    const { record } = this.#read(agent);
    for (const wake of this.#waiting.get(agent) ?? []) wake();
    for (const live of this.#live.get(agent)?.values() ?? []) {
      if (!live.isHeld) continue;
      if (record?.holder.stream !== live.claimant.stream) this.#replaced(live);
      else if (record.contender !== undefined) this.#contended(live, record.contender);
    }
  }

  #replaced({ stream, claimant }: Live): void {
    this.#remove(stream.agent, claimant);
    stream.end(
      new HansaError(
        'HANSA_UNAVAILABLE',
        'Another stream of this agent replaced this one. Connect again.',
      ),
    );
  }

  #contended(live: Live, contender: Claimant): void {
    if (live.probedFor === contender.stream) return;
    live.probedFor = contender.stream;
    this.#decide(live, contender).catch((error: unknown) => {
      // The contender takes over when its time is up.
      this.#parts.log.error('cannot decide between two processes of an agent', {
        agent: live.stream.agent,
        error,
      });
    });
  }

  async #decide({ stream, claimant }: Live, contender: Claimant): Promise<void> {
    const { conflicts, audit } = this.#parts;
    const { agent } = stream;
    const isAlive = await stream.probe();
    const { record, revision } = this.#read(agent);
    // In the meantime, the contender gave up, or this stream was replaced.
    if (record?.contender?.stream !== contender.stream) return;
    if (record.holder.stream !== claimant.stream) return;
    if (!isAlive) {
      stream.end(
        new HansaError('HANSA_TIMEOUT', 'The agent did not answer a ping while another connected.'),
      );
      return;
    }
    const why = `a process ${whereOf(contender)} connected with its identity while the process ${whereOf(claimant)} was connected`;
    await conflicts.mark(agent, why, [audit.record(this.#denial(agent, contender, why))]);
    await this.#write(agent, revision, { holder: record.holder });
  }

  #release(agent: string, claimant: Claimant): void {
    this.#remove(agent, claimant);
    this.#unreleased.set(agent, claimant);
    void this.#tryRelease(agent, claimant);
  }

  async #tryRelease(agent: string, claimant: Claimant): Promise<void> {
    try {
      await this.#free(agent, claimant);
      if (this.#unreleased.get(agent) === claimant) this.#unreleased.delete(agent);
    } catch (error) {
      // The store is closed, or full: the pulse tries again. Until then, the next process waits until
      // its replica gives no answer.
      this.#parts.log.debug('cannot release the claim of an agent', { agent, error });
    }
  }

  async #free(agent: string, claimant: Claimant): Promise<void> {
    for (;;) {
      const { record, revision } = this.#read(agent);
      if (record?.holder.stream !== claimant.stream) return;
      // The site remembers which of the two processes was there first until an operator decides.
      const ended =
        this.#parts.conflicts.problemOf(agent) === undefined
          ? undefined
          : { ...record, holder: { ...record.holder, hasEnded: true as const } };
      if (await this.#write(agent, revision, ended, this.#parts.released?.(agent))) return;
    }
  }

  #read(agent: string): { readonly record: SessionRecord | undefined; readonly revision: number } {
    const entry = this.#parts.store.get(sessionsCollection, agent);
    return { record: entry && sessionsReader.of(entry), revision: entry?.revision ?? 0 };
  }

  /** Undefined deletes the record. Resolves to false where it is no longer at this revision. */
  async #write(
    agent: string,
    revision: number,
    record: SessionRecord | undefined,
    also: Pick<Commit, 'put' | 'delete'> = {},
  ): Promise<boolean> {
    const place = { collection: sessionsCollection, name: agent };
    const bytes = record && Buffer.from(JSON.stringify(record));
    try {
      await commitFenced(this.#parts.store, {
        expect: [{ ...place, at: revision === 0 ? 'absent' : revision }],
        put: [
          ...(bytes === undefined ? [] : [{ ...place, encode: () => bytes }]),
          ...(also.put ?? []),
        ],
        delete: [...(bytes === undefined ? [place] : []), ...(also.delete ?? [])],
      });
      return true;
    } catch (error) {
      if (hasCode(error, 'HANSA_CONFLICT')) return false;
      throw error;
    }
  }

  #add(live: Live): void {
    const { agent } = live.stream;
    const streams = this.#live.get(agent) ?? new Map<string, Live>();
    this.#live.set(agent, streams.set(live.claimant.stream, live));
  }

  #remove(agent: string, claimant: Claimant): void {
    const streams = this.#live.get(agent);
    streams?.delete(claimant.stream);
    if (streams?.size === 0) this.#live.delete(agent);
  }

  #deny(stream: ClaimingStream, problem: string): HansaError {
    const claimant = { serial: stream.serialHex, address: stream.address };
    this.#parts.audit.deny(this.#denial(stream.agent, claimant, problem));
    return new HansaError('HANSA_UNAVAILABLE', `The site does not serve this stream: ${problem}.`);
  }

  #denial(
    agent: string,
    { serial, address }: { readonly serial: string; readonly address?: string | undefined },
    reason: string,
  ): AuditDraft {
    return {
      actor: {
        user: `spiffe://${this.#parts.trustDomain.name}/hansa/agent/${agent}`,
        groups: [],
        via: 'certificate',
        credential: serial,
        ...(address === undefined ? {} : { address }),
      },
      verb: 'agent.connect',
      kind: 'Agent',
      name: agent,
      outcome: 'deny',
      code: 'HANSA_UNAVAILABLE',
      reason,
    };
  }
}

function whereOf({ address, serial }: Claimant): string {
  return `at ${address ?? 'an unknown address'} with the SVID ${serial}`;
}
