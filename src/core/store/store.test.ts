import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../clock/system.ts';
import { storeConformance } from './conformance/conformance.ts';
import { MemoryDatabase } from './memory/driver.ts';
import { openStore } from './open.ts';

storeConformance(
  'memory',
  async () => {
    const database = new MemoryDatabase();
    return {
      open: (options) =>
        openStore({ driver: 'memory', database }, { clock: systemClock, ...options }),
      remove: async () => {},
    };
  },
  { modelRuns: 300 },
);

storeConformance(
  'sqlite',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hansa-store-'));
    return {
      open: (options) =>
        openStore(
          { driver: 'sqlite', path: join(folder, 'store.db') },
          { clock: systemClock, ...options },
        ),
      remove: () => rm(folder, { recursive: true }),
    };
  },
  { modelRuns: 15 },
);
