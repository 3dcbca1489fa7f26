// Selectors by the SHA-256 of the program, at the site and at an agent. Hashing starts a process.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { onSiteAndAgent } from '../agent/test-workload-hosts.ts';
import { fetchSvids, putEntry } from './test-workload-site.ts';

onSiteAndAgent('the program of a process', (host) => {
  test('is recognized by its SHA-256, also where the entry is newer', async (t) => {
    const { store, socket } = await host.site(t);
    const [program] = execFileSync('sha256sum', [process.execPath], { encoding: 'utf8' }).split(
      ' ',
    );
    await putEntry(store, 'web');
    const watch = () => {
      const stream = fetchSvids(socket);
      t.after(() => stream.close());
      return stream;
    };
    const stream = watch();
    const hints = async (of = stream) => (await of.next()).svids.map(({ hint }) => hint);
    assert.deepEqual(await hints(), ['web']);
    await putEntry(store, 'program', { selectors: [`unix:sha256:${program}`] });
    assert.deepEqual(await hints(), ['program', 'web']);
    await putEntry(store, 'other', { selectors: [`unix:sha256:${'0'.repeat(64)}`] });
    assert.deepEqual(await hints(watch()), ['program', 'web']);
  });
});
