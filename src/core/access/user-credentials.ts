// Issues short-lived certificates to people and tokens: `hansa login` and the exec credential plugin
// call it through POST /hansa/v1/user-svids. The client creates the key and sends only the public
// key.
//
// The owner of the admin socket may get a certificate for any user, as the owner can read and write
// the whole data folder anyway. A token only gets a certificate for itself. The certificate names
// the token, expires no later than the token, and is rejected after the token is revoked. A
// certificate cannot obtain another one; otherwise a thief could renew a stolen one for ever.

import { timestamp } from '../../api/object.ts';
import type { Clock } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { maxTtlSeconds } from '../identity/authority/phases.ts';
import type { ReservedIssuer } from '../identity/authority/authority.ts';
import { certificatePem } from '../identity/x509/pem.ts';
import { commitFenced } from '../lease/current-fence.ts';
import type { Store } from '../store/store.ts';
import { type AccessAudit, changeDraft, type Origin } from './audit-draft.ts';
import {
  adminUser,
  type Caller,
  isPersonName,
  personNameRule,
  tokenSegment,
  tokenUser,
} from './identity.ts';
import {
  invalidField,
  readFields,
  readPublicKey,
  readSeconds,
  readString,
} from './request-body.ts';
import { expiryOf, type TokenRegister } from './token-register.ts';

export interface UserCredentialParts {
  readonly store: Pick<Store, 'commit'>;
  readonly clock: Clock;
  readonly tokens: TokenRegister;
  readonly audit: AccessAudit;
  /** The right to issue below /hansa/user. */
  readonly issuer: Pick<ReservedIssuer, 'issue'>;
}

export interface UserCredential {
  /** The user that the certificate authenticates as. */
  readonly user: string;
  readonly spiffeId: string;
  /** PEM, the leaf first. */
  readonly certificate: string;
  readonly serialNumber: string;
  readonly notAfter: string;
}

const leastTtlSeconds = 60;

/** POST: `{publicKey, user?, ttlSeconds?}`, the key as a SubjectPublicKeyInfo in PEM. */
export async function issueUserCredential(
  parts: UserCredentialParts,
  caller: Caller,
  body: unknown,
  origin: Origin = {},
): Promise<UserCredential> {
  const fields = readFields(body, ['publicKey', 'user', 'ttlSeconds']);
  const asked = readSeconds(fields, 'ttlSeconds', leastTtlSeconds, maxTtlSeconds) ?? maxTtlSeconds;
  const publicKey = readPublicKey(fields);
  const { user, segment, longestSeconds } = subjectOf(parts, caller, fields);
  const issued = await parts.issuer.issue(segment, {
    publicKey,
    ttlSeconds: Math.min(asked, longestSeconds),
  });
  const notAfter = timestamp(issued.notAfterMs);
  await commitFenced(parts.store, {
    audit: [
      parts.audit.record(
        changeDraft(caller, origin, {
          verb: 'issue',
          kind: 'UserSVID',
          name: user,
          reason: `${issued.id.toString()}, serial number ${issued.serialHex}, until ${notAfter}`,
        }),
      ),
    ],
  });
  return {
    user,
    spiffeId: issued.id.toString(),
    certificate: issued.chain.map((der) => certificatePem(der)).join(''),
    serialNumber: issued.serialHex,
    notAfter,
  };
}

interface CredentialSubject {
  readonly user: string;
  readonly segment: string;
  readonly longestSeconds: number;
}

function subjectOf(
  parts: UserCredentialParts,
  caller: Caller,
  fields: Readonly<Record<string, unknown>>,
): CredentialSubject {
  if (caller.via === 'socket') {
    const user =
      fields.user === undefined
        ? adminUser
        : readString(fields, 'user', isPersonName, personNameRule);
    return { user, segment: user, longestSeconds: maxTtlSeconds };
  }
  if (caller.via === 'token') return tokenSubject(parts, caller, fields.user);
  throw noCredentialFor(caller);
}

/** For a caller that came with a certificate. */
export function noCredentialFor(caller: Caller): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    `Cannot issue a certificate to ${caller.user}: this needs the admin socket or a token. Run \`hansa login\` with --data-dir or --token-file.`,
    { details: { kind: 'UserSVID' } },
  );
}

function tokenSubject(
  parts: UserCredentialParts,
  caller: Caller,
  user: unknown,
): CredentialSubject {
  const record = parts.tokens.get(caller.credential ?? '');
  const leftSeconds =
    record === undefined ? 0 : Math.floor((expiryOf(record) - parts.clock.now()) / 1000);
  if (record === undefined || tokenUser(record.name) !== caller.user || leftSeconds < 1)
    throw new HansaError('HANSA_UNAUTHENTICATED', 'Unauthorized');
  if (user !== undefined && user !== caller.user)
    throw invalidField(
      'user',
      user,
      `${caller.user} or absent: a token logs in as itself; other users need the admin socket`,
    );
  return {
    user: caller.user,
    segment: tokenSegment(record.name, record.id),
    longestSeconds: leftSeconds,
  };
}
