import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { hasCode } from '../errors/error.ts';
import { introduceLog, isOriginOf, readIntroduction, siteOfOrigin } from './introduction.ts';
import { parseCheckpoint } from './checkpoint.ts';
import { VirtualClock } from '../clock/virtual.ts';
import { openStore } from '../store/open.ts';
import {
  latestRestore,
  logSigner,
  readRestore,
  restoreCollection,
  signRestore,
} from './restore-record.ts';
import { testKey, testSigner } from './test-signer.ts';

const ended = testSigner('lubeck.example', 1);
const next = testSigner('lubeck.example/log/2', 2);
const last = { size: 17, rootHash: Buffer.alloc(32, 3) };
const time = '2026-01-01T00:00:00Z';

function refused(run: () => unknown, why: RegExp): void {
  assert.throws(run, (error) => hasCode(error, 'HANSA_AUDIT_INVALID') && why.test(error.message));
}

describe('a restore record', () => {
  test('says which log ended, which follows, and what the backup knew', async () => {
    const record = await signRestore(ended, next, last, time);
    assert.deepEqual(readRestore(record.note, ended.verifier), record);
    assert.equal(record.next.text, next.verifier.text);
    assert.equal(record.size, 17);
  });

  test('is refused where another key signed it, also with the key of the next log alone', async () => {
    const { note } = await signRestore(ended, next, last, time);
    refused(() => readRestore(note, testSigner('lubeck.example', 9).verifier), /no signature/);
    const lines = note.split('\n');
    const onlyNext = lines.filter((line) => !line.startsWith('— lubeck.example ')).join('\n');
    refused(
      () => readRestore(onlyNext, ended.verifier),
      /no signature by the key lubeck\.example\+/,
    );
    const onlyEnded = lines.filter((line) => !line.startsWith('— lubeck.example/')).join('\n');
    refused(() => readRestore(onlyEnded, ended.verifier), /no signature/);
  });

  test('cannot go back to an earlier log, stay with the same one, or go to another site', async () => {
    for (const name of ['lubeck.example', 'bruges.example/log/3', 'lubeck.example/log/x']) {
      await assert.rejects(
        signRestore(testSigner('lubeck.example/log/2', 1), testSigner(name, 2), last, time),
        /cannot follow/,
      );
    }
  });

  test('is no checkpoint and no introduction, and none of them is a restore record', async () => {
    const { note } = await signRestore(ended, next, last, time);
    refused(() => parseCheckpoint(note), /not a tree size/);
    const introduction = await introduceLog(ended, 'lubeck.example', 'bruges.example');
    refused(() => parseCheckpoint(introduction), /not a tree size/);
    refused(() => readRestore(introduction, ended.verifier), /not a restore record/);
    refused(() => readIntroduction(note, 'lubeck.example', 'bruges.example'), /does not introduce/);
  });

  test('with any character changed is refused', async () => {
    const { note } = await signRestore(ended, next, last, time);
    fc.assert(
      fc.property(fc.nat(note.length - 1), (at) => {
        const other = note[at] === 'A' ? 'B' : 'A';
        refused(
          () => readRestore(note.slice(0, at) + other + note.slice(at + 1), ended.verifier),
          /./,
        );
      }),
    );
  });
});

describe('the log of a site', () => {
  const key = testKey(1);
  const same = testSigner('lubeck.example/log/2', 1);
  async function originWith(text: string | undefined): Promise<string> {
    const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
    if (text !== undefined) {
      const encode = () => Buffer.from(text);
      await store.commit({ put: [{ collection: restoreCollection, name: latestRestore, encode }] });
    }
    return logSigner(store, 'lubeck.example', key).verifier.name;
  }

  test('has the trust domain as its origin until a restore opens another one', async () => {
    assert.equal(await originWith(undefined), 'lubeck.example');
    const { note } = await signRestore(ended, same, last, time);
    assert.equal(await originWith(note), 'lubeck.example/log/2');
  });

  test('keeps its origin where the record is of another key or site, forged or no record', async () => {
    const { note } = await signRestore(ended, same, last, time);
    const others = [
      (await signRestore(ended, next, last, time)).note,
      (
        await signRestore(
          testSigner('bruges.example', 1),
          testSigner('bruges.example/log/2', 1),
          last,
          time,
        )
      ).note,
      note.replace('\n17\n', '\n18\n'),
      'nonsense',
      '',
    ];
    for (const text of others) assert.equal(await originWith(text), 'lubeck.example', text);
  });
});

describe('the introduction of a log', () => {
  test('gives the key to the one site that it is for', async () => {
    const text = await introduceLog(ended, 'lubeck.example', 'bruges.example');
    const key = readIntroduction(text, 'lubeck.example', 'bruges.example');
    assert.equal(key.text, ended.verifier.text);
  });

  test('is refused for another receiver, another sender, and the key of another site', async () => {
    const text = await introduceLog(ended, 'lubeck.example', 'bruges.example');
    refused(() => readIntroduction(text, 'lubeck.example', 'novgorod.example'), /not by/);
    refused(() => readIntroduction(text, 'novgorod.example', 'bruges.example'), /not by/);
    const claimed = await introduceLog(ended, 'novgorod.example', 'bruges.example');
    refused(
      () => readIntroduction(claimed, 'novgorod.example', 'bruges.example'),
      /not a log of novgorod/,
    );
  });

  test('is refused where the key did not sign it', async () => {
    const text = await introduceLog(ended, 'lubeck.example', 'bruges.example');
    const other = testSigner('lubeck.example', 2).verifier.text;
    const swapped = text.replace(ended.verifier.text, other);
    refused(() => readIntroduction(swapped, 'lubeck.example', 'bruges.example'), /no signature/);
  });

  test('names origins of one trust domain', () => {
    assert.ok(isOriginOf('a.example', 'a.example'));
    assert.ok(isOriginOf('a.example/log/2', 'a.example'));
    for (const origin of [
      'b.example',
      'a.example/log/',
      'a.example/log/02',
      'a.example/x',
      'xa.example',
    ]) {
      assert.ok(!isOriginOf(origin, 'a.example'), origin);
    }
    assert.equal(siteOfOrigin('a.example/log/2'), 'a.example');
  });
});
