import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { agentKind } from '../../api/kinds/agent.ts';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { checkGuardedFields } from '../../core/access/guarded-fields.ts';
import { controllerCaller } from '../../core/access/identity.ts';
import { openScene, person } from '../../core/access/test-scene.ts';
import { hasCode } from '../../core/errors/error.ts';

const labels = { zone: 'harbour' };
const agents = { selector: { matchLabels: labels } };
const object = (metadata: object, spec: object) =>
  ({ metadata: { name: 'crane-1', ...metadata }, spec }) as never;

/** Of each kind: the field, an object with it, and one without. */
const guarded: readonly (readonly [Kind, string, never, never])[] = [
  [agentKind, 'metadata.labels', object({ labels }, {}), object({}, {})],
  [joinTokenKind, 'spec.labels', object({}, { labels }), object({}, {})],
  [workloadEntryKind, 'spec.agents', object({}, { agents }), object({}, {})],
];

suite('what decides which machine gets an identity', () => {
  test('who may join with a token that has labels is decided by who may set them', async () => {
    const { authorizer, role, bind } = await openScene();
    await role('tokens', [{ kinds: ['JoinToken'], verbs: ['*'] }]);
    await bind('tokens', { role: 'tokens', subjects: [{ kind: 'User', name: 'bob' }] });
    const rule = (spiffeID: string) => ({ spiffe: { allow: [{ spiffeID }] } });
    const ours = rule('spiffe://lubeck.example/cranes/*');
    const bobs = rule('spiffe://lubeck.example/bob');
    const change = (next: object, live: object): void =>
      checkGuardedFields(
        authorizer,
        person('bob'),
        joinTokenKind,
        object({}, next),
        object({}, live),
      );
    assert.throws(
      () => change({ labels, ...bobs }, { labels, ...ours }),
      (error) => hasCode(error, 'HANSA_FORBIDDEN') && error.message.includes('cannot change spec'),
    );
    change({ labels, ...ours }, { labels, ...ours });
    change(bobs, ours);
    change({ labels: {}, ...bobs }, { labels: {}, ...ours });
  });

  for (const [kind, field, set, unset] of guarded) {
    test(`${field} of ${kind.kind} needs the right to write all WorkloadEntries`, async () => {
      const { authorizer, role, bind } = await openScene();
      await role('entries', [{ kinds: ['WorkloadEntry'], verbs: ['create', 'update'] }]);
      await bind('entries', { role: 'entries', subjects: [{ kind: 'User', name: 'ada' }] });
      // All of the kind itself, and single entries.
      await role('kind', [
        { kinds: ['Agent', 'JoinToken'], verbs: ['*'] },
        { kinds: ['WorkloadEntry'], verbs: ['*'], names: ['crane-1'] },
      ]);
      await bind('kind', { role: 'kind', subjects: [{ kind: 'User', name: 'bob' }] });
      const changes = [
        [set, undefined],
        [set, unset],
        [unset, set],
      ] as const;
      for (const [next, live] of changes) {
        checkGuardedFields(authorizer, person('ada'), kind, next, live);
        checkGuardedFields(authorizer, controllerCaller('agents'), kind, next, live);
        assert.throws(
          () => checkGuardedFields(authorizer, person('bob'), kind, next, live),
          (error) => hasCode(error, 'HANSA_FORBIDDEN') && error.message.includes(field),
        );
      }
      checkGuardedFields(authorizer, person('bob'), kind, set, set);
      checkGuardedFields(authorizer, person('bob'), kind, unset, undefined);
      checkGuardedFields(authorizer, person('bob'), kind, undefined, set);
    });
  }
});
