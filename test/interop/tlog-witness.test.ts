// A C2SP witness written by others (github.com/transparency-dev/witness, add-checkpoint of tlog-witness) judges
// checkpoints and consistency proofs of an audit log. Its cosignatures verify in `hansa audit verify`.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import {
  parseCheckpoint,
  type SignedCheckpoint,
  signCheckpoint,
} from '../../src/core/audit/checkpoint.ts';
import { parseWitnessVerifier, verifyCosignature } from '../../src/core/audit/cosignature.ts';
import { exportLog } from '../../src/core/audit/export.ts';
import { Audit } from '../../src/core/audit/log.ts';
import { testSigner } from '../../src/core/audit/test-signer.ts';
import { VirtualClock } from '../../src/core/clock/virtual.ts';
import { silentLog } from '../../src/core/log/test-log.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { openStore } from '../../src/core/store/open.ts';
import type { Store } from '../../src/core/store/store.ts';
import { judge } from '../../src/peering/witness/judge.ts';
import { hansa, temporaryFolder } from '../e2e/daemon.ts';
import { endProgram } from './program.ts';
import { missingTools, requireTool } from './tool.ts';

const skip = await missingTools('tlog-witness');
const signer = testSigner('lubeck.example', 1);

interface Head {
  readonly checkpoint: SignedCheckpoint;
  /** From the size before it. */
  readonly proof: readonly Buffer[];
}

describe('a witness of transparency-dev', { skip }, () => {
  let program: ChildProcess;
  let url: string;
  let key: string;
  let store: Store;
  const heads: Head[] = [];

  before(async () => {
    const clock = new VirtualClock(Date.UTC(2026, 0, 1));
    store = await openStore({ driver: 'memory' }, { clock });
    const metrics = new MetricsRegistry();
    const audit = new Audit({ store, clock, signer, log: silentLog, metrics });
    await audit.start();
    // Sizes around powers of two and of stored subtrees.
    for (const size of [1, 2, 3, 7, 8, 9, 64, 100, 255, 256, 257, 400]) {
      const from = store.auditLog.size;
      const rows = Array.from({ length: size - from }, () =>
        audit.record({
          actor: { user: 'alice', groups: [], via: 'certificate' },
          verb: 'create',
          outcome: 'allow',
        }),
      );
      await store.commit({ audit: rows });
      await audit.checkpoint();
      heads.push(await audit.proveConsistency(from));
    }
    program = spawn(await requireTool('tlog-witness'), [signer.verifier.text], {
      // It logs what it refuses, which is what the tests send.
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const lines = createInterface({ input: program.stdout as NodeJS.ReadableStream });
    const [line] = (await once(lines, 'line')) as [string];
    ({ url, key } = JSON.parse(line) as { readonly url: string; readonly key: string });
  });
  after(async () => {
    await endProgram(program);
    await store.close();
  });

  /** The request of add-checkpoint: the size that the witness holds, the proof, and the note. */
  async function add(
    old: number,
    { checkpoint, proof }: Head,
  ): Promise<{ readonly status: number; readonly text: string }> {
    const hashes = proof.map((hash) => `${hash.toString('base64')}\n`);
    const body = `old ${old}\n${hashes.join('')}\n${checkpoint.note}`;
    const answer = await fetch(url, { method: 'POST', body });
    return { status: answer.status, text: await answer.text() };
  }

  test('cosigns every checkpoint with its proof, and the cosignatures verify here', async () => {
    let held = 0;
    for (const head of heads) {
      const { status, text } = await add(held, head);
      assert.equal(status, 200, `${held} to ${head.checkpoint.size}`);
      const cosigned = parseCheckpoint(head.checkpoint.note + text);
      const { witness } = verifyCosignature(cosigned, parseWitnessVerifier(key)) ?? {};
      assert.equal(witness, 'witness.example');
      held = head.checkpoint.size;
    }
    assert.equal(held, 400);
  });

  test('refuses what our own witness refuses', async () => {
    const last = heads.at(-1) as Head;
    const more = { size: 500, rootHash: Buffer.alloc(32, 7) };
    const forked = await signCheckpoint(signer, { size: 400, rootHash: Buffer.alloc(32, 7) });
    const grown = await signCheckpoint(signer, more);
    const smaller = (heads.at(-2) as Head).checkpoint;
    const cases: readonly (readonly [SignedCheckpoint, readonly Buffer[], number, number])[] = [
      [last.checkpoint, [], 400, 200],
      // Another root of the same size, a proof that proves nothing, one of the wrong size, none.
      [forked, [], 400, 409],
      [grown, last.proof, 400, 422],
      [grown, last.proof.slice(1), 400, 422],
      [grown, [], 400, 422],
      // A log that shrank, honest about what the witness holds or not.
      [smaller, [], 400, 400],
      [smaller, [], smaller.size, 409],
    ];
    const held = { size: 400, rootHash: last.checkpoint.rootHash };
    for (const [i, [checkpoint, proof, old, status]] of cases.entries()) {
      const answer = await add(old, { checkpoint, proof });
      assert.equal(answer.status, status, `case ${i}`);
      // With 409 it tells the size that it holds.
      if (old === smaller.size) assert.equal(answer.text, '400\n');
      const { kind } = judge(held, checkpoint, [{ from: 400, hashes: proof }], true);
      assert.equal(kind, status === 200 ? 'unchanged' : 'contradicts', `case ${i}`);
    }
    const foreign = await signCheckpoint(testSigner('novgorod.example', 1), more);
    assert.equal((await add(400, { checkpoint: foreign, proof: [] })).status, 404);
    const forged = await signCheckpoint(testSigner('lubeck.example', 9), more);
    assert.notEqual((await add(400, { checkpoint: forged, proof: [] })).status, 200);
  });

  test('is named by hansa audit verify, with its key from elsewhere', async () => {
    const { checkpoint } = heads.at(-1) as Head;
    const { text } = await add(400, { checkpoint, proof: [] });
    const note = parseCheckpoint(checkpoint.note + text);
    const witness = parseWitnessVerifier(key);
    const { timeSeconds } = verifyCosignature(note, witness) ?? {};
    assert.ok(timeSeconds !== undefined);
    const pieces = [];
    const cosigned = [{ witness, checkpoint: note, timeSeconds }];
    const { auditLog } = store;
    for await (const piece of exportLog(auditLog, checkpoint, signer.verifier, cosigned)) {
      pieces.push(piece);
    }
    const folder = temporaryFolder();
    const file = join(folder, 'lubeck.audit');
    writeFileSync(file, Buffer.concat(pieces));
    const flags = ['--key', signer.verifier.text, '--witness', key];
    const { code, stdout, stderr } = await hansa(['audit', 'verify', file, ...flags]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /cosigned by witness\.example up to event 399, at /);
    const json = await hansa(['audit', 'verify', file, ...flags, '-o', 'json']);
    const { cosigned: told } = JSON.parse(json.stdout) as {
      readonly cosigned: readonly { readonly keyIsTrusted: boolean }[];
    };
    assert.deepEqual(
      told.map(({ keyIsTrusted }) => keyIsTrusted),
      [true],
    );
    // Another site has not cosigned it.
    const other = ['--witness', signer.verifier.text];
    assert.equal((await hansa(['audit', 'verify', file, ...flags, ...other])).code, 11);
    // The cosignature of another size is refused.
    const changed = Buffer.concat(pieces)
      .toString('utf8')
      .replace('example\\n400\\n', 'example\\n399\\n');
    writeFileSync(file, changed);
    assert.equal((await hansa(['audit', 'verify', file, ...flags])).code, 11);
  });
});
