import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { createLog } from '../log/json-log.ts';
import { openStore } from '../store/open.ts';
import { signCheckpoint, type SignedCheckpoint } from './checkpoint.ts';
import { cosign, withSignatures, witnessVerifier } from './cosignature.ts';
import { Cosignatures, storedCosignatures } from './cosignatures.ts';
import { testSigner } from './test-signer.ts';

const lubeck = testSigner('lubeck.example', 1);
const bruges = testSigner('bruges.example', 2);
const witness = witnessVerifier('bruges.example', bruges.verifier);

async function cosigned(size: number, log = lubeck, by = bruges): Promise<SignedCheckpoint> {
  const checkpoint = await signCheckpoint(log, { size, rootHash: Buffer.alloc(32, size) });
  const cosignature = await cosign(checkpoint, 'bruges.example', by, 1_700_000_000 + size);
  return withSignatures(checkpoint, [cosignature]);
}

/** Replicas of one site: they share the store, and nothing else. */
async function newReplicas(t: TestContext) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const lines: string[] = [];
  const sink = { write: (line: string) => void lines.push(line) };
  const log = createLog({ level: 'warn', format: 'json', clock, sink });
  const replica = () => new Cosignatures({ store, clock, log });
  const storedSizes = () => storedCosignatures(store).map(({ checkpoint }) => checkpoint.size);
  return { store, lines, storedSizes, one: replica(), other: replica() };
}

describe('cosignatures of several replicas', () => {
  test('a replica with an older one keeps the newer one of another, and takes it over', async (t) => {
    const { one, other, storedSizes } = await newReplicas(t);
    one.add(await cosigned(7), witness);
    other.add(await cosigned(9), witness);
    await other.flush();
    await one.flush();
    assert.deepEqual(storedSizes(), [9]);
    assert.equal(one.list()[0]?.checkpoint.size, 9);
  });

  test('a conflict with another replica ends with the newest, whoever writes last', async (t) => {
    for (const sizes of [
      [7, 9],
      [9, 7],
    ] as const) {
      const { one, other, storedSizes, lines } = await newReplicas(t);
      one.add(await cosigned(3), witness);
      await one.flush();
      one.add(await cosigned(sizes[0]), witness);
      other.add(await cosigned(sizes[1]), witness);
      await Promise.all([one.flush(), other.flush()]);
      assert.deepEqual(storedSizes(), [9]);
      assert.deepEqual(lines, []);
    }
  });

  test('a new key of the witness and a new log of the site replace those before', async (t) => {
    const { one, other, storedSizes } = await newReplicas(t);
    one.add(await cosigned(9), witness);
    await one.flush();
    const key = testSigner('bruges.example', 3);
    other.add(await cosigned(5, lubeck, key), witnessVerifier('bruges.example', key.verifier));
    await other.flush();
    assert.deepEqual(storedSizes(), [5]);
    const restored = testSigner('lubeck.example/2', 4);
    one.add(await cosigned(2, restored), witness);
    await one.flush();
    assert.deepEqual(storedSizes(), [2]);
  });

  test('a damaged record is replaced', async (t) => {
    const { one, store, storedSizes } = await newReplicas(t);
    const value = Buffer.from(JSON.stringify({ key: witness.text, note: 'no note' }));
    const place = { collection: 'audit.cosignatures', name: 'bruges.example' };
    await store.commit({ put: [{ ...place, encode: () => value }] });
    assert.deepEqual(storedSizes(), []);
    one.add(await cosigned(4), witness);
    await one.flush();
    assert.deepEqual(storedSizes(), [4]);
  });
});
