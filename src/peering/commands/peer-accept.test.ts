import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { Acceptance } from '../handshake/acceptance.ts';
import { acceptShowing, stepLines } from './peer-accept.ts';

suite('the steps of an acceptance', () => {
  test('are shown one a line, with outcome, need and message', () => {
    const at = '2026-01-01T00:00:00Z';
    assert.deepEqual(
      stepLines({
        steps: [
          { step: 'contract', need: 'hard', outcome: 'done', message: 'version 1', at },
          { step: 'invitation', need: 'hard', outcome: 'done', at },
          { step: 'attach', need: 'soft', outcome: 'skipped', message: 'no overlay', at },
          { step: 'governance', need: 'soft', outcome: 'failed', message: 'no answer', at },
        ],
      }),
      [
        '  ✓ contract    hard  version 1',
        '  ✓ invitation  hard',
        '  – attach      soft  no overlay',
        '  ✗ governance  soft  no answer',
      ],
    );
    assert.deepEqual(stepLines(undefined), []);
  });

  /** A site that takes three steps, and can be watched or not. */
  const accepting = async (isWatched: boolean): Promise<readonly string[]> => {
    const at = '2026-01-01T00:00:00Z';
    const names = ['contract', 'invitation', 'accept'] as const;
    const acceptanceAfter = (count: number): Acceptance => ({
      steps: names.slice(0, count).map((step) => ({ step, need: 'hard', outcome: 'done', at })),
    });
    const said: string[] = [];
    const watched = Promise.withResolvers<void>();
    const client = {
      async *watch() {
        if (!isWatched) throw new Error('forbidden');
        for (const invitation of ['earlier', 'this']) {
          for (let count = 1; count < names.length; count++) {
            yield { object: { status: { invitation, acceptance: acceptanceAfter(count) } } };
          }
        }
        watched.resolve();
      },
      request: async () => {
        if (isWatched) await watched.promise;
        said.push('the site has answered');
        return { body: { name: 'lubeck.example', acceptance: acceptanceAfter(names.length) } };
      },
    } as unknown as SiteClient;
    const kit = { note: (line: string) => void said.push(line) } as unknown as CommandKit;
    const preview = { trustDomain: 'lubeck.example', invitation: 'this' };
    await acceptShowing(kit, client, 'hansa1.x', preview as Parameters<typeof acceptShowing>[3]);
    return said.map((line) => line.trim());
  };

  test('are shown while the site takes them, each once', async () => {
    assert.deepEqual(await accepting(true), [
      '✓ contract    hard',
      '✓ invitation  hard',
      'the site has answered',
      '✓ accept      hard',
    ]);
  });

  test('are shown at the end to a user who may not watch peers', async () => {
    assert.deepEqual(await accepting(false), [
      'the site has answered',
      '✓ contract    hard',
      '✓ invitation  hard',
      '✓ accept      hard',
    ]);
  });
});
