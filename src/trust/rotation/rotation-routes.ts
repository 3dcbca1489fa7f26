// Routes for manual rotation. Only owners of the site may take a step, because it can lock out all
// peers. To read the state, a caller needs the right to read the Site and its peers.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { siteKind } from '../../api/kinds/site.ts';
import { actorOf } from '../../core/access/audit-draft.ts';
import type { Caller } from '../../core/access/identity.ts';
import { HansaError } from '../../core/errors/error.ts';
import { objectOf } from '../../core/json/json-body.ts';
import { authorityAudit } from '../../core/identity/authority/audit.ts';
import type { AuthorityKind } from '../../core/identity/authority/phases.ts';
import { type PlaneResponse, type PlaneRoute, route } from '../../core/plane/route.ts';
import type { RotationParts } from '../controllers/rotation-controller.ts';
import { noteRotation } from './rotation-request.ts';
import { trustPaths } from '../paths.ts';

/** The body of a step. */
export interface StepRequest {
  /** Default: x509. */
  readonly kind?: AuthorityKind;
  /** The ID of the authority, or at least its first 8 characters. */
  readonly id?: string;
  /** With rotate: an emergency rotation, which does not wait for peers. */
  readonly emergency?: boolean;
  /** With emergency: a new key, even if an authority is prepared. */
  readonly fresh?: boolean;
}

const maxBodyBytes = 4096;

export function rotationRoutes(parts: RotationParts): readonly PlaneRoute[] {
  return [
    route({
      listener: 'api',
      method: 'GET',
      path: trustPaths.authorities,
      allow: 'rights',
      rights: [
        { verb: 'get', kind: siteKind, name: siteKind.singleton as string },
        { verb: 'list', kind: federationPeerKind },
      ],
      handle: () => answer(parts),
    }),
    route({
      listener: 'api',
      method: 'POST',
      path: trustPaths.rotationStep,
      allow: 'owner',
      refusal: notOwner,
      handle: async (request) => {
        const { caller, address, params } = request;
        const asked = await request.json(maxBodyBytes, stepRequest);
        await take(parts, params.step, asked, { caller, address });
        // The next fetch of the bundle gets the new one, with its sequence.
        await parts.publisher.current();
        return answer(parts);
      },
    }),
  ];
}

async function take(
  { authority, audit, store, clock, rotation }: RotationParts,
  verb: string,
  { kind = 'x509', id, emergency = false, fresh = false }: StepRequest,
  { caller, address }: { readonly caller: Caller; readonly address: string | undefined },
): Promise<void> {
  const actor = actorOf(caller, address === undefined ? {} : { address });
  const tell = authorityAudit(audit, actor, emergency ? 'emergency' : undefined);
  switch (verb) {
    case 'prepare':
      await authority.prepare(kind, tell);
      return;
    case 'activate':
      await authority.activate(kind, id, tell);
      return;
    case 'taint':
      await authority.taint(kind, id, tell);
      return;
    case 'revoke':
      await authority.revoke(kind, id, tell);
      return;
    case 'rotate': {
      const next = rotation.prepared(kind);
      if (emergency) {
        // A JWT rotation locks out no peer, because fetches are verified with X.509.
        const kept = fresh ? undefined : next;
        const lost =
          kind === 'jwt'
            ? []
            : rotation.losesWith(kept ?? { rootIds: await authority.upstreamRootIds() });
        const { id: active } = await authority.replaceAtOnce(kind, { fresh }, tell);
        await noteRotation(store, kind, { unconfirmed: { id: active, peers: lost } });
        return;
      }
      const prepared = next ?? (await authority.prepare(kind, tell));
      await noteRotation(store, kind, {
        requested: { id: prepared.id, by: caller.user, atMs: clock.now() },
      });
      return;
    }
    default:
      throw new HansaError(
        'HANSA_NOT_FOUND',
        `There is no step ${JSON.stringify(verb.slice(0, 40))}. The steps are prepare, activate, taint, revoke and rotate.`,
      );
  }
}

function notOwner({ user }: Caller): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    `Cannot change the authorities for ${user}: only an owner of the site may, for example over the admin socket.`,
    { details: { kind: 'Authority' } },
  );
}

async function answer({ rotation, authority }: RotationParts): Promise<PlaneResponse> {
  return {
    status: 200,
    contentType: 'application/json',
    body: JSON.stringify(rotation.status(await authority.upstreamRootIds())),
  };
}

function stepRequest(body: unknown): StepRequest {
  const { kind, id, emergency, fresh, ...others } = objectOf(body);
  const [other] = Object.keys(others);
  if (other !== undefined) throw wrong(`${JSON.stringify(other.slice(0, 40))} is an unknown field`);
  if (kind !== undefined && kind !== 'x509' && kind !== 'jwt') {
    throw wrong('kind must be x509 or jwt');
  }
  if (id !== undefined && (typeof id !== 'string' || id.length > 128)) {
    throw wrong('id must be a string of at most 128 characters');
  }
  return {
    ...(kind === undefined ? {} : { kind }),
    ...(id === undefined ? {} : { id }),
    emergency: flag(emergency, 'emergency'),
    fresh: flag(fresh, 'fresh'),
  };
}

function flag(value: unknown, name: string): boolean {
  if (value === undefined) return false;
  if (typeof value !== 'boolean') throw wrong(`${name} must be true or false`);
  return value;
}

function wrong(why: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', `Cannot rotate: ${why}.`);
}
