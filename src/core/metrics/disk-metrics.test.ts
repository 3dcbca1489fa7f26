import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { observeDisk } from './disk-metrics.ts';
import { MetricsRegistry } from './registry.ts';

function exposed(folder: string): { readonly free: number; readonly size: number } {
  const metrics = new MetricsRegistry();
  observeDisk(metrics, folder);
  const text = metrics.expose();
  const value = (name: string): number =>
    Number(new RegExp(`^${name} (.+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
  return { free: value('hansa_disk_free_bytes'), size: value('hansa_disk_size_bytes') };
}

suite('the metrics of a disk', () => {
  test('are the free space and the size of the file system of a folder', (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'hansa-disk-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const { free, size } = exposed(folder);
    assert.ok(free > 0 && size > 0 && free <= size, `${free} of ${size}`);
  });

  test('have no values for a folder that is not there', () => {
    const { free, size } = exposed('/nowhere/at/all');
    assert.deepEqual([free, size], [Number.NaN, Number.NaN]);
  });
});
