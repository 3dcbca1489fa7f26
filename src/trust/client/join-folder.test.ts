// The address of the site in the folder of a member. Other changes of the folder are tested with the
// commands that make them.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { JoinFolder } from './join-folder.ts';

const base = mkdtempSync(join(tmpdir(), 'hansa-join-folder-'));
after(() => rmSync(base, { recursive: true, force: true }));

const root = forgeRoot('lubeck.example');
const id = SpiffeId.parse('spiffe://lubeck.example/hansa/agent/crane-1');

async function joined(path: string): Promise<JoinFolder> {
  const folder = new JoinFolder(path);
  await folder.nextKey(new SeededRandom('key'));
  const { certificate } = forgeLeaf(root, id.toString());
  folder.keep(
    {
      id,
      chain: [certificate],
      bundle: new Bundle(TrustDomain.parse('lubeck.example'), [root.certificate]),
      instance: 'agent/crane-1',
      generation: 1n,
      notAfterMs: certificate.notAfterMs,
      reattestSeconds: 0,
    },
    new URL('https://lubeck.example:8443'),
  );
  return folder;
}

suite('the address of the site in the folder of a member', () => {
  test('changes alone, and stays for the next start', async () => {
    const folder = await joined(join(base, 'moved'));
    const before = folder.membership;
    folder.keepServer(new URL('https://harbour.example:9443/path'));
    assert.deepEqual(new JoinFolder(folder.path).membership, {
      ...before,
      server: 'https://harbour.example:9443',
    });
    assert.deepEqual(
      readdirSync(folder.path).filter((name) => !/^(svid|bundle|join)\.[a-z]+$/.test(name)),
      [],
    );
  });

  test('does not complete a renewal whose response is missing', async () => {
    const folder = await joined(join(base, 'renewing'));
    const key = folder.read('svid.key');
    await folder.nextKey(new SeededRandom('next'));
    folder.keepServer(new URL('https://harbour.example:9443'));
    const again = new JoinFolder(folder.path);
    assert.equal(again.read('svid.key'), key);
    assert.ok(existsSync(join(folder.path, 'svid.key.next')));
  });

  test('is not written to a folder without a member', () => {
    const folder = new JoinFolder(join(base, 'none'));
    folder.keepServer(new URL('https://harbour.example:9443'));
    assert.equal(existsSync(folder.path), false);
  });
});
