import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, suite, test } from 'node:test';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { KeptSvid } from './agent-workloads.ts';
import { SealedSvids, sealerOf } from './svid-vault.ts';

const base = mkdtempSync(join(tmpdir(), 'hansa-vault-'));
after(() => rmSync(base, { recursive: true, force: true }));

let count = 0;
let dataDir: string;
let file: string;
let errors: string[];
const random = new SeededRandom('vault');
const log: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: (message, fields) => void errors.push(`${message}: ${String(fields?.['why'])}`),
  with: () => log,
};

beforeEach(() => {
  dataDir = mkdtempSync(join(base, `${count++}-`));
  file = join(dataDir, 'svids');
  errors = [];
});

const svid: KeptSvid = {
  entryUid: 'uid',
  entryName: 'web',
  chain: [Buffer.from('leaf')],
  key: Buffer.from('the private key'),
  authorityId: 'authority',
  issuedAtMs: 5,
};

async function vault(key = 'key'): Promise<SealedSvids> {
  const sealer = await sealerOf(join(base, key), dataDir, random);
  return new SealedSvids({ file, sealer, clock: new VirtualClock(), log });
}

suite('the SVIDs that an agent keeps', () => {
  test('come back after a restart, and are sealed on the disk', async () => {
    const first = await vault();
    first.save(() => [svid]);
    await first.close();
    assert.deepEqual(await (await vault()).load(), [svid]);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    for (const form of [svid.key.toString(), svid.key.toString('base64')]) {
      assert.ok(!readFileSync(file).includes(form));
    }
  });

  test('are read and written once for many changes', async () => {
    const clock = new VirtualClock();
    const sealer = await sealerOf(join(base, 'key'), dataDir, random);
    const kept = new SealedSvids({ file, sealer, clock, log });
    const held: KeptSvid[] = [];
    let reads = 0;
    for (let at = 0; at < 100; at++) {
      held.push(svid);
      kept.save(() => {
        reads++;
        return held;
      });
    }
    assert.equal(reads, 0);
    await clock.advance(1_000);
    await kept.close();
    assert.equal(reads, 1);
    assert.equal((await (await vault()).load()).length, 100);
  });

  test('are none at first, without an error', async () => {
    assert.deepEqual(await (await vault()).load(), []);
    assert.deepEqual(errors, []);
  });

  test('are not used where another key sealed them', async () => {
    const first = await vault();
    first.save(() => [svid]);
    await first.close();
    assert.deepEqual(await (await vault('another-key')).load(), []);
    assert.match(errors[0] ?? '', /sealed with another key file/);
  });

  test('are not used where the file is damaged', async () => {
    writeFileSync(file, 'not sealed');
    assert.deepEqual(await (await vault()).load(), []);
    assert.match(errors[0] ?? '', /cannot use the kept SVIDs/);
  });

  test('are gone when they are dropped', async () => {
    const first = await vault();
    first.save(() => [svid]);
    await first.close();
    first.save(() => [svid, svid]);
    await first.drop();
    assert.deepEqual(await (await vault()).load(), []);
  });
});

suite('the key file of an agent', () => {
  const refused = (path: string): Promise<void> =>
    assert.rejects(sealerOf(path, dataDir, random), (error: unknown) => {
      assert.match(String(error), /it is in the data folder/);
      return hasCode(error, 'HANSA_CONFIG_INVALID');
    });

  test('is refused in the data folder, and below it', async () => {
    mkdirSync(join(dataDir, 'secrets'));
    await refused(join(dataDir, 'key'));
    await refused(join(dataDir, 'secrets', 'key'));
    await refused(join(dataDir, 'secrets', '..', 'key'));
  });

  test('is refused where a link leads into the data folder', async () => {
    const link = join(base, `link-${count}`);
    symlinkSync(dataDir, link);
    await refused(join(link, 'key'));
    await sealerOf(join(base, 'outside'), dataDir, random);
    symlinkSync(join(base, 'outside'), join(dataDir, 'inwards'));
    await sealerOf(join(dataDir, 'inwards'), dataDir, random);
  });

  test('may be in a folder whose name only begins like the data folder', async () => {
    mkdirSync(`${dataDir}-keys`);
    await sealerOf(join(`${dataDir}-keys`, 'key'), dataDir, random);
  });
});
