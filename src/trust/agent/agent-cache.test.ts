import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, suite, test } from 'node:test';
import { AgentItem, hashState } from '../../core/agent/state.ts';
import type { Log } from '../../core/log/log.ts';
import { AgentCache, type KeptState } from './agent-cache.ts';

const base = mkdtempSync(join(tmpdir(), 'hansa-agent-cache-'));
after(() => rmSync(base, { recursive: true, force: true }));

const owner = 'spiffe://lubeck.example/hansa/agent/crane-1';
let count = 0;
let folder: { path: string; stateFile: string; contactFile: string };
let errors: string[];
const log: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: (message, fields) => void errors.push(`${message}: ${String(fields?.['why'])}`),
  with: () => log,
};

beforeEach(() => {
  const path = mkdtempSync(join(base, `${count++}-`));
  folder = { path, stateFile: join(path, 'state'), contactFile: join(path, 'contact.json') };
  errors = [];
});

const cache = (of = owner): AgentCache => new AgentCache({ folder, log, owner: of });

function state(revision: number, values: Readonly<Record<string, string>>): KeptState {
  const items = Object.entries(values).map(
    ([name, value]) => new AgentItem('identities', 'things', name, Buffer.from(value)),
  );
  return { version: { incarnation: 'one', revision, epoch: 3, hash: hashState(items) }, items };
}

suite('the cache of an agent', () => {
  test('is empty at first, without an error', () => {
    assert.deepEqual(cache().load(), {
      floor: undefined,
      contact: { lastContactMs: undefined, offlineMs: undefined },
      state: undefined,
    });
    assert.deepEqual(errors, []);
  });

  test('returns the state and the last contact after a restart, and no other user can read it', async () => {
    const first = cache();
    await first.keep(state(7, { a: '1', b: '2' }));
    first.contact({ lastContactMs: 1_000, offlineMs: 70_000.4 });
    const { floor, contact, state: read } = cache().load();
    assert.deepEqual(floor, { incarnation: 'one', revision: 7, epoch: 3 });
    assert.deepEqual(contact, { lastContactMs: 1_000, offlineMs: 70_000 });
    assert.deepEqual(
      read?.items.map(({ name, value }) => [name, value.toString()]),
      [
        ['a', '1'],
        ['b', '2'],
      ],
    );
    for (const file of readdirSync(folder.path)) {
      assert.equal(statSync(join(folder.path, file)).mode & 0o777, 0o600, file);
    }
  });

  test('a state is on the disk when keep resolves, also where another one was being written', async () => {
    const first = cache();
    const early = first.keep(state(7, { a: '1' }));
    const middle = first.keep(state(8, { a: '2' }));
    const late = first.keep(state(9, {}));
    await early;
    await middle;
    await late;
    assert.deepEqual(cache().load().state?.items, []);
    assert.equal(cache().load().floor?.revision, 9);
  });

  test('an older state than the newest accepted one is not used', async () => {
    const first = cache();
    await first.keep(state(7, { a: '1' }));
    const older = readFileSync(folder.stateFile);
    await first.keep(state(8, {}));
    first.contact({ lastContactMs: 5, offlineMs: undefined });
    writeFileSync(folder.stateFile, older);
    const { state: read, floor } = cache().load();
    assert.equal(read, undefined);
    assert.equal(floor?.revision, 8);
    assert.match(errors[0] ?? '', /the agent has accepted a newer state/);
  });

  test('a state that cannot be written removes the older one, which would bring back deleted items', async () => {
    const first = cache();
    await first.keep(state(7, { a: '1' }));
    // Stands in the way of the next write.
    mkdirSync(join(`${folder.stateFile}.next`, 'x'), { recursive: true });
    await first.keep(state(8, {}));
    assert.match(first.problems.join(), /cannot write/);
    assert.equal(cache().load().state, undefined);
    rmSync(`${folder.stateFile}.next`, { recursive: true });
  });

  test('an older state that can be neither replaced nor removed is a problem until it can', async () => {
    const first = cache();
    // A folder with content refuses both.
    mkdirSync(join(folder.stateFile, 'x'), { recursive: true });
    await first.keep(state(7, {}));
    const both =
      /cannot write .*state: .*; cannot remove the older state in .*state: .*may bring back/;
    assert.equal(first.problems.length, 1);
    assert.match(first.problems.join(), both);
    assert.match(errors.join(), both);
    first.contact({ lastContactMs: 5, offlineMs: undefined });
    assert.match(first.problems.join(), both, 'a file that can be written hides no problem');
    rmSync(folder.stateFile, { recursive: true });
    await first.keep(state(8, {}));
    assert.deepEqual(first.problems, []);
  });

  test('a state that cannot be removed when it is dropped is a problem', async () => {
    const first = cache();
    mkdirSync(join(folder.stateFile, 'x'), { recursive: true });
    await first.drop({ lastContactMs: 9, offlineMs: 0 });
    assert.match(first.problems.join(), /cannot remove the older state/);
    assert.equal(errors.length, 1);
  });

  test('a crash between two states leaves the one that is on the disk usable', async () => {
    const first = cache();
    await first.keep(state(7, { a: '1' }));
    const kept = first.keep(state(8, {}));
    first.contact({ lastContactMs: 5, offlineMs: undefined });
    assert.equal(cache().load().state?.version.revision, 7);
    await kept;
  });

  test('the state of another agent is not used', async () => {
    await cache('spiffe://lubeck.example/hansa/agent/other').keep(state(7, { a: '1' }));
    const { state: read, floor } = cache().load();
    assert.equal(read, undefined);
    assert.equal(floor, undefined);
    assert.match(errors[0] ?? '', /it is the state of spiffe:.*other, not of spiffe:.*crane-1/);
  });

  for (const [name, damage] of [
    ['a changed byte', (bytes: Buffer) => bytes.fill(0xff, bytes.length - 1)],
    ['half of a file', (bytes: Buffer) => bytes.subarray(0, bytes.length / 2)],
    ['another file', () => Buffer.from('PK\x03\x04 an archive\n')],
    ['an empty file', () => Buffer.alloc(0)],
  ] as const) {
    test(`${name} is refused, and the newest version still counts`, async () => {
      const first = cache();
      await first.keep(state(7, { a: '1'.repeat(100) }));
      first.contact({ lastContactMs: 5, offlineMs: undefined });
      writeFileSync(folder.stateFile, damage(readFileSync(folder.stateFile)));
      const { state: read, floor } = cache().load();
      assert.equal(read, undefined);
      assert.deepEqual(floor, { incarnation: 'one', revision: 7, epoch: 3 });
      assert.match(errors[0] ?? '', /cannot use the cached state; the agent starts without it/);
    });
  }

  test('a file that is too large is not read', async () => {
    await cache().keep(state(7, {}));
    appendFileSync(folder.stateFile, Buffer.alloc(65 * 1024 * 1024));
    assert.equal(cache().load().state, undefined);
    assert.match(errors[0] ?? '', /it is larger than/);
  });

  test('a damaged contact file counts as absent', () => {
    for (const text of [
      '',
      '[]',
      '{"epoch":-1,"revision":1,"incarnation":"x"}',
      '{"lastContactMs":"x"}',
      '{"lastContactMs":8640000000000001,"offlineMs":0}',
      '{"lastContactMs":1,"offlineMs":8640000000000001}',
    ]) {
      writeFileSync(folder.contactFile, text);
      const { floor, contact } = cache().load();
      assert.equal(floor, undefined);
      assert.equal(contact.lastContactMs, undefined);
    }
  });

  test('forgets the items and not the newest version when it is dropped', async () => {
    const first = cache();
    void first.keep(state(7, { a: '1' }));
    await first.drop({ lastContactMs: 9, offlineMs: 0 });
    const { state: read, floor, contact } = cache().load();
    assert.equal(read, undefined);
    assert.deepEqual(floor, { incarnation: 'one', revision: 7, epoch: 3 });
    assert.deepEqual(contact, { lastContactMs: 9, offlineMs: 0 });
  });

  test('a disk that cannot be written is reported, and the agent goes on', async () => {
    rmSync(folder.path, { recursive: true });
    const first = cache();
    await first.keep(state(7, { a: '1' }));
    assert.match(first.problems.join(), /cannot write .*: there is no such file or folder/);
    assert.equal(errors.length, 1);
  });
});
