// Kills the daemon with SIGKILL during writes. After the next start, all acknowledged writes and
// deletions are there, without a manual repair.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import {
  adminClient,
  type Answer,
  ApiClient,
  createToken,
  resources,
  role,
  type Thing,
} from './api-client.ts';
import { type Daemon, hansa, launcher, startDaemon, temporaryFolder } from './daemon.ts';

const rounds = 20;
const writers = 8;
/** After this round the site is left alone until its controller has the lease that the dead one held. */
const settleAfter = 10;
/** Acknowledged writes after which a round ends, so that each has some, however slow the machine is. */
const [leastWrites, mostWrites] = [20, 150];

/** What is known of one object; each is written by one writer, one request at a time. */
interface Known {
  /** The last state that was acknowledged: a value, or undefined where it is not there. */
  acknowledged: string | undefined;
  resourceVersion?: string | undefined;
  /** What was asked for when the connection broke: it may have happened. */
  unanswered?: { readonly wanted: string | undefined };
}

class Writer {
  readonly known = new Map<string, Known>();
  readonly #random: SeededRandom;
  readonly #prefix: string;
  #count = 0;

  constructor(index: number) {
    this.#random = new SeededRandom(1000 + index);
    this.#prefix = `w${index}`;
  }

  /** Writes until the daemon is gone; tells of each acknowledgement. */
  async run(client: ApiClient, acknowledged: () => void): Promise<void> {
    for (;;) {
      const name = `${this.#prefix}-${Math.floor(this.#random.unit() * 12)}`;
      const known = this.known.get(name) ?? { acknowledged: undefined };
      this.known.set(name, known);
      this.#count += 1;
      const value = `v${this.#count}`;
      const wanted =
        known.acknowledged !== undefined && this.#random.unit() < 0.3 ? undefined : value;
      known.unanswered = { wanted };
      let answer: Answer;
      try {
        answer = await this.#write(client, name, known, wanted);
      } catch {
        return;
      }
      assert.ok(answer.status < 300, `${answer.status} ${answer.text}`);
      known.acknowledged = wanted;
      known.resourceVersion = answer.body.metadata.resourceVersion;
      delete known.unanswered;
      acknowledged();
    }
  }

  #write(
    client: ApiClient,
    name: string,
    before: Known,
    wanted: string | undefined,
  ): Promise<Answer> {
    const path = `${resources}/roles`;
    if (wanted === undefined) return client.request('DELETE', `${path}/${name}`);
    const object = role(name, { labels: { value: wanted } });
    if (before.acknowledged === undefined) return client.request('POST', path, { body: object });
    if (this.#random.unit() < 0.5) {
      const { resourceVersion } = before;
      const metadata = { ...object.metadata, resourceVersion };
      return client.request('PUT', `${path}/${name}`, { body: { ...object, metadata } });
    }
    return client.request('PATCH', `${path}/${name}`, {
      headers: { 'content-type': 'application/merge-patch+json' },
      body: { metadata: { labels: { value: wanted } } },
    });
  }

  /** Compares with what is there, and takes what happened to unanswered writes for known. */
  check(found: ReadonlyMap<string, Thing>): void {
    for (const [name, known] of this.known) {
      const value = found.get(name)?.metadata.labels?.['value'];
      if (known.unanswered !== undefined && value === known.unanswered.wanted)
        known.acknowledged = value;
      delete known.unanswered;
      known.resourceVersion = found.get(name)?.metadata.resourceVersion;
      assert.equal(value, known.acknowledged, `${name} is not as it was acknowledged`);
    }
  }
}

async function objectsOf(client: ApiClient): Promise<Map<string, Thing>> {
  const { body } = await client.get(`${resources}/roles`);
  return new Map((body.items ?? []).map((item) => [item.metadata.name ?? '', item]));
}

/** Waits until the controller of this very daemon has written the status: it has the lease. */
async function siteIsKept(client: ApiClient, daemon: Daemon): Promise<void> {
  const watch = await client.watch(`${resources}/sites?watch=true&timeoutSeconds=60`);
  await watch.until((event) =>
    JSON.stringify(event.object.status ?? {}).includes(daemon.endpoints.api),
  );
  watch.close();
}

async function leaseEpoch(daemon: Daemon): Promise<number> {
  const text = await (await fetch(daemon.endpoints.metrics)).text();
  const match = /^hansa_lease_epoch\{lease="controller\.site"\} (\d+)$/m.exec(text);
  assert.ok(match, 'the lease is in the metrics');
  return Number(match[1]);
}

suite('kill -9', () => {
  test(`in ${rounds} rounds of writes loses nothing that was acknowledged`, async () => {
    const dataDir = join(temporaryFolder(), 'lubeck');
    const random = new SeededRandom(7);
    const all = Array.from({ length: writers }, (_, index) => new Writer(index));
    let token = '';
    let epoch = 0;
    let written = 0;
    for (let round = 1; round <= rounds; round += 1) {
      const daemon = await startDaemon(dataDir);
      const admin = adminClient(dataDir);
      token ||= await createToken(admin, 'writer', 'admin');
      const remote = new ApiClient({
        origin: daemon.endpoints.api,
        caFile: join(dataDir, 'ca.pem'),
        token,
      });
      const found = await objectsOf(remote);
      for (const writer of all) writer.check(found);
      if (round === settleAfter) {
        await siteIsKept(admin, daemon);
        const next = await leaseEpoch(daemon);
        assert.ok(next > epoch, `the epoch grows: ${next} after ${epoch}`);
        epoch = next;
      }
      const enough = leastWrites + Math.floor(random.unit() * (mostWrites - leastWrites));
      let count = 0;
      const running = all.map((writer, index) =>
        writer.run(index % 2 === 0 ? remote : admin, () => {
          count += 1;
          written += 1;
          if (count === enough) void daemon.signal('SIGKILL');
        }),
      );
      await Promise.all(running);
      assert.equal(await daemon.ended, 'SIGKILL');
      assert.ok(existsSync(join(dataDir, 'admin.sock')), 'the stale socket is really left behind');
      remote.close();
    }
    assert.ok(written >= rounds * leastWrites);

    const last = await startDaemon(dataDir);
    const admin = adminClient(dataDir);
    const found = await objectsOf(admin);
    for (const writer of all) writer.check(found);
    await siteIsKept(admin, last);
    assert.ok((await leaseEpoch(last)) > epoch);
    const verified = await hansa(['audit', 'verify', '--data-dir', dataDir]);
    assert.equal(verified.code, 0, verified.stderr);
    const doctor = await hansa(['doctor', '--data-dir', dataDir]);
    assert.equal(doctor.code, 0, doctor.stdout);
    assert.equal(await last.signal('SIGTERM'), 0);
  });

  const foundingFiles = [
    'secrets',
    'secrets/store.db',
    'secrets/store.db-wal',
    'secrets/key-encryption-key',
    'ca.pem',
    'admin.sock',
    'endpoints.json',
  ];
  test('at any step of the first start leaves a folder in which the next start succeeds', async () => {
    await Promise.all(
      foundingFiles.map(async (file, index) => {
        const dataDir = join(temporaryFolder(), 'new');
        await killWhen(dataDir, () => existsSync(join(dataDir, file)));
        // Once more a little later, when what is there already is read again.
        const revived = join(dataDir, foundingFiles[index + 1] ?? file);
        await killWhen(dataDir, () => existsSync(revived));
        const site = await startDaemon(dataDir);
        const verified = await hansa(['audit', 'verify', '--data-dir', dataDir]);
        assert.equal(verified.code, 0, `${file}: ${verified.stderr}`);
        assert.equal(await site.signal('SIGTERM'), 0);
      }),
    );
  });

  test('between any two commits of the first start does no harm either', async () => {
    // The founding commits follow one another within milliseconds: the size of the WAL tells them apart.
    const random = new SeededRandom(11);
    for (let round = 0; round < 10; round += 1) {
      const dataDir = join(temporaryFolder(), 'new');
      const wal = join(dataDir, 'secrets', 'store.db-wal');
      const enough = Math.floor(random.unit() * 120_000);
      await killWhen(
        dataDir,
        () =>
          (statSync(wal, { throwIfNoEntry: false })?.size ?? 0) > enough ||
          existsSync(join(dataDir, 'endpoints.json')),
      );
      const site = await startDaemon(dataDir);
      assert.equal((await adminClient(dataDir).get(`${resources}/sites/site`)).status, 200);
      assert.equal(await site.signal('SIGTERM'), 0);
    }
  });
});

/** Starts a site and kills it as soon as something is so; resolves when it is dead. */
async function killWhen(dataDir: string, isSo: () => boolean): Promise<void> {
  const child = spawn(
    launcher,
    [
      'server',
      `--data-dir=${dataDir}`,
      '--trust-domain=lubeck.example',
      '--api=127.0.0.1:0',
      '--federation=off',
      '--metrics=off',
    ],
    { stdio: 'ignore' },
  );
  const ended = once(child, 'close') as Promise<[number | null, string | null]>;
  while (child.exitCode === null && !isSo()) await new Promise((resolve) => setImmediate(resolve));
  child.kill('SIGKILL');
  assert.deepEqual(await ended, [null, 'SIGKILL'], 'it did not end by itself');
}
