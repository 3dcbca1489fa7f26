import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { SiteClient } from '../core/plane/site-client.ts';
import { authStatus } from './status.ts';

type Conditions = Readonly<Record<string, readonly [status: string, message: string]>>;

function clientOf(clusters: Readonly<Record<string, Conditions>>): SiteClient {
  const items = Object.entries(clusters).map(([name, conditions]) => ({
    metadata: { name },
    status: {
      conditions: Object.entries(conditions).map(([type, [status, message]]) => ({
        type,
        status,
        message,
      })),
    },
  }));
  return { list: async () => ({ items }) } as unknown as SiteClient;
}

describe('the status of a site', () => {
  test('says nothing about clusters where there are none', async () => {
    const { rows, lines } = await authStatus(clientOf({}));
    assert.deepEqual([rows, lines], [[], []]);
  });

  test('counts clusters, and those that are ready', async () => {
    const { rows, lines } = await authStatus(
      clientOf({ a: { Ready: ['True', ''] }, b: { Ready: ['Unknown', ''] }, c: {} }),
    );
    assert.deepEqual(rows, [['clusters', '3, 1 ready']]);
    assert.deepEqual(lines, []);
  });

  test('tells the most important trouble of each cluster, without control characters', async () => {
    const { lines } = await authStatus(
      clientOf({
        a: { KeysFresh: ['False', 'stale'], Ready: ['False', 'down\u001b[2J'] },
        b: { Ready: ['True', ''], CredentialFresh: ['False', 'expires soon'] },
      }),
    );
    assert.equal(lines?.length, 2);
    assert.match(lines?.[0] ?? '', /^cluster a: Ready is False\. down/);
    // oxlint-disable-next-line no-control-regex -- that is what must not be there
    assert.doesNotMatch(lines?.[0] ?? '', /\u001b/);
    assert.equal(lines?.[1], 'cluster b: CredentialFresh is False. expires soon');
  });

  test('tells that a cluster publishes the key of another, and what to do', async () => {
    const conditions = [
      { type: 'KeysFresh', status: 'True', reason: 'SharedKeys', message: 'Delete one of them.' },
    ];
    const items = [{ metadata: { name: 'a' }, status: { conditions } }];
    const { lines } = await authStatus({ list: async () => ({ items }) } as unknown as SiteClient);
    assert.deepEqual(lines, ['cluster a: KeysFresh is SharedKeys. Delete one of them.']);
  });

  test('is not filled by one kind of trouble', async () => {
    const names = Array.from({ length: 9 }, (_, number) => [
      `c${number}`,
      { Ready: ['False', 'x'] },
    ]);
    const { lines } = await authStatus(clientOf(Object.fromEntries(names) as never));
    assert.equal(lines?.length, 6);
    assert.equal(lines?.at(-1), 'and 4 more: hansa cluster list');
  });
});
