import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { exportLog, exportPeer } from '../../core/audit/export.ts';
import { queryLog } from '../../core/audit/query.ts';
import { rootHashAt } from '../../core/audit/proof.ts';
import { signCheckpoint } from '../../core/audit/checkpoint.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { knowsNothing } from '../../core/audit/test-verify-options.ts';
import { verifyExport, verifyProof } from '../../core/audit/verify.ts';
import { beat, testWitnessSite } from '../../peering/witness/test-witness-site.ts';
import { requireWitnesses, witnessLines, witnessNotes } from './verify-file.ts';

/** The export of a log whose peer cosigned it before the last three events. */
async function witnessed() {
  const lubeck = await testWitnessSite('lubeck.example', { seed: 1 });
  const bruges = await testWitnessSite('bruges.example', { seed: 2 });
  for (let i = 0; i < 3; i++) await beat(lubeck, bruges);
  const cosigned = lubeck.store.auditLog.size;
  await lubeck.write(3);
  const checkpoint = await lubeck.audit.checkpoint();
  const { verifier } = lubeck.publicLog;
  const pieces: Buffer[] = [];
  const notes = lubeck.publicLog.cosignatures.list();
  for await (const piece of exportLog(lubeck.store.auditLog, checkpoint, verifier, notes)) {
    pieces.push(piece);
  }
  return { lubeck, cosigned, checkpoint, verifier, text: Buffer.concat(pieces).toString('utf8') };
}

describe('verifying a witnessed log', () => {
  test('says who cosigned up to which event, and which events are not yet witnessed', async () => {
    const { text, cosigned } = await witnessed();
    const verified = await verifyExport([Buffer.from(text)], knowsNothing);
    const [first, second, ...more] = witnessLines(verified);
    assert.match(
      first ?? '',
      new RegExp(`^cosigned by bruges\\.example up to event ${cosigned - 1}, at 2026-`),
    );
    assert.equal(second, `not yet witnessed: events ${cosigned} to ${cosigned + 2}`);
    assert.deepEqual(more, []);
    assert.equal(verified.cosigned[0]?.keyIsTrusted, false);
  });

  test('trusts the keys of witnesses that the caller gives', async () => {
    const { text, lubeck } = await witnessed();
    const witnesses = lubeck.publicLog.cosignatures.list().map(({ witness }) => witness);
    const verified = await verifyExport([Buffer.from(text)], { ...knowsNothing, witnesses });
    assert.equal(verified.cosigned[0]?.keyIsTrusted, true);
  });

  test('names the cosignatures that are not by a key of the caller', async () => {
    const { text, lubeck } = await witnessed();
    const pieces = [Buffer.from(text)];
    const witnesses = lubeck.publicLog.cosignatures.list().map(({ witness }) => witness);
    const trusted = await verifyExport(pieces, { ...knowsNothing, witnesses });
    assert.deepEqual(witnessNotes(trusted), []);
    requireWitnesses(trusted, witnesses);
    const untrusted = await verifyExport(pieces, knowsNothing);
    assert.match(
      witnessNotes(untrusted).join(),
      /^The cosignature of bruges\.example was verified with the key that the log itself names/,
    );
    requireWitnesses(untrusted, []);
    assert.throws(() => requireWitnesses(untrusted, witnesses), /that bruges\.example witnessed/);
  });

  test('refuses a log that was cut below a cosigned checkpoint and signed again', async () => {
    const { text } = await witnessed();
    const short = await testWitnessSite('lubeck.example', { seed: 1 });
    const [header = '', first = ''] = text.split('\n');
    const cut = {
      ...(JSON.parse(header) as object),
      checkpoint: (await short.audit.checkpoint()).note,
    };
    await assert.rejects(
      verifyExport([Buffer.from(`${JSON.stringify(cut)}\n${first}\n`)], knowsNothing),
      /rolled back: bruges\.example has cosigned/,
    );
  });

  test('refuses a changed cosignature', async () => {
    const { text } = await witnessed();
    const [line = '', ...rest] = text.split('\n');
    const header = JSON.parse(line) as { cosigned: { note: string; key: string }[] };
    const note = header.cosigned[0]?.note ?? '';
    const at = note.lastIndexOf(' ') + 40;
    const changed = `${note.slice(0, at)}${note[at] === 'A' ? 'B' : 'A'}${note.slice(at + 1)}`;
    const forged = { ...header, cosigned: [{ ...header.cosigned[0], note: changed }] };
    await assert.rejects(
      verifyExport([Buffer.from([JSON.stringify(forged), ...rest].join('\n'))], knowsNothing),
      /the cosignature of bruges\.example is forged/,
    );
  });

  test('of no witness says so', () => {
    assert.deepEqual(witnessLines({ cosigned: [], size: 5 }), [
      'not yet witnessed: no peer has cosigned this log',
    ]);
  });
});

describe('events of one peer', () => {
  test('are those by it and about it, and can be followed', async () => {
    const { lubeck } = await witnessed();
    const log = lubeck.store.auditLog;
    const { events } = await queryLog(log, { peer: 'bruges.example', limit: 100 });
    assert.ok(events.length > 0 && events.length < log.size);
    assert.ok(events.every(({ name }) => name === 'bruges.example'));
    const none = await queryLog(log, { peer: 'bruges.exampl', limit: 100 });
    assert.deepEqual(none.events, []);
    const after = events[1]?.index ?? 0;
    const newer = await queryLog(log, { peer: 'bruges.example', limit: 100, after });
    assert.deepEqual(
      newer.events.map(({ index }) => index),
      [events[0]?.index],
    );
  });

  test('are exported with a proof each', async () => {
    const { lubeck, checkpoint, verifier } = await witnessed();
    const log = lubeck.store.auditLog;
    const lines: string[] = [];
    const size = Math.floor(log.size / 2);
    const earlier = await signCheckpoint(testSigner('lubeck.example', 1), {
      size,
      rootHash: await rootHashAt(log, size),
    });
    const of = { peer: 'bruges.example', earlierSize: size };
    for await (const piece of exportPeer(log, checkpoint, verifier, of)) {
      lines.push(piece.toString('utf8'));
    }
    assert.ok(lines.length > 0);
    for (const line of lines) {
      const { event } = verifyProof(line, { ...knowsNothing, key: verifier, earlier });
      assert.equal(event.name, 'bruges.example');
    }
  });
});
