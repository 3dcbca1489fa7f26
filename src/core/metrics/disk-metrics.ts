// Metrics of the file system of a data folder: a full disk stops all writes.

import { statfsSync } from 'node:fs';
import type { Metrics } from './metrics.ts';

/** Read at each scrape. A folder that cannot be read has no values. */
export function observeDisk(metrics: Metrics, folder: string): void {
  const gauge = (name: string, help: string, read: (disk: Disk) => number): void =>
    metrics.observe({ name, help }, (report) => {
      const disk = readDisk(folder);
      if (disk !== undefined) report({}, read(disk));
    });
  gauge(
    'hansa_disk_free_bytes',
    'Space that the site can still use in the file system of its data folder.',
    ({ freeBytes }) => freeBytes,
  );
  gauge(
    'hansa_disk_size_bytes',
    'Size of the file system of the data folder.',
    ({ sizeBytes }) => sizeBytes,
  );
}

interface Disk {
  readonly freeBytes: number;
  readonly sizeBytes: number;
}

function readDisk(folder: string): Disk | undefined {
  try {
    const { bsize, bavail, blocks } = statfsSync(folder);
    return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
  } catch {
    return undefined;
  }
}
