// Which parts of a site or an agent are ready, for /readyz, the metrics listener and `hansa doctor`.

export type Check = () => string | undefined;

export class Health {
  readonly #checks = new Map<string, Check>();

  /** `check` returns why the part is not ready, or undefined if it is ready. */
  add(part: string, check: Check): void {
    this.#checks.set(part, check);
  }

  /** The first part that is not ready, with the reason. Undefined if all are ready. */
  problem(): string | undefined {
    for (const [part, check] of this.#checks) {
      const problem = check();
      if (problem !== undefined) return `${part}: ${problem}`;
    }
    return undefined;
  }

  /** In the format of kube-apiserver's /readyz?verbose. */
  report(): { readonly ready: boolean; readonly text: string } {
    const lines: string[] = [];
    let ready = true;
    for (const [part, check] of this.#checks) {
      const problem = check();
      if (problem !== undefined) ready = false;
      lines.push(problem === undefined ? `[+]${part} ok` : `[-]${part} failed: ${problem}`);
    }
    lines.push(ready ? 'readyz check passed' : 'readyz check failed');
    return { ready, text: `${lines.join('\n')}\n` };
  }
}

/** The response of /readyz. */
export function readiness(health: Health, verbose: boolean): { status: number; body: string } {
  const { ready, text } = health.report();
  if (!ready) return { status: 503, body: text };
  return { status: 200, body: verbose ? text : 'ok' };
}
