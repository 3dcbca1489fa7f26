// Creates, lists and revokes tokens: the operations behind /hansa/v1/tokens. Each function checks the
// caller's rights and commits the change together with its audit records.
//
// A token is a user of its own, `token:NAME`, with the rights of the bindings that name it. Creation
// adds one binding, for the requested role. Revocation deletes the token's record and that binding.

import { timestamp } from '../../api/object.ts';
import type { Approvers } from '../approvals/approvers.ts';
import type { AuditDraft } from '../audit/event.ts';
import type { Clock, Random } from '../clock/clock.ts';
import { HansaError, hasCode } from '../errors/error.ts';
import { commitFenced } from '../lease/current-fence.ts';
import { valueOf } from '../store/reader.ts';
import type { Entry, RecordExpectation, Store } from '../store/store.ts';
import { type AccessAudit, changeDraft, type Origin } from './audit-draft.ts';
import type { Authorizer } from './authorizer.ts';
import { forbidden } from './denial.ts';
import { checkBind, merge } from './escalation.ts';
import { putObject } from './granting-object.ts';
import { type Caller, isTokenName, tokenCaller, tokenNameRule, tokenUser } from './identity.ts';
import { bindingsCollection, readRoleBindingSpec } from './policy.ts';
import { tokenKind } from './presets.ts';
import { invalidField, readFields, readSeconds, readString } from './request-body.ts';
import {
  expiryOf,
  type TokenRecord,
  type TokenRegister,
  tokensCollection,
} from './token-register.ts';
import { digestOfToken, makeTokenText } from './token-text.ts';

export interface TokenParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly authorizer: Authorizer;
  readonly tokens: TokenRegister;
  readonly audit: AccessAudit;
  /** Protects the right to approve. Tests without approvals leave it out. */
  readonly approvers?: Pick<Approvers, 'allowToken' | 'checkRevocation' | 'allow'>;
}

export interface TokenSummary {
  readonly name: string;
  readonly user: string;
  readonly role: string;
  readonly createdAt: string;
  readonly createdBy: string;
  readonly expiresAt: string;
  /** To the minute. */
  readonly lastUsedAt?: string;
  readonly state: 'active' | 'expired';
}

export interface CreatedToken extends TokenSummary {
  /** Only this response contains it: the site stores its digest. */
  readonly token: string;
}

const day = 86_400;
/** Long enough for monthly jobs, short enough that a forgotten token does not stay valid for years. */
const defaultTtlSeconds = 30 * day;
const leastTtlSeconds = 60;
const mostTtlSeconds = 366 * day;

/** The site keeps all tokens in memory and lists them without pages. */
const maxTokens = 10_000;
/** Attempts when another writer causes a conflict. */
const maxAttempts = 8;

const tokenLabel = 'hansa.dev/token';

function bindingName(tokenName: string): string {
  return `token-${tokenName}`;
}

/** POST: `{name, role, ttlSeconds?}`. A caller cannot create a token with more rights than its own. */
export async function createToken(
  parts: TokenParts,
  caller: Caller,
  body: unknown,
  origin: Origin = {},
): Promise<CreatedToken> {
  const fields = readFields(body, ['name', 'role', 'ttlSeconds']);
  const name = readString(fields, 'name', isTokenName, tokenNameRule);
  const role = readString(fields, 'role', isRoleName, 'the name of a Role');
  const ttlSeconds = readSeconds(fields, 'ttlSeconds', leastTtlSeconds, mostTtlSeconds);
  requireRight(parts, caller, 'create');
  refuseExisting(parts, name);

  const now = parts.clock.now();
  const expiresAtMs = now + chosenTtl(parts, caller, ttlSeconds, now) * 1000;
  const token = await makeTokenText(parts.random);
  const id = Buffer.from(await parts.random.bytes(8)).toString('hex');
  const made: TokenRecord = {
    name,
    id,
    digest: digestOfToken(token).toString('hex'),
    role,
    createdAt: timestamp(now),
    createdBy: caller.user,
    expiresAt: timestamp(expiresAtMs),
  };
  const draft = drafter(caller, origin);
  await retrying(async () => {
    requireRight(parts, caller, 'create');
    refuseExisting(parts, name);
    const held = checkGrant(parts, caller, name, role);
    const asked = { name, role, ttlSeconds };
    const spent = await parts.approvers?.allowToken(asked, { caller, origin });
    await commitFenced(parts.store, {
      expect: [
        { collection: tokensCollection, name, at: 'absent' },
        { collection: bindingsCollection, name: bindingName(name), at: 'absent' },
        ...held,
        ...(spent?.expect ?? []),
      ],
      put: [
        {
          collection: tokensCollection,
          name,
          encode: () => Buffer.from(JSON.stringify(made), 'utf8'),
        },
        putObject({
          kind: 'RoleBinding',
          collection: bindingsCollection,
          name: bindingName(name),
          uid: parts.random.uuid(),
          createdAtMs: now,
          labels: { [tokenLabel]: name },
          spec: { role, subjects: [{ kind: 'Token', name }] },
        }),
        ...(spent?.put ?? []),
      ],
      audit: [
        ...[
          draft('create', tokenKind.kind, name, `id ${id}, role ${role}, until ${made.expiresAt}`),
          draft('create', 'RoleBinding', bindingName(name), `role ${role} to Token ${name}`),
        ].map((row) => parts.audit.record(row)),
        ...(spent?.audit ?? []),
      ],
    });
  });
  return { ...summaryOf(parts, made), token };
}

/** GET. In order of the names; never a token or its digest. */
export function listTokens(parts: TokenParts, caller: Caller): readonly TokenSummary[] {
  const request = { verb: 'list', plural: tokenKind.plural };
  if (!parts.authorizer.authorize(caller, request).allowed) throw forbidden(caller, request);
  return parts.tokens.list().map((record) => summaryOf(parts, record));
}

export interface RevokedToken {
  readonly name: string;
  /** Other bindings that name the token. They have no effect until a token of this name exists again. */
  readonly remainingBindings: readonly string[];
}

/** DELETE. From the next request on, the site rejects the token and every certificate obtained with it. */
export async function revokeToken(
  parts: TokenParts,
  caller: Caller,
  name: string,
  origin: Origin = {},
): Promise<RevokedToken> {
  requireRight(parts, caller, 'delete', name);
  const draft = drafter(caller, origin);
  await retrying(async () => {
    const entry = parts.store.get(tokensCollection, name);
    if (entry === undefined)
      throw new HansaError(
        'HANSA_NOT_FOUND',
        `Cannot revoke the token ${JSON.stringify(name)}: it does not exist. \`hansa access list\` shows all tokens.`,
      );
    const binding = parts.store.get(bindingsCollection, bindingName(name));
    const ours = binding !== undefined && isOwnBinding(binding, name);
    const { relied, request } = parts.approvers?.checkRevocation(name) ?? {};
    const other = relied === undefined ? undefined : parts.store.get(tokensCollection, relied);
    const spent = request && (await parts.approvers?.allow(request, { caller, origin }));
    await commitFenced(parts.store, {
      expect: [
        ...[entry, ...(ours ? [binding] : []), ...(other === undefined ? [] : [other])].map(
          (known): RecordExpectation => ({
            collection: known.collection,
            name: known.name,
            at: known.revision,
          }),
        ),
        ...(spent?.expect ?? []),
      ],
      put: spent?.put ?? [],
      delete: [
        { collection: tokensCollection, name },
        ...(ours ? [{ collection: bindingsCollection, name: binding.name }] : []),
      ],
      audit: [
        ...[
          draft('delete', tokenKind.kind, name, 'revoked'),
          ...(ours
            ? [draft('delete', 'RoleBinding', binding.name, `Token ${name} is revoked`)]
            : []),
        ].map((row) => parts.audit.record(row)),
        ...(spent?.audit ?? []),
      ],
    });
  });
  parts.store.facts.delete(tokensCollection, name);
  const user = tokenUser(name);
  return {
    name,
    remainingBindings: parts.authorizer.policy
      .bindingsOf({ user, groups: [] })
      .map(({ binding }) => binding.name),
  };
}

/**
 * Checks the requested role, and the roles of bindings that already name this token. Otherwise the
 * creator could take over the rights of another token of that name.
 */
function checkGrant(
  { authorizer }: TokenParts,
  caller: Caller,
  name: string,
  role: string,
): readonly RecordExpectation[] {
  let held = checkBind(authorizer, caller, role, tokenKind.plural, name);
  // A binding may come before its role, but a token without rights is surely a mistake.
  if (authorizer.policy.role(role) === undefined) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `Cannot create the token ${JSON.stringify(name)}: the Role ${JSON.stringify(role)} does not exist. \`hansa get roles\` shows all roles.`,
    );
  }
  for (const { binding } of authorizer.policy.bindingsOf(tokenCaller(name))) {
    if (authorizer.policy.role(binding.role) === undefined) continue;
    held = merge(held, checkBind(authorizer, caller, binding.role, tokenKind.plural, name));
    if (binding.expectation !== undefined) held = merge(held, [binding.expectation]);
  }
  return held;
}

/** A token cannot create a token that outlives it, or it could renew itself under another name. */
function chosenTtl(
  { tokens }: TokenParts,
  caller: Caller,
  asked: number | undefined,
  now: number,
): number {
  const own = tokens.list().find((record) => tokenUser(record.name) === caller.user);
  if (own === undefined) return asked ?? defaultTtlSeconds;
  const left = Math.floor((expiryOf(own) - now) / 1000);
  if (asked !== undefined && asked > left)
    throw invalidField(
      'ttlSeconds',
      asked,
      `at most ${left}: the new token must not outlive ${own.name}, which creates it`,
    );
  return asked ?? Math.min(left, defaultTtlSeconds);
}

function isRoleName(text: string): boolean {
  return text !== '' && text.length <= 253;
}

function drafter(caller: Caller, origin: Origin) {
  return (verb: string, kind: string, name: string, reason: string): AuditDraft =>
    changeDraft(caller, origin, { verb, kind, name, reason });
}

function requireRight(parts: TokenParts, caller: Caller, verb: string, name = ''): void {
  const request = { verb, plural: tokenKind.plural, name };
  if (!parts.authorizer.authorize(caller, request).allowed) throw forbidden(caller, request);
}

function refuseExisting({ tokens, store }: TokenParts, name: string): void {
  if (tokens.get(name) !== undefined)
    throw new HansaError(
      'HANSA_ALREADY_EXISTS',
      `Cannot create the token ${JSON.stringify(name)}: it exists already. Choose another name, or revoke it first: hansa access revoke ${name}`,
    );
  if (store.get(bindingsCollection, bindingName(name)) !== undefined)
    throw new HansaError(
      'HANSA_ALREADY_EXISTS',
      `Cannot create the token ${JSON.stringify(name)}: its RoleBinding ${bindingName(name)} exists already. Choose another name, or delete that binding.`,
    );
  if (store.count(tokensCollection) >= maxTokens)
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Cannot create the token ${JSON.stringify(name)}: the site has ${maxTokens} tokens, which is the limit. Revoke those that are no longer needed.`,
    );
}

/** Whether the binding is still as `create` wrote it. A user may have changed it; then it stays. */
function isOwnBinding(entry: Entry, name: string): boolean {
  const object = valueOf(entry) as {
    metadata?: { labels?: Record<string, string> };
    spec?: unknown;
  };
  const { subjects } = readRoleBindingSpec(object.spec);
  return (
    object.metadata?.labels?.[tokenLabel] === name &&
    subjects.every((subject) => subject.kind === 'Token' && subject.name === name)
  );
}

async function retrying(attempt: () => Promise<void>): Promise<void> {
  for (let count = 1; ; count += 1) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (!hasCode(error, 'HANSA_CONFLICT') || count >= maxAttempts) throw error;
    }
  }
}

function summaryOf({ tokens, clock }: TokenParts, record: TokenRecord): TokenSummary {
  const lastUsedAt = tokens.lastUsedAt(record.name);
  return {
    name: record.name,
    user: tokenUser(record.name),
    role: record.role,
    createdAt: record.createdAt,
    createdBy: record.createdBy,
    expiresAt: record.expiresAt,
    ...(lastUsedAt === undefined ? {} : { lastUsedAt }),
    state: clock.now() < expiryOf(record) ? 'active' : 'expired',
  };
}
