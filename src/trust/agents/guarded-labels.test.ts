import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { agentKind } from '../../api/kinds/agent.ts';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { checkGuardedFields } from '../../core/access/guarded-fields.ts';
import { clusterCaller, controllerCaller } from '../../core/access/identity.ts';
import { openScene, person } from '../../core/access/test-scene.ts';
import { hasCode } from '../../core/errors/error.ts';

const labels = { zone: 'harbour' };
const agents = { selector: { matchLabels: labels } };
const object = (metadata: object, spec: object) =>
  ({ metadata: { name: 'crane-1', ...metadata }, spec }) as never;

/** Of each kind: the field, an object with it, and one without. */
const guarded: readonly (readonly [Kind, string, never, never])[] = [
  [agentKind, 'metadata.labels', object({ labels }, {}), object({}, {})],
  [agentKind, 'spec.entriesByName', object({}, { entriesByName: true }), object({}, {})],
  [joinTokenKind, 'spec', object({}, { roles: ['agent'] }), object({}, { roles: ['bot'] })],
  [workloadEntryKind, 'spec.agents', object({}, { agents }), object({}, {})],
];

suite('what decides which machine gets an identity', () => {
  test('which machines may join is decided by who may write WorkloadEntries', async () => {
    const { authorizer, role, bind } = await openScene();
    await role('tokens', [{ kinds: ['JoinToken'], verbs: ['*'] }]);
    const cluster = clusterCaller('app1');
    await bind('tokens', {
      role: 'tokens',
      subjects: [
        { kind: 'User', name: 'bob' },
        { kind: 'User', name: cluster.user },
      ],
    });
    const token = (spec: object) => object({}, { method: 'secret', ...spec });
    const agent = token({ roles: ['agent'] });
    const bot = token({ roles: ['bot'], botName: 'ci' });
    const refused = [
      [agent, undefined],
      [token({ roles: ['bot', 'agent'], botName: 'ci' }), undefined],
      [token({ roles: ['agent'], agentName: 'crane-1' }), undefined],
      // A bot's token that becomes one for agents, and the other way round.
      [agent, bot],
      [bot, agent],
      [token({ roles: ['agent'], agentName: 'crane-2' }), agent],
      [token({ roles: ['agent'], singleUse: true }), agent],
      [token({ roles: ['agent'], spiffe: { allow: [{ spiffeID: 'spiffe://b/c' }] } }), agent],
      [token({ roles: ['agent'], labels }), agent],
    ] as const;
    for (const caller of [person('bob'), cluster]) {
      for (const [next, live] of refused) {
        assert.throws(
          () => checkGuardedFields(authorizer, caller, joinTokenKind, next, live),
          (error) =>
            hasCode(error, 'HANSA_FORBIDDEN') &&
            error.message.includes('cannot change spec: ') &&
            error.message.includes('create and update on all workloadentries'),
        );
      }
      checkGuardedFields(authorizer, caller, joinTokenKind, bot, undefined);
      checkGuardedFields(authorizer, caller, joinTokenKind, agent, agent);
      checkGuardedFields(authorizer, caller, joinTokenKind, undefined, agent);
    }
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
      checkGuardedFields(authorizer, person('bob'), kind, object({}, {}), undefined);
      checkGuardedFields(authorizer, person('bob'), kind, undefined, set);
    });
  }
});
