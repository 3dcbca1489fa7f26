// Calls between the workloads `web` of SPIRE servers that sites operate, with go-spiffe and X.509-SVIDs.

import assert from 'node:assert/strict';
import type { Ran } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import type { OperatedSpire } from './operated-spire.ts';

const idOf = ({ trustDomain }: OperatedSpire): string => `spiffe://${trustDomain}/web`;

export class WorkloadCalls {
  /** Of workloads that run, by who answers whom. */
  readonly #urls = new Map<string, string>();

  /** `web` of one calls `web` of the other, which answers only this caller. */
  async call(from: OperatedSpire, to: OperatedSpire): Promise<Ran> {
    const key = `${to.trustDomain} for ${from.trustDomain}`;
    const url = this.#urls.get(key) ?? (await to.spire.serve('web', idOf(from)));
    this.#urls.set(key, url);
    return from.spire.call('web', url, idOf(to));
  }

  /** Resolves when a call succeeds. Agents fetch changes every second. */
  async succeeds(from: OperatedSpire, to: OperatedSpire): Promise<void> {
    let last = '';
    await until(
      async () => {
        const { code, stderr, stdout } = await this.call(from, to);
        last = stderr;
        if (code === 0) assert.match(stdout, new RegExp(`hello ${idOf(from)}`));
        return code === 0;
      },
      () => `${idOf(from)} calls ${idOf(to)}: ${last}`,
    );
  }

  /** Resolves when a call is refused. */
  refused(from: OperatedSpire, to: OperatedSpire): Promise<void> {
    return until(
      async () => (await this.call(from, to)).code !== 0,
      `${idOf(from)} is refused by ${idOf(to)}`,
    );
  }

  /** Calls in both directions until this holds. Resolves to the words of the calls that failed. */
  async during(
    a: OperatedSpire,
    b: OperatedSpire,
    holds: () => Promise<boolean>,
    what: string,
  ): Promise<readonly string[]> {
    const failed: string[] = [];
    await until(async () => {
      for (const [from, to] of [
        [a, b],
        [b, a],
      ] as const) {
        const { code, stderr } = await this.call(from, to);
        if (code !== 0) failed.push(`${idOf(from)}: ${stderr}`);
      }
      return holds();
    }, what);
    return failed;
  }
}
