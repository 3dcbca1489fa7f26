import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { underLease } from '../lease/current-fence.ts';
import { openStore } from '../store/open.ts';
import {
  mostDocumentLength,
  mostReceived,
  publishedReader,
  receivedReader,
  setRecord,
  wantedReader,
} from './records.ts';

async function newStore(t: TestContext) {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  t.after(() => store.close());
  return store;
}

const bundle = { cluster: 'app1', trustDomain: 'a.example', document: '{"keys":[]}' };
const published = { uid: 'u1', trustDomain: 'a.example', document: '{"keys":[]}' };
const wanted = { uid: 'u1', trustDomains: ['a.example'], peers: ['bruges.example'] };
const long = 'x'.repeat(256);
const large = 'x'.repeat(mostDocumentLength + 1);

suite('records of bundles of SPIRE servers', () => {
  for (const [reader, value] of [
    [publishedReader, published],
    [wantedReader, wanted],
    [receivedReader, { bundles: Array.from({ length: mostReceived }, () => bundle) }],
  ] as const) {
    test(`${reader.collection}: a record is read as it was written, and parsed once`, async (t) => {
      const store = await newStore(t);
      assert.equal(await setRecord(store, reader.collection, 'n', value), true);
      assert.deepEqual(reader.get(store, 'n'), value);
      assert.equal(reader.get(store, 'n'), reader.get(store, 'n'));
    });
  }

  for (const [what, reader, value] of [
    ['a published list', publishedReader, []],
    ['no document', publishedReader, { ...published, document: undefined }],
    ['a document that is no text', publishedReader, { ...published, document: {} }],
    ['a published document that is too large', publishedReader, { ...published, document: large }],
    ['a long UID', publishedReader, { ...published, uid: long }],
    ['no list of trust domains', wantedReader, { ...wanted, trustDomains: 'a.example' }],
    ['a trust domain that is a number', wantedReader, { ...wanted, trustDomains: [1] }],
    ['too many peers', wantedReader, { ...wanted, peers: Array.from({ length: 65 }, () => 'p') }],
    ['no bundles', receivedReader, {}],
    ['bundles that are no list', receivedReader, { bundles: { length: 1 } }],
    ['a bundle that is null', receivedReader, { bundles: [null] }],
    ['an empty trust domain', receivedReader, { bundles: [{ ...bundle, trustDomain: '' }] }],
    ['a long name of a cluster', receivedReader, { bundles: [{ ...bundle, cluster: long }] }],
    ['a document that is too large', receivedReader, { bundles: [{ ...bundle, document: large }] }],
    [
      'too many bundles',
      receivedReader,
      { bundles: Array.from({ length: mostReceived + 1 }, () => bundle) },
    ],
  ] as const) {
    test(`a record with ${what} counts as none`, async (t) => {
      const store = await newStore(t);
      await setRecord(store, reader.collection, 'n', value);
      assert.notEqual(store.get(reader.collection, 'n'), undefined);
      assert.equal(reader.get(store, 'n'), undefined);
    });
  }

  test('only a change is written, and a deletion once', async (t) => {
    const store = await newStore(t);
    const set = (value: object | undefined) =>
      setRecord(store, publishedReader.collection, 'n', value);
    assert.equal(await set(undefined), false);
    assert.equal(await set(published), true);
    const { revision } = store;
    assert.equal(await set({ ...published }), false);
    assert.equal(store.revision, revision);
    assert.equal(await set({ ...published, uid: 'u2' }), true);
    assert.equal(await set(undefined), true);
    assert.equal(store.get(publishedReader.collection, 'n'), undefined);
  });

  test('the largest bundles of one peer fit into a value of the store', async (t) => {
    const store = await newStore(t);
    const largest = { ...bundle, document: 'x'.repeat(mostDocumentLength) };
    const value = { bundles: Array.from({ length: mostReceived }, () => largest) };
    await setRecord(store, receivedReader.collection, 'n', value);
    assert.equal(receivedReader.get(store, 'n')?.bundles.length, mostReceived);
  });

  test('a replica that lost its lease writes nothing', async (t) => {
    const store = await newStore(t);
    await assert.rejects(
      underLease({ lease: 'controller.test', epoch: 1 }, () =>
        setRecord(store, publishedReader.collection, 'n', published),
      ),
      { code: 'HANSA_FENCED' },
    );
    assert.equal(store.get(publishedReader.collection, 'n'), undefined);
  });
});
