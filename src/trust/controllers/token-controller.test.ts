import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { TokenBook } from '../join/token-book.ts';
import { tokenController } from './token-controller.ts';
import { ciToken, joinSite } from '../join/test-join-site.ts';

suite('the status of a token', () => {
  const look = async (
    spec: JoinToken['spec'],
    nowMs: number,
    secretOf: readonly string[] = [],
  ): Promise<{ readonly told: readonly string[]; readonly requeueAfterMs: number | undefined }> => {
    const site = await joinSite();
    try {
      const { metadata } = await site.createToken('t', spec);
      if (secretOf.length > 0) {
        const record = { uid: metadata.uid, digest: '00', roles: secretOf, createdAtMs: 0 };
        const bytes = Buffer.from(JSON.stringify(record));
        await site.store.commit({
          put: [{ collection: 'trust.join-secrets', name: 't', encode: () => bytes }],
        });
      }
      const controller = tokenController({
        store: site.store,
        clock: {
          now: () => nowMs,
          timer: () => ({ cancel: () => undefined }),
          monotonic: () => 0,
        },
        resources: site.resources,
        tokens: new TokenBook(site.store),
      });
      const result = await controller.reconcile('t', { epoch: undefined } as never);
      const conditions = (await site.tokenStatus('t'))?.conditions;
      const told = ['Ready', 'Expired'].map((type) => {
        const found = findCondition(conditions, type);
        return `${type} ${found?.status} ${found?.reason}`;
      });
      return { told, requeueAfterMs: result?.requeueAfterMs };
    } finally {
      await site.stop();
    }
  };
  const nowMs = Date.UTC(2026, 0);
  const secret = { method: 'secret', roles: ['agent'] } as const;

  test('is ready while it works, and looked at again when it expires', async () => {
    const expiresAt = '2026-01-01T01:00:00Z';
    assert.deepEqual(await look({ ...ciToken, expiresAt }, nowMs), {
      told: ['Ready True Usable', 'Expired False Current'],
      requeueAfterMs: 3_600_000,
    });
    assert.deepEqual(await look(ciToken, nowMs), {
      told: ['Ready True Usable', 'Expired False Current'],
      requeueAfterMs: undefined,
    });
  });

  test('is expired at the very moment', async () => {
    const expiresAt = '2026-01-01T00:00:00Z';
    assert.deepEqual(await look({ ...ciToken, expiresAt }, nowMs), {
      told: ['Ready False Expired', 'Expired True Expired'],
      requeueAfterMs: undefined,
    });
  });

  test('waits for its secret', async () => {
    const spec = { ...secret, expiresAt: '2027-01-01T00:00:00Z' };
    assert.equal((await look(spec, nowMs)).told[0], 'Ready False SecretMissing');
    assert.equal((await look(spec, nowMs, ['agent'])).told[0], 'Ready True Usable');
    // It became a token for agents after its secret was created.
    assert.equal((await look(spec, nowMs, ['bot'])).told[0], 'Ready False SecretMissing');
  });
});

test('the secret of a token goes with it, and not that of a token which took its place', async () => {
  const site = await joinSite();
  const spec = {
    method: 'secret',
    roles: ['agent'],
    expiresAt: '2027-01-01T00:00:00Z',
  } as const satisfies JoinToken['spec'];
  const collection = 'trust.join-secrets';
  const make = async (): Promise<void> => {
    const { metadata } = await site.createToken('t', spec);
    const bytes = Buffer.from(
      JSON.stringify({ uid: metadata.uid, digest: '00', roles: ['bot'], createdAtMs: 0 }),
    );
    await site.store.commit({ put: [{ collection, name: 't', encode: () => bytes }] });
  };
  const { store, clock, resources } = site;
  const controller = tokenController({ store, clock, resources, tokens: new TokenBook(store) });
  const look = () => controller.reconcile('t', { epoch: undefined } as never);
  try {
    await make();
    await look();
    assert.ok(store.get(collection, 't'));
    await resources(joinTokenKind).delete('t', { controller: 'test' });
    await look();
    assert.equal(store.get(collection, 't'), undefined);
    await make();
    await look();
    assert.ok(store.get(collection, 't'));
  } finally {
    await site.stop();
  }
});
