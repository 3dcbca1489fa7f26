// One request for many callers that need the same answer at about the same time, and none from before they asked.

interface Reading {
  readonly current: Promise<unknown>;
  /** For all that asked after `current` was sent. It begins when `current` ends. */
  next: Promise<unknown> | undefined;
}

/** Every caller gets what was read after its call, or the error of that request. */
export class JointReads {
  readonly #readings = new Map<string, Reading>();

  /** Callers with the same key must mean the same request. */
  read<T>(key: string, request: () => Promise<T>): Promise<T> {
    const reading = this.#readings.get(key);
    if (reading === undefined) return this.#begin(key, request);
    const begin = (): Promise<T> => this.#begin(key, request);
    reading.next ??= reading.current.then(begin, begin);
    return reading.next as Promise<T>;
  }

  #begin<T>(key: string, request: () => Promise<T>): Promise<T> {
    const current = request();
    const reading: Reading = { current, next: undefined };
    this.#readings.set(key, reading);
    const ended = (): void => {
      if (reading.next === undefined) this.#readings.delete(key);
    };
    current.then(ended, ended);
    return current;
  }
}
