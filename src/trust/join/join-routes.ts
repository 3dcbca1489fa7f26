// Routes for operators: create the secret of a token, list members, forget a bot, and reinstate an agent.
// Operators forget an agent by deleting its Agent object.

import { createPublicKey } from 'node:crypto';
import { agentKind } from '../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { timestamp } from '../../api/object.ts';
import { changeDraft } from '../../core/access/audit-draft.ts';
import { HansaError } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import {
  type ApiRequest,
  type PlaneResponse,
  type PlaneRoute,
  route,
} from '../../core/plane/route.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import { signingProblem } from './conflicts.ts';
import type { KeptMember, Members } from './members.ts';
import { secretDigest } from './proof.ts';
import { type RefusedSvid, refusedSvid } from './refused-svids.ts';
import { encodeSecret, secretPrivateKey } from './secret.ts';
import { type SecretRecord, secretsCollection, type TokenBook } from './token-book.ts';
import { judgeVouching, vouchingDomain } from './vouching.ts';
import { trustPaths } from '../paths.ts';

/** One element of the response to GET members. */
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
  /** The peer that vouched for it. The site forgets the member when that peer is revoked. */
  readonly peer?: string;
  /** Why it cannot renew now; absent if it can. */
  readonly refused?: string;
  /** For an expired SVID: until when its key can still renew it. */
  readonly reattestUntil?: string;
  /** The last time that the site refused an older SVID of this member. */
  readonly refusedSvid?: {
    readonly at: string;
    readonly why: string;
    readonly address?: string;
  };
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
  const ofAgents = {
    needed: ({ name }: { readonly name: string }) =>
      parts.tokens.token(name)?.roles.includes('agent') === true,
    when: 'if the token has the role agent',
  };
  const entries = ['create', 'update'].map((verb) => ({ verb, kind: workloadEntryKind }));
  return [
    route({
      listener: 'api',
      method: 'POST',
      path: trustPaths.joinSecret,
      allow: 'rights',
      rights: [
        { verb: 'update', kind: joinTokenKind, nameFrom: 'name' },
        // As for writing the token: a machine with the secret gets identities.
        ...entries.map((right) => ({ ...right, only: ofAgents })),
      ],
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
      method: 'POST',
      path: trustPaths.agentReinstate,
      allow: 'rights',
      // As for forgetting the agent, which is the other decision about a conflict, and as for giving identities to
      // a machine: the process that stays gets those of the agent.
      rights: [{ verb: 'delete', kind: agentKind, nameFrom: 'name' }, ...entries],
      handle: async (request) => json(await reinstate(parts, request)),
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

/** Replaces an earlier secret. Only the response contains the secret. */
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
      `Cannot create a secret for the token ${name}: its method is ${token.method}.`,
    );
  }
  const use = tokens.use(token);
  if (use !== undefined) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot create a secret for the token ${name}: it is single-use, and ${use.instance} used it. Create another token.`,
    );
  }
  const seed = await random.bytes(32);
  const spki = createPublicKey(secretPrivateKey(seed)).export({ format: 'der', type: 'spki' });
  const record: SecretRecord = {
    uid: token.uid,
    digest: secretDigest(spki.subarray(-32)).toString('hex'),
    roles: token.roles,
    createdAtMs: clock.now(),
  };
  const bytes = Buffer.from(JSON.stringify(record));
  await commitFenced(store, {
    put: [{ collection: secretsCollection, name, encode: () => bytes }],
    audit: [
      audit.record(
        changeDraft(caller, address === undefined ? {} : { address }, {
          verb: 'join.token.secret',
          kind: joinTokenKind.kind,
          name,
          reason: 'created a new secret; any earlier one is invalid',
        }),
      ),
    ],
  });
  return { token: name, secret: encodeSecret(seed), expiresAt: timestamp(token.expiresAtMs) };
}

/** The site signs for the agent again. */
async function reinstate(
  { members, audit }: JoinRoutesParts,
  { params: { name }, caller, address }: Named,
): Promise<{ readonly name: string; readonly reinstated: true }> {
  const kept = members.get(`agent/${name}`);
  if (kept === undefined) {
    throw new HansaError('HANSA_NOT_FOUND', `No agent ${JSON.stringify(name)} has joined.`);
  }
  const row = audit.record(
    changeDraft(caller, address === undefined ? {} : { address }, {
      verb: 'agent.reinstate',
      kind: 'SVID',
      name,
      reason: `the site signs for it again; it was conflicted: ${kept.member.conflict ?? 'unknown'}`,
    }),
  );
  if (!(await members.reinstate(`agent/${name}`, [row]))) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot reinstate the agent ${name}: it is not conflicted.`,
    );
  }
  return { name, reinstated: true };
}

/** Forgets all instances of the bot. Those that a token still admits can join again. */
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

function summaries(parts: JoinRoutesParts): readonly MemberSummary[] {
  return parts.members.list().map((kept) => summary(parts, kept));
}

function summary(
  { store, clock, members, trustDomain, federationState }: JoinRoutesParts,
  { instance, member }: KeptMember,
): MemberSummary {
  const vouching = judgeVouching(member, trustDomain.name, federationState.current);
  const peer = member.peerUid === undefined ? undefined : vouchingDomain(member);
  const untilMs = members.reattestUntilMs(member);
  const isExpired = member.notAfterMs < clock.now();
  const isOver = isExpired && untilMs < clock.now();
  const refused =
    signingProblem(member) ??
    (vouching.state === 'trusted' ? undefined : vouching.why) ??
    (isOver
      ? `its SVID expired, and its key could renew it until ${timestamp(untilMs)}`
      : undefined);
  const refusal = refusedSvid(store, instance);
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
    ...(refused === undefined ? {} : { refused }),
    ...(isExpired ? { reattestUntil: timestamp(untilMs) } : {}),
    ...(refusal === undefined ? {} : { refusedSvid: told(refusal) }),
  };
}

function told({ atMs, why, address }: RefusedSvid): NonNullable<MemberSummary['refusedSvid']> {
  return { at: timestamp(atMs), why, ...(address === undefined ? {} : { address }) };
}
