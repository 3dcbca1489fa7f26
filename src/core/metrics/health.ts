// Which parts of a site or an agent are ready: the one judge for /readyz, the metrics listener, the condition Ready
// of the Site, `hansa status` and `hansa doctor`.

import type { Clock } from '../clock/clock.ts';

/** How soon a change is noticed. Some checks only compare times. */
const lookEveryMs = 1_000;

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

  /** Calls `listener` after each change of `problem`. Returns how to stop. */
  onChange(clock: Pick<Clock, 'timer'>, listener: () => void): () => void {
    let known = this.problem();
    const look = () =>
      clock.timer(lookEveryMs, () => {
        timer = look();
        const problem = this.problem();
        if (problem === known) return;
        known = problem;
        listener();
      });
    let timer = look();
    return () => timer.cancel();
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
