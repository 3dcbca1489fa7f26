// Applies every manifest under examples/ to a site, unchanged.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { allKinds } from '../../src/test-planes.ts';
import { type Daemon, hansa, repository, startDaemon, temporaryFolder } from './daemon.ts';

/**
 * No manifests of a site: a configuration, an Envoy's, those of clusters, and what is wrong on purpose. Each has a
 * test elsewhere.
 */
const others = /^(?:config\.yaml$|envoy\/|league\/|bad\/)/;
const examples = readdirSync(join(repository, 'examples'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.yaml') && !others.test(path))
  .toSorted();

/** Peers are made by invitations alone, and Approvals by the site. */
const notWritten = ['FederationPeer', 'Approval'];

suite('the manifests in examples', () => {
  const folder = temporaryFolder();
  const sites: Daemon[] = [];
  before(async () => {
    const bruges = ['--trust-domain', 'bruges.example'];
    const files = ['--auth-credentials-dir', '/etc/kube-fed/clusters'];
    sites.push(await startDaemon(join(folder, 'lubeck'), files));
    sites.push(await startDaemon(join(folder, 'bruges'), bruges));
    const novgorod = ['--trust-domain', 'novgorod.example'];
    sites.push(await startDaemon(join(folder, 'novgorod'), novgorod));
  });
  after(() => Promise.all(sites.map((site) => site.signal('SIGTERM'))));

  for (const path of examples) {
    test(`${path} is accepted, and nothing in it is left out`, async () => {
      const name = ['bruges', 'novgorod'].find((one) => path.includes(one)) ?? 'lubeck';
      const site = join(folder, name);
      const file = join('examples', path);
      const { code, stdout, stderr } = await hansa(['apply', '-f', file, '--data-dir', site]);
      assert.equal(code, 0, stderr);
      // A grant may come before the peer and the offer that it names, and says so.
      const warnings = stderr
        .split('\n')
        .filter((line) => !/ (?:not a peer|no Serv\w+) .* ?yet;/.test(line));
      assert.equal(warnings.join('\n'), '', 'no other warnings');
      const documents = parseAllDocuments(readFileSync(join(repository, file), 'utf8'));
      assert.equal(stdout.trim().split('\n').length, documents.reduce(countObjects, 0), stdout);
    });
  }

  test('are of every kind that people write', () => {
    const text = examples.map((path) => readFileSync(join(repository, 'examples', path), 'utf8'));
    const missing = allKinds
      .map(({ kind }) => kind)
      .filter((kind) => !notWritten.includes(kind))
      .filter((kind) => !new RegExp(`^kind: ${kind}$`, 'm').test(text.join('\n')));
    assert.deepEqual(missing, []);
  });
});

/** The configuration of kube-federated-auth has one object for each cluster, other documents are one object. */
function countObjects(sum: number, document: { toJS(): unknown }): number {
  const { clusters } = document.toJS() as { readonly clusters?: object };
  return sum + (clusters === undefined ? 1 : Object.keys(clusters).length);
}
