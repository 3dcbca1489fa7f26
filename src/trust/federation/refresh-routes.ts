// The route behind `hansa trust refresh` and `hansa trust bundle bootstrap`. It needs the right to
// update the federation, and writes an audit record.

import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../api/object.ts';
import { changeDraft } from '../../core/access/audit-draft.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { objectOf } from '../../core/json/json-body.ts';
import { sourceOf } from '../../api/bundle-life.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type ApiRequest, type PlaneRoute, route } from '../../core/plane/route.ts';
import { pendingRefresh, refreshCollection, type RefreshRequest } from './refresh-request.ts';
import { trustPaths } from '../paths.ts';

const path = trustPaths.refresh;
type Request = ApiRequest<typeof path>;
const maxBodyBytes = 4096;
/** Longer than the timeout of a fetch, shorter than the timeout of clients. */
const longestWaitSeconds = 30;

type Parts = Pick<PlaneContext, 'store' | 'clock' | 'audit' | 'resources'>;

/** The response of the API. */
export interface RefreshAnswer {
  readonly trustDomain: string;
  /** Whether the fetch has ended; false if the controller has not handled the request yet. */
  readonly done: boolean;
  readonly status: SPIFFEFederation['status'];
}

export function refreshRoutes(parts: Parts): readonly PlaneRoute[] {
  return [
    route({
      listener: 'api',
      method: 'POST',
      path,
      allow: 'rights',
      rights: [{ verb: 'update', kind: spiffeFederationKind, nameFrom: 'name' }],
      handle: async (request) => ({
        status: 200,
        contentType: 'application/json',
        body: JSON.stringify(await refresh(parts, request)),
      }),
    }),
  ];
}

async function refresh(parts: Parts, request: Request): Promise<RefreshAnswer> {
  const { name } = request.params;
  const federations = parts.resources<SPIFFEFederation>(spiffeFederationKind);
  const wish = await request.json(maxBodyBytes, wishOf);
  const federation = await federations.get(name);
  if (federation === undefined) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `This site has no SPIFFEFederation ${name}. List them with: hansa trust status`,
    );
  }
  if (wish.rebootstrap && sourceOf(federation) !== 'https_spiffe') {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot bootstrap ${name}: only a federation with httpsSpiffe has a bootstrap bundle.`,
    );
  }
  await ask(parts, request, wish);
  const done = await gone(parts, name, wish.waitSeconds);
  return { trustDomain: name, done, status: (await federations.get(name))?.status };
}

/** Merges with a pending request of another operator, also with a concurrent one. */
async function ask(
  { store, clock, audit }: Parts,
  { caller, params: { name }, address }: Request,
  wish: Wish,
): Promise<void> {
  const collection = refreshCollection;
  for (;;) {
    const waiting = pendingRefresh(store, name);
    const asked: RefreshRequest = {
      requestedAt: timestamp(clock.now()),
      by: caller.user,
      acceptRollback: wish.acceptRollback || waiting?.request.acceptRollback === true,
      rebootstrap: wish.rebootstrap || waiting?.request.rebootstrap === true,
    };
    try {
      await commitFenced(store, {
        expect: [{ collection, name, at: waiting?.entry.revision ?? 'absent' }],
        put: [{ collection, name, encode: () => Buffer.from(JSON.stringify(asked)) }],
        audit: [
          audit.record(
            changeDraft(caller, address === undefined ? {} : { address }, {
              verb: `${spiffeFederationKind.auditName}.refresh`,
              kind: spiffeFederationKind.kind,
              name,
              reason: reasonOf(asked),
            }),
          ),
        ],
      });
      return;
    } catch (error) {
      if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
    }
  }
}

function reasonOf({ acceptRollback, rebootstrap }: RefreshRequest): string {
  if (rebootstrap) return 'bootstrap again from the spec';
  return acceptRollback ? 'accept a lower sequence' : 'fetch now';
}

interface Wish {
  readonly acceptRollback: boolean;
  readonly rebootstrap: boolean;
  readonly waitSeconds: number;
}

function wishOf(body: unknown): Wish {
  const refuse = (why: string): never => {
    throw new HansaError('HANSA_BAD_REQUEST', `The request is invalid: ${why}.`);
  };
  const {
    acceptRollback = false,
    rebootstrap = false,
    waitSeconds = 0,
    ...others
  } = objectOf(body);
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) refuse(`unknown field ${JSON.stringify(unknown.slice(0, 64))}`);
  if (typeof acceptRollback !== 'boolean') return refuse('acceptRollback must be true or false');
  if (typeof rebootstrap !== 'boolean') return refuse('rebootstrap must be true or false');
  if (typeof waitSeconds !== 'number' || !(waitSeconds >= 0 && waitSeconds <= longestWaitSeconds)) {
    return refuse(`waitSeconds must be a number from 0 to ${longestWaitSeconds}`);
  }
  return { acceptRollback, rebootstrap, waitSeconds };
}

/** Whether the controller handled the request in time. */
function gone({ store, clock }: Parts, name: string, waitSeconds: number): Promise<boolean> {
  const isGone = (): boolean => store.get(refreshCollection, name) === undefined;
  if (waitSeconds === 0 || isGone()) return Promise.resolve(isGone());
  return new Promise((resolve) => {
    const finish = (): void => {
      watch.stop();
      timer.cancel();
      resolve(isGone());
    };
    const watch = store.watch(refreshCollection, store.revision, {
      changes: () => {
        if (isGone()) finish();
      },
      ended: finish,
    });
    const timer = clock.timer(waitSeconds * 1000, finish);
  });
}
