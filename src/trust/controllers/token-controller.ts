// Writes the status of a JoinToken: whether it can be used now, and who used a single-use token. It
// reconciles again at expiry, and deletes the digest of the secret and the use with the token.

import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { timestamp } from '../../api/object.ts';
import { hasCode } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type ConditionUpdate, setCondition } from '../../core/reconcile/conditions.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { Commit } from '../../core/store/store.ts';
import {
  secretsCollection,
  type TokenBook,
  tokensCollection,
  type TokenUse,
  usesCollection,
} from '../join/token-book.ts';

type Parts = Pick<PlaneContext, 'store' | 'clock' | 'resources'> & { readonly tokens: TokenBook };

const controllerName = 'join-tokens';
const leaseName = 'controller.join-tokens';

export function tokenController({ store, clock, resources, tokens }: Parts): Controller {
  const client = resources<JoinToken>(joinTokenKind);
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection: tokensCollection }),
      new StoreSource({ store, clock, collection: secretsCollection }),
      new StoreSource({ store, clock, collection: usesCollection }),
    ],
    reconcile: async (name, { epoch }) => {
      const nowMs = clock.now();
      const fence = epoch === undefined ? {} : { fence: { lease: leaseName, epoch } };
      let expiresAtMs: number | undefined;
      const token = await client.patchStatus(
        name,
        ({ metadata, spec, status }) => {
          expiresAtMs = spec.expiresAt === undefined ? undefined : Date.parse(spec.expiresAt);
          const expired = expiresAtMs !== undefined && nowMs >= expiresAtMs;
          const secretMissing = spec.method === 'secret' && tokens.secret(name) === undefined;
          const { uid } = metadata;
          const use = tokens.use({ name, uid, singleUse: spec.singleUse === true });
          let { conditions } = status ?? {};
          for (const each of conditionsOf(spec, expired, secretMissing, use)) {
            const observedGeneration = metadata.generation;
            conditions = setCondition(conditions, { ...each, observedGeneration }, nowMs);
          }
          return { ...status, ...(conditions === undefined ? {} : { conditions }) };
        },
        { controller: controllerName, ...fence },
      );
      if (token === undefined) await forgetRecords(store, name, fence);
      if (expiresAtMs === undefined || expiresAtMs <= nowMs) return undefined;
      return { requeueAfterMs: expiresAtMs - nowMs };
    },
  };
}

async function forgetRecords(
  store: Parts['store'],
  name: string,
  fence: Pick<Commit, 'fence'>,
): Promise<void> {
  const kept = [secretsCollection, usesCollection].flatMap(
    (collection) => store.get(collection, name) ?? [],
  );
  if (kept.length === 0) return;
  await commitFenced(store, {
    expect: [
      // A new token of the same name may have its own secret and use.
      { collection: tokensCollection, name, at: 'absent' },
      ...kept.map(({ collection, revision: at }) => ({ collection, name, at })),
    ],
    delete: kept.map(({ collection }) => ({ collection, name })),
    ...fence,
  }).catch((error: unknown) => {
    // The change triggers its own reconciliation.
    if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
  });
}

function conditionsOf(
  spec: JoinToken['spec'],
  expired: boolean,
  secretMissing: boolean,
  use: TokenUse | undefined,
): readonly ConditionUpdate[] {
  const until = spec.expiresAt === undefined ? 'until it is deleted' : `until ${spec.expiresAt}`;
  const ready: Omit<ConditionUpdate, 'type'> = expired
    ? { status: 'False', reason: 'Expired', message: `The token expired at ${spec.expiresAt}.` }
    : use !== undefined
      ? {
          status: 'False',
          reason: 'Used',
          message: `The token is single-use, and ${use.instance} used it at ${timestamp(use.atMs)}.`,
        }
      : secretMissing
        ? {
            status: 'False',
            reason: 'SecretMissing',
            message:
              'The token has no secret, or got another role after its secret was created. Create one with: hansa join token secret NAME',
          }
        : {
            status: 'True',
            reason: 'Usable',
            message: `The token admits callers with a valid proof as ${spec.roles.join(' or ')} ${until}.`,
          };
  return [
    { type: 'Ready', ...ready },
    {
      type: 'Expired',
      status: expired ? 'True' : 'False',
      reason: expired ? 'Expired' : 'Current',
      message: expired ? `The token expired at ${spec.expiresAt}.` : `The token is valid ${until}.`,
    },
  ];
}
