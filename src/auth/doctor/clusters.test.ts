import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { judgeClusters } from './clusters.ts';

const cluster = (name: string, conditions: Readonly<Record<string, string>>) =>
  ({
    metadata: { name },
    spec: {},
    status: {
      conditions: Object.entries(conditions).map(([type, status]) => ({
        type,
        status,
        message: `${type} of ${name}.`,
      })),
    },
  }) as unknown as Cluster;

suite('the clusters in hansa doctor', () => {
  test('are not mentioned where there are none', () => {
    assert.deepEqual(judgeClusters([]), []);
  });

  test('are counted where all is well', () => {
    const [a, b] = [cluster('a', { Ready: 'True' }), cluster('b', { Ready: 'True' })];
    assert.deepEqual(judgeClusters([a, b]), [{ check: 'clusters', level: 'ok', text: '2 ready' }]);
    // Registered a moment ago.
    const young = cluster('c', {});
    assert.equal(judgeClusters([a, young])[0]?.text, '1 of 2 ready');
  });

  test('that cannot review are problems, first, and others that need an operator are warnings', () => {
    const findings = judgeClusters([
      cluster('a', { Ready: 'True', CredentialFresh: 'False' }),
      cluster('b', { Ready: 'False', Reachable: 'False' }),
    ]);
    assert.deepEqual(
      findings.map(({ level, text }) => [level, text]),
      [
        ['problem', 'b is not ready'],
        ['warning', 'a: CredentialFresh is False'],
      ],
    );
    assert.equal(findings[0]?.remedy, 'Ready of b. For every step: hansa doctor --cluster b');
  });

  test('do not hide other findings, however many there are', () => {
    const many = Array.from({ length: 30 }, (_, index) => cluster(`c${index}`, { Ready: 'False' }));
    const findings = judgeClusters(many);
    assert.equal(findings.length, 6);
    assert.equal(findings.at(-1)?.text, 'and 25 more');
  });

  test('cannot write control characters to the terminal', () => {
    const [finding] = judgeClusters([
      {
        ...cluster('a', {}),
        status: { conditions: [{ type: 'Ready', status: 'False', message: '\u001b[2J' }] },
      } as unknown as Cluster,
    ]);
    assert.ok(!finding?.remedy?.includes('\u001b'));
  });
});
