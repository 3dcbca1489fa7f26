// The body of a watch as a client reads it: chunks in order, until the end or an error.

export class StreamBody {
  readonly #chunks: Buffer[] = [];
  readonly #cut: (text: Buffer) => readonly Buffer[];
  #wake: (() => void) | undefined;
  #error: unknown;
  #isOver = false;

  constructor(cut: (text: Buffer) => readonly Buffer[]) {
    this.#cut = cut;
  }

  push(text: string): void {
    if (this.#isOver) return;
    this.#chunks.push(...this.#cut(Buffer.from(text)));
    this.#wake?.();
  }

  /** With an error, what was not read yet is lost. Idempotent. */
  end(error?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#error = error;
    if (error !== undefined) this.#chunks.length = 0;
    this.#wake?.();
  }

  async *parts(): AsyncGenerator<Buffer, void> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) yield chunk;
      else if (this.#isOver) break;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
    if (this.#error !== undefined) throw this.#error;
  }
}
