// The address and the bundle of the site in the folder of a member. Other changes are tested with the
// commands that make them.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { JoinFolder } from './join-folder.ts';
import { readBundle } from './join-server.ts';

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

test('the bundle in the folder of a member is written only where it changed', async () => {
  const folder = await joined(join(base, 'bundle'));
  const path = join(folder.path, 'bundle.pem');
  const lubeck = TrustDomain.parse('lubeck.example');
  const { authorities } = readBundle(folder.read('bundle.pem'), lubeck, 'bundle.pem');
  const { ino } = statSync(path);
  // Stands in the way of a write.
  mkdirSync(join(`${path}.next`, 'x'), { recursive: true });
  folder.keepBundle(new Bundle(lubeck, authorities));
  assert.equal(statSync(path).ino, ino);
  rmSync(`${path}.next`, { recursive: true });
  const next = new Bundle(lubeck, [...authorities, forgeRoot('lubeck.example').certificate]);
  folder.keepBundle(next);
  assert.equal(folder.read('bundle.pem'), next.pem);
});
