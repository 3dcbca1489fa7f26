// Asks a name server on loopback with the real dig.

import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';

export interface Dig {
  /** The answer of `dig +short`, sorted. Empty for a name without such records. */
  dig(name: string, type?: string): Promise<readonly string[]>;
  /** The status of the answer, such as NXDOMAIN. */
  statusOf(name: string, type?: string): Promise<string>;
}

/** For node:test's `skip`: why there is no dig here, or false. */
export function whyNoDig(): string | false {
  return (
    spawnSync('dig', ['-v']).error !== undefined &&
    'SKIPPED: there is no dig on the PATH (scripts/setup.sh installs bind9-dnsutils)'
  );
}

export function digAt(port: number): Dig {
  const ask = async (...words: readonly string[]): Promise<string> => {
    const server = ['@127.0.0.1', '-p', String(port), '+time=2', '+tries=2'];
    const { stdout } = await promisify(execFile)('dig', [...server, ...words]);
    return stdout;
  };
  return {
    dig: async (name, type = 'A') => {
      const lines = (await ask('+short', name, type)).split('\n');
      return lines.filter((line) => line !== '').toSorted();
    },
    statusOf: async (name, type = 'A') => /status: (\w+)/.exec(await ask(name, type))?.[1] ?? '',
  };
}
