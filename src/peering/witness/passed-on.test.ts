import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { signCheckpoint } from '../../core/audit/checkpoint.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { mostPassedOn } from './log-part.ts';
import { PassedOn } from './passed-on.ts';
import { newLog, WitnessedLogs } from './witnessed-logs.ts';

const enough = 1024 * 1024;

async function logsOf(count: number, unreadable: (index: number) => boolean = () => false) {
  const logs = new WitnessedLogs(
    await openStore({ driver: 'memory' }, { clock: new VirtualClock() }),
  );
  for (let i = 0; i < count; i++) {
    const name = `site-${String(i).padStart(2, '0')}.example`;
    const signer = testSigner(name, i + 1);
    const head = { size: 5, rootHash: Buffer.alloc(32, i) };
    const { note } = await signCheckpoint(signer, head);
    await logs.put(name, undefined, {
      ...newLog('uid', signer.verifier.text),
      size: 5,
      note: unreadable(i) ? 'nonsense' : note,
    });
  }
  return logs;
}

const names = (picked: readonly { readonly origin: string }[]) =>
  picked.map(({ origin }) => origin.slice(5, 7)).join(' ');

describe('the checkpoints for a receiver', () => {
  test('are all others, while they are at most eight', async () => {
    const logs = await logsOf(9);
    const passedOn = new PassedOn();
    for (let i = 0; i < 3; i++) {
      const picked = passedOn.pick('site-04.example', logs, enough);
      assert.equal(names(picked), '00 01 02 03 05 06 07 08');
    }
  });

  test('take turns where there are more', async () => {
    const logs = await logsOf(20);
    const passedOn = new PassedOn();
    const turn = () => names(passedOn.pick('other.example', logs, enough));
    assert.equal(turn(), '00 01 02 03 04 05 06 07');
    assert.equal(turn(), '08 09 10 11 12 13 14 15');
    assert.equal(turn(), '16 17 18 19 00 01 02 03');
  });

  test('are the only ones that are read', async () => {
    const logs = await logsOf(20, (index) => index >= mostPassedOn);
    assert.equal(new PassedOn().pick('other.example', logs, enough).length, mostPassedOn);
  });

  test('are as many as fit, and the next message goes on with the others', async () => {
    const logs = await logsOf(5);
    const passedOn = new PassedOn();
    const [one] = passedOn.pick('other.example', logs, enough);
    const bytes = 2 * (JSON.stringify(one?.note).length + 1) + 20;
    const turn = () => names(passedOn.pick('other.example', logs, bytes));
    assert.deepEqual([turn(), turn(), turn()], ['00 01', '02 03', '04 00']);
    assert.equal(names(passedOn.pick('other.example', logs, 0)), '');
  });

  test('are none without logs, and not those of which this site has seen no event', async () => {
    const logs = await logsOf(0);
    assert.deepEqual(new PassedOn().pick('other.example', logs, enough), []);
    const { verifier } = testSigner('new.example', 1);
    await logs.put('new.example', undefined, newLog('uid', verifier.text));
    assert.deepEqual(new PassedOn().pick('other.example', logs, enough), []);
  });
});
