// Cosignatures that a peer sends of the log of this site: only the newest valid one of that peer is kept.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { signCheckpoint } from '../../core/audit/checkpoint.ts';
import { withSignatures, witnessVerifier } from '../../core/audit/cosignature.ts';
import { signaturesBy } from '../../core/audit/note.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { acquainted, beat, finding, overWire, testWitnessSite } from './test-witness-site.ts';

async function pair() {
  const lubeck = await testWitnessSite('lubeck.example', { seed: 1 });
  const bruges = await testWitnessSite('bruges.example', { seed: 2 });
  return { lubeck, bruges };
}

describe('cosignatures', () => {
  test('that are replayed or of another witness are not taken', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const old = await bruges.witness.part(lubeck.name);
    await lubeck.write(5);
    await beat(lubeck, bruges);
    await beat(lubeck, bruges);
    const newest = lubeck.publicLog.cosignatures.list();
    const uid = await lubeck.addPeer(bruges.name);
    await lubeck.witness.heard({ name: bruges.name, uid }, overWire(old));
    assert.deepEqual(lubeck.publicLog.cosignatures.list(), newest);

    // Another peer sends the cosignature of bruges as its own.
    const novgorod = await testWitnessSite('novgorod.example', { seed: 3 });
    await beat(lubeck, novgorod);
    const theirs = await bruges.witness.part(lubeck.name);
    await beat(novgorod, lubeck, (part) => ({
      ...part,
      ...(theirs.held && { held: theirs.held }),
    }));
    assert.ok(
      !lubeck.publicLog.cosignatures.list().some(({ witness }) => witness.name === novgorod.name),
    );
  });

  test('that are forged, or copied from an earlier checkpoint, are refused and audited', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const key = witnessVerifier(bruges.name, bruges.publicLog.verifier);
    const good = lubeck.publicLog.cosignatures.list();
    const [copied] = signaturesBy(good[0]?.checkpoint ?? assert.fail(), key);
    const { name, keyId } = key;
    const forged = { name, keyId, signature: Buffer.alloc(72, 1) };
    await lubeck.write(5);
    const newest = await lubeck.audit.checkpoint();
    for (const [at, signature] of [forged, copied ?? assert.fail()].entries()) {
      const held = withSignatures(newest, [signature]);
      await beat(bruges, lubeck, (part) => ({ ...part, held }));
      assert.deepEqual(lubeck.publicLog.cosignatures.list(), good);
      // Equal denials of a minute are one record.
      await lubeck.clock.advance(60_000);
      const rows = await lubeck.events('witness.refuse');
      assert.equal(rows.length, at + 1);
      assert.equal(rows.at(-1)?.actor.user, 'spiffe://bruges.example/hansa/site');
      assert.match(rows.at(-1)?.reason ?? '', /cosignature of bruges\.example is forged/);
    }
    assert.equal(lubeck.audit.problem, undefined);
  });

  test('of a checkpoint that this site never signed are refused and audited', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const forged = await signCheckpoint(testSigner(lubeck.name, 8), {
      size: 9999,
      rootHash: Buffer.alloc(32, 1),
    });
    await beat(bruges, lubeck, (part) => ({ ...part, held: forged }));
    assert.equal(lubeck.audit.problem, undefined);
    const [row] = await lubeck.events('witness.refuse');
    assert.equal(row?.outcome, 'deny');
    assert.match(row.reason ?? '', /no signature by the key/);
  });

  test('that are refused do not keep this site from judging the log of the sender', async () => {
    const { lubeck, bruges } = await pair();
    await acquainted(lubeck, bruges);
    const rootHash = Buffer.alloc(32, 1);
    const held = await signCheckpoint(testSigner(lubeck.name, 8), { size: 9999, rootHash });
    const { size } = bruges.store.auditLog;
    const checkpoint = await signCheckpoint(testSigner(bruges.name, 2), { size, rootHash });
    await beat(bruges, lubeck, (part) => ({ ...part, held, checkpoint }));
    assert.equal((await lubeck.events('witness.refuse')).length, 1);
    assert.equal(finding(lubeck, bruges.name), 'Forked');
    assert.equal(await lubeck.condition(bruges.name), 'Forked');
  });
});
