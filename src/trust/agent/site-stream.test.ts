import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLog } from '../../core/log/test-log.ts';
import { systemRandom } from '../../core/clock/system.ts';
import type { Log } from '../../core/log/log.ts';
import { joinBySvid } from '../client/join-client.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { ciToken, joinSite, runner } from '../join/test-join-site.ts';
import { openSiteStream } from './site-stream.ts';

test('an agent reaches a site that moved also where it cannot store the new address', async (t) => {
  const site = await joinSite();
  t.after(() => site.stop());
  const base = mkdtempSync(join(tmpdir(), 'hansa-site-stream-'));
  t.after(() => rmSync(base, { recursive: true, force: true }));
  await site.createToken('ci-runners', ciToken);
  const folder = new JoinFolder(join(base, 'identity'));
  const joined = await joinBySvid(
    {
      server: { url: site.url, bundle: site.authority.bundle },
      clock: site.clock,
      random: systemRandom,
      key: await folder.nextKey(systemRandom),
    },
    { token: 'ci-runners', role: 'agent', name: 'crane-1' },
    { chain: [runner.certificate], key: runner.key },
  );
  folder.keep(joined, new URL('https://lubeck.example:8443'));
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (message) => void errors.push(message) };
  const { signal } = new AbortController();
  const options = { server: site.url.origin, clock: site.clock, log, signal };
  // Stands in the way of the write.
  const obstacle = join(folder.path, 'join.json.moved');
  mkdirSync(join(obstacle, 'x'), { recursive: true });
  const first = await openSiteStream(folder, options);
  assert.equal(first.exporter.byteLength, 32);
  first.close();
  assert.deepEqual(errors, ['cannot store the new address of the site']);
  assert.equal(folder.membership?.server, 'https://lubeck.example:8443');
  rmSync(obstacle, { recursive: true });
  const second = await openSiteStream(folder, options);
  second.close();
  assert.equal(errors.length, 1);
  assert.equal(folder.membership?.server, site.url.origin);
});
