// Loaded before each test of `make unit` (`node --import`): makes a test that starts a process fail.
// Node's permission model would also forbid fchmod, which the product needs.

import processes from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';

const starting = [
  'exec',
  'execFile',
  'execFileSync',
  'execSync',
  'fork',
  'spawn',
  'spawnSync',
] as const;

for (const name of starting) {
  Object.defineProperty(processes, name, {
    value: (command: string): never => {
      throw new Error(
        `Cannot start ${command}: make unit starts no programs. Import node:child_process in the test, so that it is no unit test.`,
      );
    },
  });
}
syncBuiltinESMExports();
