// Interfaces for time and randomness. All code takes them as parameters, so that simulation can pass
// virtual ones and repeat a run exactly.

/**
 * Wall time may jump, monotonic time never does: durations, leases and back-off count in monotonic
 * milliseconds; certificates, audit and `status` carry wall time.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Milliseconds from an arbitrary start; never goes backwards. */
  monotonic(): number;
  /**
   * Calls back once after `delayMs` of monotonic time, never before this call returns. Timers of
   * the same instant fire in the order in which they were set. A timer does not keep the process
   * alive.
   */
  timer(delayMs: number, fire: () => void): Timer;
}

export interface Timer {
  /** After this the callback does not run. Cancelling twice, or too late, does nothing. */
  cancel(): void;
}

/** `bytes` is what secrets and keys come from; `unit` and `uuid` are for what need not be secret. */
export interface Random {
  /** Cryptographically strong bytes. Asynchronous, so that keys can be made in another process. */
  bytes(count: number): Promise<Uint8Array>;
  /** Uniform in [0, 1): jitter, shuffling. */
  unit(): number;
  /** A random (version 4) UUID for `metadata.uid`. */
  uuid(): string;
}

/** Resolves after `delayMs`, or rejects with the signal's reason when that is aborted first. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => {
      timer.cancel();
      reject(signal?.reason);
    };
    const timer = clock.timer(delayMs, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
