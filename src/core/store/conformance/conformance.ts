// The test suite that every driver must pass: the contract of store.ts as tests. It gets a function
// that creates a place for a store, and does not know the driver.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { naiveRoot } from '../../merkle/test-naive-tree.ts';
import { auditConformance, readAll } from './audit.ts';
import { besideConformance } from './beside.ts';
import { commitConformance } from './commits.ts';
import type { MakePlace } from './harness.ts';
import { audit, put, Recorder, test, turn, withStore } from './harness.ts';
import { modelConformance } from './model.ts';
import { watchConformance } from './watches.ts';

export function storeConformance(
  name: string,
  makePlace: MakePlace,
  { modelRuns }: { readonly modelRuns: number },
): void {
  void describe(`store on ${name}`, () => {
    commitConformance(makePlace);
    watchConformance(makePlace);
    besideConformance(makePlace);
    auditConformance(makePlace);
    modelConformance(makePlace, modelRuns);

    test('a store that is opened again has everything, history included', () =>
      withStore(makePlace, async (store, place) => {
        for (let at = 0; at < 30; at++) {
          await store.commit({
            put: [put('things', `n${at % 10}`, Buffer.alloc(at * 100, at))],
            delete: at % 3 === 0 ? [{ collection: 'things', name: `n${at % 7}` }] : [],
            audit: [audit(`row ${at}`)],
          });
        }
        await store.leases.acquire('work', 'one', 60_000);
        const { revision } = store;
        const before = store.list('things');
        const recorder = new Recorder();
        store.watch('things', 0, recorder);
        await store.close();

        const again = await place.open();
        assert.equal(again.revision, revision);
        assert.deepEqual(again.list('things'), before);
        const resumed = new Recorder();
        again.watch('things', 0, resumed);
        await turn();
        assert.deepEqual(resumed.calls.flat(), recorder.calls.flat());
        assert.deepEqual(again.auditLog.rootHash, naiveRoot(await readAll(again)));
        assert.equal(again.auditLog.size, 30);
        assert.deepEqual(
          (await again.leases.list()).map(({ name: lease, epoch }) => [lease, epoch]),
          [['work', 1]],
        );
        await again.commit({ put: [put('things', 'later')] });
        assert.equal(again.revision, revision + 1);
        await again.close();
      }));
  });
}
