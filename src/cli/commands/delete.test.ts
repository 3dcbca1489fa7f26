import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { roleKind } from '../../api/kinds/role.ts';
import { allPlanes } from '../../test-planes.ts';
import { deleteQuestion } from './delete.ts';

/** As the planes of the program tell it. */
const effects = allPlanes.flatMap(({ deletion }) => deletion ?? []);
const peer = (name: string) => ({ kind: federationPeerKind, name });
const role = (name: string) => ({ kind: roleKind, name });

suite('hansa delete', () => {
  test('asks nothing before one object that revokes nothing', () => {
    assert.equal(deleteQuestion([role('auditors')], effects), undefined);
  });

  test('asks before several objects, with their names', () => {
    assert.equal(
      deleteQuestion([role('a'), role('b')], effects),
      'Delete 2 objects (role.hansa.dev/a, role.hansa.dev/b)?',
    );
  });

  test('says what ends before one peer', () => {
    assert.equal(
      deleteQuestion([peer('reval.example')], effects),
      'Delete federationpeer.hansa.dev/reval.example? Its workloads and yours immediately stop trusting each other.',
    );
  });

  test('names the peers among several objects', () => {
    assert.match(
      deleteQuestion([role('a'), peer('reval.example'), peer('bruges.example')], effects) ?? '',
      /^Delete 3 objects \(.*\)\? The workloads of reval\.example, bruges\.example and yours immediately stop/,
    );
  });
});
