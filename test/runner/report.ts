// Prints the progress of the test runner: results as they come, and the running tests after a silence.

let lastSaid = performance.now();

export function say(line: string): void {
  lastSaid = performance.now();
  process.stdout.write(`${line}\n`);
}

export function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}

/** By name, since when. */
export const running = new Map<string, number>();

setInterval(() => {
  if (running.size === 0 || performance.now() - lastSaid < 10_000) return;
  const each = [...running].map(([name, since]) => `${name} (${seconds(since)})`);
  say(`running ${each.join(', ')}`);
}, 1000).unref();

export async function whileRunning<T>(name: string, work: () => Promise<T>): Promise<T> {
  running.set(name, performance.now());
  try {
    return await work();
  } finally {
    running.delete(name);
  }
}
