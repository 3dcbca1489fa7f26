// What operators do about joining beyond editing tokens: make the secret of a token, see who joined,
// forget an agent or a bot. Rights are those on JoinToken.

import { createPublicKey } from 'node:crypto';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { timestamp } from '../../api/object.ts';
import { changeDraft } from '../../core/access/audit-draft.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import {
  type ApiRequest,
  type PlaneResponse,
  type PlaneRoute,
  route,
} from '../../core/plane/route.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import type { Members } from './members.ts';
import { secretDigest } from './proof.ts';
import { encodeSecret, secretPrivateKey } from './secret.ts';
import { type SecretRecord, secretsCollection, type TokenBook } from './token-book.ts';
import { judgeVouching, vouchingDomain } from './vouching.ts';
import { trustPaths } from '../paths.ts';

/** Of GET members. */
export interface MemberSummary {
  readonly instance: string;
  readonly role: string;
  readonly name: string;
  readonly token: string;
  readonly provenBy: string;
  readonly joinedAt: string;
  readonly renewedAt: string;
  readonly notAfter: string;
  readonly generation: number;
  /** The peer that it joined through; it is forgotten with that peer. */
  readonly peer?: string;
  /** Why it cannot renew now. */
  readonly refused?: string;
}

export type JoinRoutesParts = Pick<
  PlaneContext,
  'store' | 'clock' | 'random' | 'audit' | 'trustDomain'
> & {
  readonly members: Members;
  readonly tokens: TokenBook;
  readonly federationState: { readonly current: FederationState };
};

/** A request for the token, agent or bot that its path names. */
type Named = Pick<ApiRequest<'{name}'>, 'params' | 'caller' | 'address'>;

export function joinRoutes(parts: JoinRoutesParts): readonly PlaneRoute[] {
  return [
    route({
      listener: 'api',
      method: 'POST',
      path: trustPaths.joinSecret,
      allow: 'rights',
      rights: [{ verb: 'update', kind: joinTokenKind, nameFrom: 'name' }],
      handle: async (request) => json(await makeSecret(parts, request)),
    }),
    route({
      listener: 'api',
      method: 'GET',
      path: trustPaths.members,
      allow: 'rights',
      rights: [{ verb: 'list', kind: joinTokenKind }],
      handle: () => json({ members: summaries(parts) }),
    }),
    route({
      listener: 'api',
      method: 'DELETE',
      path: trustPaths.agent,
      allow: 'rights',
      rights: [{ verb: 'delete', kind: joinTokenKind }],
      handle: async (request) => json(await forget(parts, request)),
    }),
    route({
      listener: 'api',
      method: 'DELETE',
      path: trustPaths.bot,
      allow: 'rights',
      rights: [{ verb: 'delete', kind: joinTokenKind }],
      handle: async (request) => json(await forgetBot(parts, request)),
    }),
  ];
}

function json(value: unknown): PlaneResponse {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(value) };
}

/** A new one takes the place of an earlier one. It is in the answer, and nowhere else. */
async function makeSecret(
  { tokens, store, clock, random, audit }: JoinRoutesParts,
  { params: { name }, caller, address }: Named,
): Promise<{ readonly token: string; readonly secret: string; readonly expiresAt: string }> {
  const token = tokens.token(name);
  if (token === undefined) {
    throw new HansaError('HANSA_NOT_FOUND', `There is no join token ${JSON.stringify(name)}.`);
  }
  if (token.method !== 'secret') {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot make a secret for the token ${name}: its method is ${token.method}.`,
    );
  }
  const seed = await random.bytes(32);
  const spki = createPublicKey(secretPrivateKey(seed)).export({ format: 'der', type: 'spki' });
  const record: SecretRecord = {
    uid: token.uid,
    digest: secretDigest(spki.subarray(-32)).toString('hex'),
    createdAtMs: clock.now(),
  };
  const bytes = Buffer.from(JSON.stringify(record));
  await store.commit({
    put: [{ collection: secretsCollection, name, encode: () => bytes }],
    audit: [
      audit.record(
        changeDraft(caller, address === undefined ? {} : { address }, {
          verb: 'join.token.secret',
          kind: joinTokenKind.kind,
          name,
          reason: 'made a new secret; an earlier one is void',
        }),
      ),
    ],
  });
  return { token: name, secret: encodeSecret(seed), expiresAt: timestamp(token.expiresAtMs) };
}

async function forget(
  { members, audit }: JoinRoutesParts,
  { params: { name }, caller, address }: Named,
): Promise<{ readonly name: string; readonly forgotten: true }> {
  const row = audit.record(
    changeDraft(caller, address === undefined ? {} : { address }, {
      verb: 'agent.forget',
      kind: 'SVID',
      name,
      reason: 'the name is free, and its SVID cannot renew',
    }),
  );
  if (!(await members.forget(`agent/${name}`, [row]))) {
    throw new HansaError('HANSA_NOT_FOUND', `No agent ${JSON.stringify(name)} has joined.`);
  }
  return { name, forgotten: true };
}

/** All its instances: a bot has no other name, and whoever still may joins again. */
async function forgetBot(
  { members, audit }: JoinRoutesParts,
  { params: { name }, caller, address }: Named,
): Promise<{ readonly name: string; readonly forgotten: number }> {
  const forgotten = await members.forgetBot(name, (instances) =>
    audit.record(
      changeDraft(caller, address === undefined ? {} : { address }, {
        verb: 'bot.forget',
        kind: 'SVID',
        name,
        reason: `${instances} of it: none of their SVIDs can renew`,
      }),
    ),
  );
  if (forgotten === 0) {
    throw new HansaError('HANSA_NOT_FOUND', `No bot ${JSON.stringify(name)} has joined.`);
  }
  return { name, forgotten };
}

function summaries({
  members,
  trustDomain,
  federationState,
}: JoinRoutesParts): readonly MemberSummary[] {
  const { current } = federationState;
  return members.list().map(({ instance, member }) => {
    const vouching = judgeVouching(member, trustDomain.name, current);
    const peer = member.peerUid === undefined ? undefined : vouchingDomain(member);
    return {
      instance,
      role: member.role,
      name: member.name,
      token: member.token,
      provenBy: member.provenBy,
      joinedAt: timestamp(member.joinedAtMs),
      renewedAt: timestamp(member.renewedAtMs),
      notAfter: timestamp(member.notAfterMs),
      generation: member.generation,
      ...(peer === undefined ? {} : { peer }),
      ...(vouching.state === 'trusted' ? {} : { refused: vouching.why }),
    };
  });
}
